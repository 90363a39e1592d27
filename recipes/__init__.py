"""Runs worth repeating, one JSON file each; `python -m recipes.run` trains several side by side."""
