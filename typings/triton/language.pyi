# Triton as untyped, whether or not it is installed: its language is not Python, and its own types say little of it.
from typing import Any

def __getattr__(name: str) -> Any: ...
