"""Runs written as ONNX graphs, after they agreed with the model's own call."""
