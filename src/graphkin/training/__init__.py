"""A method on a graph: prepare, train, keep."""
