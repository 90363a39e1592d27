"""Write docs/api.md, the public Python API, from its signatures and docstrings: python -m tools.api"""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from doctest import DocTestParser, Example
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

import recollect
from recollect import layers, tasks
from recollect.core.trained import TrainedModel

PATH = Path(__file__).resolve().parents[1] / "docs" / "api.md"
WIDTH = 100  # of a signature on one line
START = """\
# The Python API

What `import recollect` offers; [a tour](python.md) shows it at work, and [Settings](settings.md) lists what `train`,
`race` and the layers take. This page is made from the code by `python -m tools.api`.

`import recollect` alone imports neither torch nor numpy; each name below is imported when it is first used.

## What is public

Versions are semantic (MAJOR.MINOR.PATCH, [semver.org](https://semver.org)). Until 1.0 a new MINOR version may change
what is public, and [the changes](../CHANGELOG.md) say how; from 1.0 on only a new MAJOR version may. Public are:

- the names on this page (`recollect.__all__`, the methods and results of trained models, `recollect.layers`), their
  arguments, and the settings by name;
- [the contract](contract.md): `initial_state`, one call, states as named tuples;
- run folders and exported folders: a version reads what every earlier version with the same MAJOR wrote;
- the commands and flags of the command line, and what they print with `--json`.

Everything else may change in any version: other modules, names that begin with `_`, the wording of messages and of
printed tables, the layout of pages, weights that a seed leads to, and speed."""
FUNCTIONS = ("load", "train", "resume", "evaluate", "race", "open_step")
LAYERS = ("build", "build_encoder", "add", "card")


def document() -> str:
    """The whole page."""
    parts = [START, "## Functions"]
    for name in FUNCTIONS:
        parts += describe(public(name), f"recollect.{name}")
    parts += ["## Trained models", *describe_class(TrainedModel)]
    kinds = {tasks.find_use(name): None for name in tasks.names()}
    results = {public("Race"): None}
    for kind in kinds:
        if kind is not TrainedModel:
            parts += describe_class(kind)
            results |= dict.fromkeys(found_results(kind))
    parts.append("## Results")
    for kind in results:
        parts += describe_class(kind)
    parts += ["## Layers", "Layers and encoders alone follow [the contract](contract.md)."]
    for name in getattr(layers, "__all__", LAYERS):
        each = getattr(layers, name)
        if inspect.isfunction(each):
            parts += describe(each, f"recollect.layers.{name}")
        elif inspect.isclass(each) and hasattr(each, "initial_state"):
            head = ast.parse(f"def {name}{inspect.signature(each)}: ...".replace("typing.", "")).body[0]
            parts += [f"### recollect.layers.{name}", code(signature(head)), first(each)]
    parts += ["## Errors", *describe_class(recollect.RecollectError)]
    return "\n\n".join(parts) + "\n"


def public(name: str) -> Any:
    """A public function or class, from the module that defines it."""
    return getattr(import_module(f"recollect.{recollect._HOMES[name]}"), name)


def describe_class(kind: type) -> list[str]:
    """A class: what it holds, its properties, and its own methods in the order of the file."""
    parts = [f"### {kind.__name__}", first(kind)]
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        rows = [f"| `{name}` | `{written}` | {about} |" for name, written, about in fields_of(kind)]
        parts.append("\n".join(["| field | type | |", "|---|---|---|", *rows]))
    members = {name: member for name, member in vars(kind).items() if not name.startswith("_")}
    properties = {name: member for name, member in members.items() if is_property(member)}
    if rows := [f"| `{name}` | {one_line(member)} |" for name, member in properties.items() if member.__doc__]:
        parts.append("\n".join(["| property | |", "|---|---|", *rows]))
    for name, member in members.items():
        if inspect.isfunction(member) and member.__doc__:
            parts += describe(member, f"{kind.__name__}.{name}", "####")
    return parts


def is_property(member: Any) -> bool:
    return isinstance(member, property) or type(member).__name__ == "cached_property"


def describe(function: Any, title: str, level: str = "###") -> list[str]:
    """A function: its signature, its docstring, and the examples in it as code."""
    node = parse(function)
    node.args.args = [each for each in node.args.args if each.arg != "self"]
    return [f"{level} {title}", code(signature(node)), *prose(function)]


def parse(each: Any) -> Any:
    """The definition of a function or class as it is written."""
    return ast.parse(textwrap.dedent(inspect.getsource(each))).body[0]


def signature(node: Any) -> str:
    """The head of a function as code, one argument a line where it is long."""
    own = node.args
    front = [*own.posonlyargs, *own.args]
    rows = [
        *written(front, own.defaults),
        *(["*"] if own.kwonlyargs else []),
        *written(own.kwonlyargs, own.kw_defaults),
    ]
    if own.posonlyargs:
        rows.insert(len(own.posonlyargs), "/")
    rows += [f"**{ast.unparse(own.kwarg)}"] if own.kwarg else []
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"def {node.name}({', '.join(rows)}){returns}: ..."
    if len(line) > WIDTH:
        line = "\n".join([f"def {node.name}(", *(f"    {row}," for row in rows), f"){returns}: ..."])
    return line.replace("'", '"')


def written(arguments: list[Any], defaults: list[Any]) -> Iterator[str]:
    """Each argument with its type and its default."""
    defaults = [None] * (len(arguments) - len(defaults)) + defaults
    for argument, default in zip(arguments, defaults, strict=True):
        yield ast.unparse(argument) + (f" = {ast.unparse(default)}" if default is not None else "")


def code(text: str) -> str:
    return f"```python no-run\n{text}\n```"


def prose(each: Any) -> list[str]:
    """A docstring as paragraphs, its examples as blocks of code with what they print as comments."""
    parts: list[str] = []
    for part in DocTestParser().parse(inspect.getdoc(each) or ""):
        if isinstance(part, Example):
            wanted = "".join(f"# {line}\n" for line in part.want.splitlines())
            block = f"{part.source}{wanted}".rstrip()
            if parts and parts[-1].startswith("```"):
                block = f"{parts.pop()[len(code('')) - 4 : -4]}\n{block}"
            parts.append(code(block))
        elif text := part.strip():
            parts.append(text)
    return parts


def first(each: Any) -> str:
    return "\n\n".join(prose(each))


def one_line(each: Any) -> str:
    return " ".join((inspect.getdoc(each) or "").split())


def fields_of(kind: type) -> Iterator[tuple[str, str, str]]:
    """The fields of a result: name, type as written, and the comment beside it."""
    lines = textwrap.dedent(inspect.getsource(kind)).splitlines()
    for node in parse(kind).body:
        if isinstance(node, ast.AnnAssign):
            _, _, comment = lines[node.lineno - 1].partition("  # ")
            yield ast.unparse(node.target), ast.unparse(node.annotation).replace("|", "\\|"), comment


def found_results(kind: type) -> Iterator[type]:
    """The classes of this package that the methods of a trained model return."""
    for name, member in vars(kind).items():
        if not name.startswith("_") and inspect.isfunction(member):
            waiting = [get_type_hints(member).get("return")]
            while waiting:
                hint = waiting.pop()
                waiting += get_args(hint)
                if is_dataclass(hint) or hasattr(hint, "_fields"):
                    yield hint  # type: ignore[misc]


if __name__ == "__main__":
    PATH.write_text(document(), encoding="utf-8")
