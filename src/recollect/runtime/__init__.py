"""Exported models run by onnxruntime, without torch: sessions, states in bound memory, the choice of tokens, text.

Nothing here imports torch, and onnxruntime only when a session is opened.
"""
