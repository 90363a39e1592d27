"""Sound to characters."""
