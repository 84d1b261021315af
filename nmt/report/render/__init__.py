"""Turn statistics into pages and tables."""
