"""Captions of films: what happens in pictures that stand in an order."""
