"""Write src/recollect/layers/classes.pyi, the keyword arguments of the layers: python -m tools.layers"""

import inspect
import re
import types
from dataclasses import Field
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from recollect.core.contract import Config
from recollect.layers import ENCODERS, LAYERS, classes, torch_names
from recollect.layers.keywords import is_required, ordered_fields
from recollect.layers.recurrent import RecurrentConfig

PATH = Path(classes.__file__).with_suffix(".pyi")
HEAD = '''\
"""Layers and encoders with their keyword arguments. Written by `python -m tools.layers` from their settings."""

from typing import Any, Literal, overload

from ..core import contract
'''
TAIL = """\
LAYERS: dict[str, type[contract.Layer[Any]]]
ENCODERS: dict[str, type[contract.Encoder]]
"""
TORCH = (  # arguments of torch that can have one value only
    "batch_first: Literal[True] = True",
    "bidirectional: Literal[False] = False",
    "proj_size: Literal[0] = 0",
)


def document() -> str:
    """The stub as text."""
    pairs = [(classes.LAYERS[name], LAYERS[name]) for name in classes.LAYERS]
    pairs += [(classes.ENCODERS[name], ENCODERS[name]) for name in classes.ENCODERS]
    bodies = [describe(layer, config) for layer, config in pairs]
    modules = sorted(set(re.findall(r"\b([a-z_][a-z_\d]*)\.[A-Z]", "".join(bodies))) - {"contract"})
    imports = "from . import (\n" + "".join(f"    {name},\n" for name in modules) + ")\n"
    return "\n".join([HEAD + imports, *bodies, TAIL])


def describe(layer: type, config: type[Config]) -> str:
    """One class of the stub."""
    base = layer.__mro__[1] if layer.__module__ == classes.__name__ else layer
    own = ordered_fields(config)
    forms = [[f"config: {spell(config)}", "/"], ["*", *(argument(field, config) for field in own)]]
    if issubclass(config, RecurrentConfig):
        theirs = ["input_size: int", "hidden_size: int | None = None", "num_layers: int = 1", "*"]
        rest = [field for field in own if field.name not in ("num_layers", *torch_names.SETTINGS.values())]
        forms.append([*theirs, *(argument(field, config) for field in rest), *TORCH])
    lines = [f"class {layer.__name__}({spell(base)}):", f'    """{first_line(layer)}"""\n']
    for form in forms:
        lines += ["    @overload", write_function(["self", *form])]
    return "\n".join(lines) + "\n"


def write_function(arguments: list[str]) -> str:
    """An `__init__` as the formatter leaves it: on one line where it fits, else an argument a line."""
    line = f"    def __init__({', '.join(arguments)}) -> None: ..."
    if len(line) <= 120:
        return line
    return "\n".join(["    def __init__(", *(f"        {part}," for part in arguments), "    ) -> None: ..."])


def first_line(layer: type) -> str:
    return (inspect.getdoc(layer) or "").partition("\n")[0]


def argument(field: Field[Any], config: type[Config]) -> str:
    """A setting as a keyword argument."""
    hint = spell(get_type_hints(config)[field.name])
    default = "" if is_required(field) else f" = {field.default!r}"
    return f"{field.name}: {hint}{default}".replace("'", '"')


def spell(hint: Any) -> str:
    """A type as the stub writes it."""
    if hint is type(None):
        return "None"
    if hint is Any or hint is Ellipsis:
        return "Any" if hint is Any else "..."
    parts = get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return " | ".join(map(spell, parts))
    if get_origin(hint) is Literal:
        return f"Literal[{', '.join(map(repr, parts))}]"
    if parts:
        return f"{get_origin(hint).__name__}[{', '.join(map(spell, parts))}]"
    if hint.__module__ == "builtins":
        return hint.__name__
    return f"{hint.__module__.rpartition('.')[2]}.{hint.__name__}"


if __name__ == "__main__":
    PATH.write_text(document(), encoding="utf-8")
