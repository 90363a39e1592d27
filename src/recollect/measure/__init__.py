"""Instruments: numbers out, no plots."""
