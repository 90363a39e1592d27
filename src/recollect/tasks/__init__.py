"""Jobs: data, loss, metric and baselines behind one interface."""
