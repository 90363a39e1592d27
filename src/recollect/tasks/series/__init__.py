"""Forecasting of time series."""
