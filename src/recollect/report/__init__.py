"""Results to figures, tables and pages."""
