"""Write docs/settings.md, every setting with its meaning, from the dataclasses: python -m tools.settings"""

from dataclasses import MISSING, Field
from inspect import get_annotations
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from recollect import tasks
from recollect.core.settings import choices_of, lowest, options_of
from recollect.training.meanings import meaning
from recollect.training.recipe import settings_of
from recollect.training.run import Kind, setting_homes
from recollect.training.schema import models_of

PATH = Path(__file__).resolve().parents[1] / "docs" / "settings.md"
START = """\
# Settings

What a run is made of, in four parts: how it is trained, what its data are, what the task does with them, and which
model reads them. This page is made from the code by `python -m tools.settings`.

A setting has the same name everywhere:

| where | how |
|---|---|
| Python | `recollect.train("text", "book.txt", model="lstm", width=256, bptt="truncated")` |
| command line | `recollect train text --data book.txt --model lstm --width 256 --set bptt=truncated` |
| recipe | `{"task": "text", "model": "lstm", "settings": {"width": 256, "bptt": "truncated"}}` |

`recollect train TASK --help` lists the settings that have a flag of their own; `--set NAME=VALUE` takes all of them.
On the command line `none` stands for Python's `None`, a list has commas between its parts, and numbers may end in `k`,
`M`, `B` or `T`. Whole numbers begin at 1 where the table names no other limit, and dropouts lie in [0, 1). A misspelt
name is answered with a suggestion."""
LAYERS = """\
Settings of a model's own layer, beside those of the stack; models of these names have them. They build a layer alone
too: `recollect.build("lstm", dim=64, num_layers=2)`."""
TASKS = (  # the others are tests of memory
    "text", "translation", "series", "captions", "films", "labels", "ratings", "transcribe",
)  # fmt: skip
MODELS = {  # where settings of a model are declared → their heading, and whose they are
    "models.body.BodyConfig": ("Stacks of layers", "Models of text, labels, series and tests of memory."),
    "models.language.Config": ("Language models", "Models of text, beside those of a stack."),
    "models.classifier.Settings": ("Classifiers", "Models of labels and tests of memory, beside those of a stack."),
    "models.classifier.Config": ("Classifiers of whole rows", "Models of labels."),
    "tasks.series.plan.Plan": (
        "Forecasters",
        "Models of series, beside those of a stack; here with their own defaults.",
    ),
    "models.seq2seq.DecoderConfig": ("Decoders that read a source", "Models of translation, captions and transcribe."),
    "models.seq2seq.Config": ("Translators", "Models of translation and transcribe: the encoder."),
    "tasks.captions.model.Config": ("Captioners", "Models of captions: what differs from translators, and the CNN."),
    "tasks.captions.films.model.Config": (
        "Captioners of films",
        "Models of films: the CNN and the decoder, beside the settings of a stack, which are those of the memory.",
    ),
    "models.ctc.Config": ("CTC", "The model `ctc` of transcribe, beside those of a stack."),
    "tasks.ratings.model.Config": ("Ratings", "Models of ratings."),
    "models.ngram.Config": ("n-grams", "The model `ngram` of text."),
}


class Declared(NamedTuple):
    """The settings that one dataclass declares, and the models that have them."""

    home: type
    names: list[str]
    models: list[str]


def collect() -> dict[str, Declared]:
    """The settings of all tasks and models, by the place of the dataclass that declares them."""
    found: dict[str, Declared] = {}
    for task in tasks.every():
        for model in models_of(task):
            for name, setting in settings_of(task, model).items():
                home = next(base for base in setting.home.__mro__ if name in get_annotations(base))
                own = found.setdefault(place_of(home), Declared(home, [], []))
                for names, each in ((own.names, name), (own.models, model)):
                    if each not in names:
                        names.append(each)
    return found


def place_of(kind: type) -> str:
    """A dataclass by its place in the package: `models.body.BodyConfig`."""
    return f"{kind.__module__.partition('.')[2]}.{kind.__qualname__}"


def document() -> str:
    """The whole page. A dataclass whose settings would stand nowhere is an error."""
    found = collect()
    text = tasks.find(TASKS[0])
    parts = [START, "## Training", "Settings of every task.", table(found.pop(place_of(homes(text)["train"])))]
    parts.append("## Data and tasks")
    for name in TASKS:
        task = tasks.find(name)
        parts += introduce(task)
        for about, home in (("Settings of the data:", "data"), ("Settings of the task:", name)):
            declared = [found.pop(place) for kind in homes(task)[home].__mro__ if (place := place_of(kind)) in found]
            parts += [about, table(*reversed(declared))]
    tests = [task for task in tasks.every() if task.name not in TASKS]
    parts += ["### Tests of memory", "Settings of every test. Each test has a dial, a setting that makes it harder."]
    shared = (tests[0].task_config, tests[0].data_config.__mro__[1])
    parts.append(table(*(found.pop(place_of(kind)) for kind in shared)))
    for task in tests:
        parts += [*introduce(task), table(found.pop(place_of(task.data_config)))]
    parts += ["## Models", "The default `none` leaves a choice to the model, and so does one that is unset."]
    for place, (title, about) in MODELS.items():
        parts += [f"### {title}", about, table(found.pop(place))]
    parts += ["## Layers", LAYERS]
    layers: dict[tuple[str, ...], list[Declared]] = {}
    for place in sorted(found):
        layers.setdefault(tuple(sorted(found[place].models)), []).append(found[place])
    for names in sorted(layers, key=lambda names: (names[-1], -len(names))):
        parts += [f"### {', '.join(names)}", table(*layers[names])]
    return "\n\n".join(parts) + "\n"


def homes(task: Kind) -> dict[str, Any]:
    """The dataclasses of a task's settings, by what they are settings of."""
    return setting_homes(task, task.default)


def introduce(task: Kind) -> list[str]:
    """The heading of a task, its models, and its own defaults of settings that others have too."""
    names = [name for name in models_of(task) if name in task.models]
    usual = ", ".join(f"`{name}` {value}" for name, value in task.usual.items())
    models = ", ".join(f"`{name}`" for name in names)
    about = f"`recollect train {task.name}`, with `{task.default}` or another of {models}."
    return [f"### {task.name}", about + (f" Its own defaults: {usual}." if usual else "")]


def table(*declared: Declared) -> str:
    """Rows of a setting, its values, its default and its meaning."""
    rows = ["| setting | values | default | meaning |", "|---|---|---|---|"]
    for own in declared:
        hints, fields = get_type_hints(own.home), own.home.__dataclass_fields__  # type: ignore[attr-defined]
        for name in own.names:
            values, default = describe(fields[name], hints[name]), default_of(fields[name], hints[name])
            rows.append(f"| `{name}` | {values} | {default} | {meaning(own.home, name)} |")
    return "\n".join(rows)


def describe(own: Field[Any], hint: Any) -> str:
    """The values that a setting may have, in words."""
    options = options_of(hint)
    empty = ", `none`" if type(None) in options else ""
    if choices := choices_of(hint):
        return ", ".join(f"`{name}`" for name in choices) + ("" if "none" in choices else empty)
    kind = next(option for option in options if option is not type(None))
    if get_origin(kind) is tuple:
        return f"list of {'names' if get_args(kind)[0] is str else 'whole numbers'}{empty}"
    if kind is int and lowest(own) != 1:
        return f"whole number from {lowest(own)}{empty}"
    return {bool: "`true`, `false`", int: "whole number", float: "number", str: "name"}[kind] + empty


def default_of(own: Field[Any], hint: Any) -> str:
    """The default as the command line has it; unset where `none` would be a choice instead."""
    value = own.default_factory() if own.default is MISSING else own.default  # type: ignore[misc]
    return "unset" if value is None and "none" in choices_of(hint) else write(value)


def write(value: Any) -> str:
    """A value as the command line has it."""
    if isinstance(value, tuple):
        return ", ".join(map(write, value)) or "empty"
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    PATH.write_text(document(), encoding="utf-8")
