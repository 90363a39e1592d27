"""Writing with a model: greedy, sampling, all over the one call."""
