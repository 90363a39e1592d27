"""A hash of what decides a claim: the code of its file and the terms it uses, without words meant for a reader.

A row whose hash is another one is stale. What the laboratory, the layers and the training loop do is not in it: for
those a row names its commit.
"""

import ast
import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

WORDS = ("CLAIM", "_form")  # what a claim's texts are bound to, and what words its sizes
FORMS = {False: "QUICK", True: "FULL"}  # and the sizes of its two forms, where they are bound apart


def hash_terms(module: ModuleType, full: bool = False) -> str:
    """The hash of one form of a claim's module.

    Comments, docstrings, imports and texts with a space in them do not count, nor do the sizes of the other form.
    """
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    apart = {*WORDS, FORMS[not full]}
    body = [_code(node) for node in tree.body if not apart & set(_bound(node))]
    names = [name for name in vars(module) if name.isupper() and not name.startswith("_") and name not in apart]
    terms = [(name, _plain(getattr(module, name))) for name in sorted(names)]
    return hashlib.sha256(repr((body, terms)).encode()).hexdigest()[:16]


def _bound(node: ast.stmt) -> list[str]:
    """The names that a statement binds."""
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _code(node: Any) -> Any:
    """A syntax tree as nested tuples, the same for every version of Python, without what is there for a reader."""
    if isinstance(node, list):
        return [found for part in node if (found := _code(part)) is not None]
    if not isinstance(node, ast.AST):
        return node
    if isinstance(node, ast.Import | ast.ImportFrom):
        return None
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return None  # a docstring
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
        return "words"
    if isinstance(node, ast.JoinedStr):
        parts = [part.value for part in node.values if isinstance(part, ast.Constant)]
        return "words" if any(" " in str(part) for part in parts) else ["words", *map(_code, node.values)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_":
        return _code(node.args[0])  # a text to be translated
    found = [(name, _code(value)) for name, value in ast.iter_fields(node)]
    return type(node).__name__, [(name, value) for name, value in found if value not in (None, [])]


def _plain(value: Any) -> Any:
    """A term as numbers and names."""
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, [(field.name, _plain(getattr(value, field.name))) for field in fields(value)]
    if isinstance(value, Mapping):
        return [(_plain(key), _plain(part)) for key, part in value.items()]
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, list | tuple | range):
        return [_plain(part) for part in value]
    if isinstance(value, str):
        return "words" if " " in value else str(value)
    if isinstance(value, bool | int | float | None):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__)
