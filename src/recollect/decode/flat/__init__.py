"""Hand-written steps of language models, layer by layer, for one token at a time."""
