"""What textbooks and papers say about this lineage, each as an experiment. One file a claim; its name is its id."""

import pkgutil
from importlib import import_module
from types import ModuleType

from .claim import Claim
from .terms import hash_terms

SHARED = ("claim", "laboratory", "runner", "terms")  # modules that hold no claim


def names() -> list[str]:
    """The ids of all claims, without importing them."""
    found = [module.name for module in pkgutil.iter_modules(__path__)]
    return [name.replace("_", "-") for name in found if name not in SHARED]


def find(name: str) -> ModuleType:
    """The file of this id as a module."""
    return import_module(f"{__name__}.{name.replace('-', '_')}")


def load(name: str) -> Claim:
    """The claim of this id, out of its file."""
    return find(name).CLAIM


def code_of(name: str, full: bool = False) -> str:
    """The hash of what decides a claim in one of its forms."""
    return hash_terms(find(name), full)
