"""Instruments: numbers out, no plots.

from recollect.measure.instruments import inspect
reading = inspect("runs/text-lstm-0", "gradients")
reading.summary, reading.figures, reading.charts
"""
