"""Charts and figures, from plain data."""
