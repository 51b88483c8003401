"""Results as one self-contained HTML page, and as Markdown tables."""
