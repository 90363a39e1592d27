"""recollect: every way a neural network can remember a sequence, behind one call.

import recollect, torch
layer = recollect.build("lstm", dim=8)
state = layer.initial_state(batch=2)
y, state = layer(torch.randn(2, 5, 8), state)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .layers import build, build_encoder

__version__ = "0.1.0"
__all__ = ["__version__", "build", "build_encoder"]


def __getattr__(name: str) -> Any:
    # torch is imported only when something needs it: `recollect --help` does not.
    if name in ("build", "build_encoder"):
        from . import layers

        return getattr(layers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
