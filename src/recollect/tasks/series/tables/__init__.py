"""Tables of time series: what their columns are, how their cells are read, and the grid that their rows fill."""
