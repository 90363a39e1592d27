"""The form of a race, and the command that it stands for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...api.racing import set_terms
from ...core.errors import RecollectError
from ...core.settings import SettingError
from ...core.typed import show
from ...racing import heats as declared
from ...racing.processes import count_cores
from ...racing.run import check_cost
from ...racing.terms import EQUALS
from ...racing.workers import Local
from .form import MOST_FIELDS, MOST_VALUE, OUTSIDE, Command, Files, find_field, name_folder, read_pairs

NUMBERS = ("budget", "params", "seeds", "search", "jobs")
PLACES = ("data", "valid")
FIELDS = {
    "equal": "What ends each training: params (fixed steps), tokens, flops or seconds.",
    "budget": "How much of that; with params: steps. Such as 500 or 1M.",
    "params": "Parameters of each model, such as 150k.",
    "seeds": "How often each model runs.",
    "search": "Learning rates to try for each, or committed.",
    "jobs": "Entries at a time, a core each (default: every core).",
    "data": "File, folder or known set; may be given more than once.",
    "valid": "Validation data (default: a part of the data).",
    "tokenizer": "chars, bytes, words or bpe.",
    "pair": "Of translation: the languages, such as en-de.",
}


@dataclass(frozen=True, kw_only=True)
class Racing:
    """What a page sends: the heat of a task or a ladder, its models, and texts as they were typed."""

    task: str | None = None
    ladder: str | None = None
    models: list[str] = field(default_factory=list)
    out: str = ""
    values: dict[str, str] = field(default_factory=dict)
    more: list[str] = field(default_factory=list)


def describe() -> dict[str, Any]:
    """The heats and ladders, and the fields of a race."""

    def about(name: str, heat: Any) -> dict[str, Any]:
        return {
            "name": name, "title": heat.title, "question": heat.question, "models": list(heat.models),
            "rungs": [rung.name for rung in heat.rungs], "params": heat.params, "steps": heat.steps,
            "metric": heat.metric.label,
        }  # fmt: skip

    return {
        "heats": [about(name, heat) for name, heat in declared.heats().items()],
        "ladders": [about(name, heat) for name, heat in declared.ladders().items()],
        "fields": [{"name": name, "help": help, "kind": _kind(name)} for name, help in FIELDS.items()],
        "equals": list(EQUALS), "cores": count_cores(),
    }  # fmt: skip


def _kind(name: str) -> str:
    return "choice" if name == "equal" else "files" if name in PLACES else "number" if name in NUMBERS else "text"


def compose(asked: Racing, files: Files, place: Path, label: str) -> Command:
    """The command of a form, with every problem that is known before it runs."""
    found = Command(["race"], [])
    if max(len(asked.values), len(asked.more), len(asked.models)) > MOST_FIELDS:
        raise SettingError(f"form: expected at most {MOST_FIELDS} fields, found more")
    if asked.ladder:
        found.words += ["--ladder", asked.ladder]
    elif asked.task:
        found.words.append(asked.task)
    if asked.models and not asked.ladder:
        found.words += ["--models", ",".join(asked.models)]
    given: dict[str, Any] = {}
    for name, text in asked.values.items():
        text = text.strip()
        if not text:
            continue
        try:
            if name not in FIELDS:
                raise SettingError(f"{name}: expected a field of a race, found another")
            given[name] = _read(name, text, files)
        except RecollectError as error:
            found.problems.append((name, str(error)))
            continue
        parts = given[name] if name in PLACES else [given[name]]
        found.words += [word for part in parts for word in (f"--{name}", part)]
    more = dict(read_pairs(asked.more, found))
    for name, value in more.items():
        if OUTSIDE.match(value.strip()):
            found.problems.append(
                ("more", f"{name}: expected no path, found {show(value)}; type the command in a terminal")
            )
        found.words += ["--set", f"{name}={value.strip()}"]
    if not found.problems:
        _check(asked, given, more, found)
    name_folder(found, asked.out.strip() or f"race-{asked.ladder or asked.task or 'memory'}", place, label)
    return found


def _read(name: str, text: str, files: Files) -> Any:
    if len(text) > MOST_VALUE or not text.isprintable():
        raise SettingError(f"{name}: expected at most {MOST_VALUE:,} characters that can be printed, found others")
    if name not in PLACES:
        if OUTSIDE.match(text):
            raise SettingError(f"{name}: expected no path, found {show(text)}")
        return text
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        path = files(part)
        if path is None and OUTSIDE.match(part):
            raise SettingError(
                f"{name}: expected a known set, or a file in the folders of this studio, found {show(part)}; choose "
                "one of the list, or type the command in a terminal"
            )
        found.append(str(path or part))
    return found


def _check(asked: Racing, given: Mapping[str, Any], more: Mapping[str, str], found: Command) -> None:
    """Whatever the command would refuse before it reads data."""
    words = {name: given.get(name) for name in ("budget", "params", "search", "tokenizer", "pair")}
    try:
        heats, terms = set_terms(
            asked.task or None, given.get("data", ()), ladder=asked.ladder or None,
            models=asked.models if asked.models and not asked.ladder else None, equal=given.get("equal", "params"),
            seeds=None if "seeds" not in given else _whole(given["seeds"], "seeds"), valid=given.get("valid", ()),
            device="auto", data_dir=None, settings={name: value.strip() for name, value in more.items()}, **words,
        )  # fmt: skip
        jobs = _whole(given["jobs"], "jobs") if "jobs" in given else 1
        if jobs < 1:
            raise SettingError(f"--jobs: expected at least 1, found {jobs}")
        check_cost(heats, terms, Local(jobs=jobs))
        for heat in heats:
            terms.of(heat)
    except (RecollectError, OverflowError) as error:
        names = [*FIELDS, "models", "ladder", "task"]
        message = str(error)
        found.problems.append((find_field(message, names) or ("models" if "out of" in message else ""), message))


def _whole(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise SettingError(f"--{name}: expected a whole number, found {show(text)}")
    return int(text)
