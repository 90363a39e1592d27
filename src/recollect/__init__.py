"""recollect: every way a neural network can remember a sequence, behind one call.

    import recollect

    model = recollect.load("demo-text")                    # a trained run, by its folder or name
    print("".join(model.generate("KING:", length=100)))

    model = recollect.train("series", "load.csv", model="gru", steps=1000)
    race = recollect.race("text", "book.txt", models=["lstm", "transformer"])

    layer = recollect.build("lstm", dim=8)                 # or a layer alone: a state, and one call
    y, state = layer(x, layer.initial_state(batch=2))

docs/python.md is a tour; every error of the package is a `RecollectError` with a message of one line.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .core.errors import RecollectError

if TYPE_CHECKING:
    from . import layers
    from .api.loading import load
    from .api.racing import Race, race
    from .api.training import evaluate, resume, train
    from .core.trained import TrainedModel
    from .export.layer import open_step
    from .layers import build, build_encoder

__version__ = "0.1.0"
__all__ = [
    "Race",
    "RecollectError",
    "TrainedModel",
    "__version__",
    "build",
    "build_encoder",
    "evaluate",
    "layers",
    "load",
    "open_step",
    "race",
    "resume",
    "train",
]

_HOMES = {  # imported when they are first asked for: `import recollect` imports neither torch nor numpy
    "Race": "api.racing",
    "TrainedModel": "core.trained",
    "build": "layers",
    "build_encoder": "layers",
    "evaluate": "api.training",
    "load": "api.loading",
    "open_step": "export.layer",
    "race": "api.racing",
    "resume": "api.training",
    "train": "api.training",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    if name == "layers":
        return import_module(".layers", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
