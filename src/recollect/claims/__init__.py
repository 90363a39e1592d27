"""What textbooks and papers say about this lineage, each as an experiment. One file a claim; its name is its id."""

import pkgutil
from importlib import import_module

from .claim import Claim

SHARED = ("claim", "laboratory", "runner")  # modules that hold no claim


def names() -> list[str]:
    """The ids of all claims, without importing them."""
    found = [module.name for module in pkgutil.iter_modules(__path__)]
    return [name.replace("_", "-") for name in found if name not in SHARED]


def load(name: str) -> Claim:
    """The claim of this id, out of its file."""
    return import_module(f"{__name__}.{name.replace('-', '_')}").CLAIM
