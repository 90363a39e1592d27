"""Self-contained pages, from plain data."""
