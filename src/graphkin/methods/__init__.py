"""Methods as values: components put together, their settings, their names."""
