"""What there is to read: chapters of the course and pages of layers, as HTML that asks no other host for anything."""
