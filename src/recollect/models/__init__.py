"""Models: layers plus input and output."""
