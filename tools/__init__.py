"""Builders of the documents that come from results/; `python -m tools.results` makes them all."""
