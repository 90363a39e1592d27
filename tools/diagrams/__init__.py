"""Diagrams of the course, drawn by code: python -m tools.diagrams [NAME …] writes docs/course/figures."""
