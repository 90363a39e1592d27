"""The form of a training: its fields from the settings of a task and model, and the command that it stands for.

What is written into it comes from a page. So a field that names a file takes the name of a file in the folders of the
studio, or of a known set, and no path; the process works in an empty folder, where no other name leads anywhere.
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Any, get_args, get_origin

from ... import tasks
from ...api.numbers import read_count
from ...core.errors import RecollectError
from ...core.settings import SettingError, choices_of, flags_of, highest, lowest, mismatch, options_of, parse
from ...core.sharing import PATHS
from ...core.typed import show
from ...training import run as runs
from ...training.meanings import meaning
from ...training.recipe import Declared, settings_of
from ...training.schema import models_of

FIRST = ("data", "tokenizer", "context", "width", "layers", "batch", "steps", "lr", "seed")  # fields that stand open
FLAGS = ("width", "layers", "cell", "steps", "tokens", "seconds", "lr", "seed")  # of the command, beside declared ones
GROUPS = {"train": "Training", "data": "Data", "model": "Model", "layer": "Layers of the model"}
PARAMS = "Solve the width for so many parameters, such as 1M."
MOST_FIELDS, MOST_VALUE = 200, 2_000
NAME = re.compile(r"[\w][\w.+-]{0,99}")
OUTSIDE = re.compile(r"[/\\~]|[A-Za-z]:|.*(?:^|[/\\])\.\.(?:[/\\]|$)")  # names a place outside of the folder one is in
NAMED = re.compile(r"expected (\w+) (?:to be|above|below|between|to)\b|expected an? (\w+) (?:\(.*\) )?out of")

Files = Callable[[str], Path | None]


@dataclass(frozen=True, kw_only=True)
class Training:
    """What a page sends: texts as they were typed, by the name of their setting."""

    task: str
    model: str | None = None
    params: str = ""
    out: str = ""
    values: dict[str, str] = field(default_factory=dict)
    more: list[str] = field(default_factory=list)  # name=value


@dataclass
class Command:
    """The words of a command, and what is wrong with them: field (empty: the whole) and message."""

    words: list[str]
    problems: list[tuple[str, str]]
    out: str = ""

    @property
    def shown(self) -> str:
        return shlex.join(["recollect", *self.words])


def describe(task: str, model: str | None = None) -> dict[str, Any]:
    """The form of a task and model: what each field is, takes and means."""
    kind = tasks.find(task)
    models = models_of(kind)
    model = kind.default if model is None else kind.check_model(model)
    if model in kind.combined:
        model = kind.default
    homes = {home: name for name, home in reversed(runs.setting_homes(kind, model).items())}
    fields = [
        _describe_field(kind, name, setting, homes.get(setting.home, task))
        for name, setting in settings_of(kind, model).items()
    ]
    fields.sort(key=lambda each: FIRST.index(each["name"]) if each["name"] in FIRST else len(FIRST))
    return {
        "task": task, "tasks": tasks.names(), "model": model, "models": models, "default": kind.default,
        "about": (kind.__doc__ or "").strip().partition("\n")[0], "fields": fields,
        "params": PARAMS, "out": suggest_name(task, model),
    }  # fmt: skip


def suggest_name(task: str, model: str) -> str:
    return f"{task}-{model}"


def _describe_field(kind: runs.Kind, name: str, setting: Declared, home: str) -> dict[str, Any]:
    flag = flags_of(setting.home).get(name)
    options, choices = options_of(setting.hint), choices_of(setting.hint)
    found: dict[str, Any] = {
        "name": name, "group": GROUPS.get(home, "Task"), "open": name in FIRST,
        "help": meaning(setting.home, name) or (flag[0].help if flag else ""),
        "default": _write(kind.usual.get(name, _default(setting))), "none": type(None) in options,
    }  # fmt: skip
    if choices:
        return found | {"kind": "choice", "choices": choices}
    if bool in options:
        return found | {"kind": "choice", "choices": ["true", "false"]}
    if any(get_origin(option) is tuple for option in options):
        listed = next(option for option in options if get_origin(option) is tuple)
        return found | {"kind": "files" if name in PATHS else "list", "of": get_args(listed)[0].__name__}
    if float in options:
        return found | {"kind": "number"} | ({"least": 0, "below": 1} if name.endswith("dropout") else {})
    if int in options:
        return found | {"kind": "whole", "least": lowest(setting.field), "most": highest(setting.field)}
    return found | {"kind": "file" if name in PATHS else "text"}


def _default(setting: Declared) -> Any:
    made = setting.field.default_factory
    return made() if made is not MISSING else setting.field.default


def _write(value: Any) -> str:
    """A value as one types it."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: ""}[value]
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def compose(asked: Training, files: Files, place: Path, label: str) -> Command:
    """The command of a form, with every problem that is known before it runs. `place` is where its folder will lie."""
    kind = tasks.find(asked.task)
    found = Command(["train", asked.task], [])
    if len(asked.values) > MOST_FIELDS or len(asked.more) > MOST_FIELDS:
        raise SettingError(f"form: expected at most {MOST_FIELDS} fields, found more")
    try:
        model = kind.default if not asked.model else kind.check_model(asked.model)
        if model in kind.combined:
            raise SettingError(f"model: expected one that is trained, found {model}; type its command")
    except RecollectError as error:
        found.problems.append(("model", str(error)))
        return found
    found.words += ["--model", model]
    declared = settings_of(kind, model)
    texts: dict[str, Any] = {}
    given: dict[str, Any] = {}
    for name, text in [*asked.values.items(), *read_pairs(asked.more, found)]:
        text = text.strip()
        if not text:
            continue
        try:
            parts = _read_text(name, text, declared.get(name), files)
        except RecollectError as error:
            found.problems.append((name, str(error)))
            continue
        found.words += _flag(name, parts, declared.get(name))
        if name in declared and name in PATHS:
            given[name] = (
                tuple(parts) if any(get_origin(o) is tuple for o in options_of(declared[name].hint)) else parts[0]
            )
        else:
            texts[name] = ",".join(parts)
    if params := asked.params.strip():
        found.words += ["--params", params]
        try:
            if (count := read_count(params, "params")) is None or count < 1:
                raise SettingError(f"--params: expected a number such as 500, 10k or 1M, found {show(params)}")
        except (RecollectError, OverflowError) as error:
            found.problems.append(("params", str(error)))
    if not found.problems:
        try:
            runs.configure(kind, texts, model=model, **given)
        except RecollectError as error:
            found.problems.append((find_field(str(error), [*declared, *texts]), str(error)))
    name_folder(found, asked.out.strip() or suggest_name(asked.task, model), place, label)
    return found


def read_pairs(more: Sequence[str], found: Command) -> list[tuple[str, str]]:
    pairs = []
    for pair in more:
        name, equals, value = pair.partition("=")
        if equals and name.strip():
            pairs.append((name.strip(), value))
        elif pair.strip():
            found.problems.append(("more", f"--set: expected key=value, found {show(pair.strip())}"))
    return pairs


def _read_text(name: str, text: str, setting: Declared | None, files: Files) -> list[str]:
    """The value of a field, a list in its parts, and names of files as paths."""
    if len(text) > MOST_VALUE or not text.isprintable():
        raise SettingError(f"{name}: expected at most {MOST_VALUE:,} characters that can be printed, found others")
    listed = setting is not None and any(get_origin(option) is tuple for option in options_of(setting.hint))
    parts = [part.strip() for part in text.split(",") if part.strip()] if listed else [text]
    if setting is not None and (choices_of(setting.hint) or not _is_text(setting)):
        value = parse(name, text, setting.hint)
        if expected := mismatch(setting.field, setting.hint, value):
            raise SettingError(f"{name}: expected {expected}, found {show(text)}")
        return parts
    return [_read_place(name, part, files) for part in parts]


def _is_text(setting: Declared) -> bool:
    options = options_of(setting.hint)
    return str in options or any(str in get_args(option) for option in options)


def _read_place(name: str, text: str, files: Files) -> str:
    if name in PATHS and (path := files(text)) is not None:
        return str(path)
    if OUTSIDE.match(text):
        raise SettingError(
            f"{name}: expected a known set, or a file in the folders of this studio, found {show(text)}; choose one of "
            "the list, or type the command in a terminal"
        )
    return text


def _flag(name: str, parts: Sequence[str], setting: Declared | None) -> list[str]:
    """A setting as words of the command."""
    flag = flags_of(setting.home).get(name) if setting is not None else None
    if name in FLAGS:
        return [f"--{name}", *parts]
    if flag is not None and setting is not None and bool not in options_of(setting.hint):
        word = f"--{flag[0].name or name.replace('_', '-')}"
        return [each for part in parts for each in (word, part)]
    return ["--set", f"{name}={','.join(parts)}"]


def find_field(message: str, names: Sequence[str]) -> str:
    """The field that a message is about; empty where it names none."""
    begun = re.match(r"(?:--)?(?:set )?([\w-]+)(?:: |\[)", message)
    if begun and (name := begun[1].replace("-", "_")) in names:
        return name
    if "known setting" in message:
        return "more"
    named = NAMED.search(message)
    if named and (name := named[1] or named[2]) in names:
        return name
    mentioned = [name for name in names if re.search(rf"\b{re.escape(name)}\b", message)]
    return mentioned[0] if len(mentioned) == 1 else ""


def name_folder(found: Command, name: str, place: Path, label: str) -> None:
    """The folder of the run, new and below the first of the studio."""
    if not NAME.fullmatch(name) or name.startswith("."):
        found.problems.append(
            ("out", f"out: expected a name of letters, digits, -, _ and . , found {show(name)}; it becomes a folder")
        )
        return
    folder = place / name
    found.out = f"{label}/{name}"
    found.words += ["--out", str(folder)]
    try:
        taken = folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir())))
    except OSError as error:
        taken = bool(error)
    if taken:
        found.problems.append(("out", f"out: expected a new folder, found {name}, which is there; use another name"))


def free_name(wanted: str, place: Path) -> str:
    """The name, or the first with a number behind it, that no folder has."""
    return next(name for n in range(10**6) if not (place / (name := f"{wanted}-{n}")).exists())


def read_values(values: Mapping[str, Any]) -> dict[str, str]:
    """Settings of a run as the fields of a form have them."""
    return {name: _write(value) for name, value in values.items()}
