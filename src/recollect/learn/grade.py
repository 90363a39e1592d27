"""Grading of a layer that a learner wrote: each line of its definition, then the whole by an oracle and by the laws."""

import faulthandler
import inspect
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TextIO

import torch
from torch import Tensor

from ..core import state as states
from ..core.comparison import TOLERANCE, LawBroken
from ..core.contract import Cell, Memory
from ..core.language import localize
from ..core.laws import judge, list_laws
from ..core.outside import OutsideError, describe_error, load_module
from .exercises import (
    CHECK,
    EXERCISES,
    FAILED,
    LATER,
    MISTAKES,
    OFF,
    OPEN,
    RIGHT,
    ExerciseError,
    formulas,
    read_answer,
    write_mistake,
)
from .oracles import BATCH, ORACLES, STEPS, draw, make_memory


class Finding(NamedTuple):
    """What became of one line of the definition."""

    line: str  # the method
    formula: str
    verdict: str
    message: str = ""  # where it is off, and by what


class Grades(NamedTuple):
    """What became of a learner's file."""

    exercise: str
    lines: list[Finding]
    laws: dict[str, str]  # how each was broken; empty where it holds


class Case(NamedTuple):
    """A learner's layer beside the answer, with the same weights."""

    name: str
    file: str
    layer: Any
    answer: Any
    memory: Memory | None


def grade(path: Path) -> Grades:
    """Put a learner's file to its exercise. The file is executed."""
    case = prepare(path)
    exercise, formula = EXERCISES[case.name], formulas(case.name)
    lines = [Finding(line, formula[line], *judge_line(case, line, formula[line])) for line in exercise.lines]
    composed = judge_steps(case, formula)
    lines += [Finding(line, formula[line], *composed[line]) for line in ("update", "read")]
    if all(finding.verdict in (RIGHT, OPEN) for finding in lines) and all(
        composed[line][0] == RIGHT for line in composed
    ):  # a line that is written in `update` itself need not be written twice
        lines = [finding._replace(verdict=RIGHT, message="") for finding in lines]
    return Grades(case.name, lines, {} if composed["update"][0] in (OPEN, FAILED) else judge_laws(case))


def prepare(path: Path) -> Case:
    """The learner's layer and the answer, built alike and with equal random weights."""
    module = load_module(f"recollect_learn_{path.stem}", path, CHECK)
    name = next((name for name, own in EXERCISES.items() if hasattr(module, own.layer)), None)
    if name is None:
        wanted = ", ".join(own.layer for own in EXERCISES.values())
        raise ExerciseError(f"{path.name}: expected a class {wanted}, found none of them; leave its name as it is")
    answer = build(load_text(name, read_answer(name)), name)
    torch.manual_seed(0)
    try:
        layer = build(module, name)
    except Exception as error:
        raise ExerciseError(
            f"{path.name}: expected Config(…).build() to work, found {describe_error(error)}"
        ) from error
    if not isinstance(layer, Cell):
        raise ExerciseError(f"{path.name}: expected {EXERCISES[name].layer} to be a Cell, found {type(layer).__name__}")
    theirs, ours = ({name: own.shape for name, own in each.named_parameters()} for each in (layer, answer))
    if theirs != ours:
        wrong = next(name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name))
        found = tuple(theirs[wrong]) if wrong in theirs else "none"
        wanted = f"weights {wrong} of shape {tuple(ours[wrong])}" if wrong in ours else f"no weights {wrong}"
        raise ExerciseError(f"{path.name}: expected {wanted}, found {found}; leave __init__ as it is")
    with torch.no_grad():
        for own in layer.parameters():
            own.normal_(std=0.7)
    answer.load_state_dict(layer.state_dict())
    return Case(name, path.name, layer, answer, make_memory() if EXERCISES[name].memory else None)


def build(module: ModuleType, name: str) -> Any:
    made = module.Config(**EXERCISES[name].settings).build()
    return made.double().eval()


def load_text(name: str, text: str) -> ModuleType:
    """A module from its text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"answer_{name.replace('-', '_')}.py"
        path.write_text(text, encoding="utf-8")
        return load_module(f"recollect_learn_{path.stem}_{abs(hash(text))}", path, CHECK)


# Single lines


def judge_line(case: Case, line: str, formula: str) -> tuple[str, str]:
    """The verdict on one line, each given the same random inputs, and what has to be mended."""
    torch.manual_seed(1)
    inputs = ORACLES[case.name].inputs(case.layer)
    given = [inputs[name] for name in inspect.signature(getattr(case.answer, line)).parameters]
    with torch.no_grad():
        expected = getattr(case.answer, line)(*given)
    try:
        with torch.no_grad():
            found = getattr(case.layer, line)(*(tensor.clone() for tensor in given))
    except Exception as error:
        return judge_error(case, line, formula, error)
    if (difference := compare(found, expected)) is None:
        return RIGHT, ""
    return OFF, say_off(case, line, formula, difference, matching_mistake(case, line, given, found))


def matching_mistake(case: Case, line: str, given: Sequence[Any], found: Any) -> str:
    """What is wrong with a line, where it gives what a known mistake gives."""
    for mistake in MISTAKES[case.name]:
        if mistake.line == line:
            wrong = build(load_text(case.name, write_mistake(case.name, mistake)), case.name)
            wrong.load_state_dict(case.layer.state_dict())
            with torch.no_grad():
                if compare(found, getattr(wrong, line)(*given)) is None:
                    return mistake.words
    return ""


# The whole, step by step


def judge_steps(case: Case, formula: dict[str, str]) -> dict[str, tuple[str, str]]:
    """The verdicts on `update` and `read`, by this package's own layer: states and outputs, step by step."""
    oracle, parts = ORACLES[case.name], EXERCISES[case.name].parts
    torch.manual_seed(2)
    x, own = draw(BATCH, STEPS, case.layer.dim), oracle.build(case.layer)
    with torch.no_grad():
        ours = own.initial_state(BATCH, memory=case.memory, like=x)
        theirs = case.layer.initial_state(BATCH, memory=case.memory, like=x)
        for t in range(STEPS):
            y, ours = own(x[:, t : t + 1], ours)
            before = rebuild(case, theirs)
            try:
                theirs = case.layer.update(theirs, x[:, t])
            except Exception as error:
                judged = judge_error(case, "update", formula["update"], error)
                return {"update": judged, "read": (OPEN if judged[0] == OPEN else LATER, "")}
            if wrong := find_wrong_part(theirs, oracle.state(ours), before._fields, parts, t):
                part, difference = wrong
                hint = matching_mistake(case, "update", (before, x[:, t]), rebuild(case, theirs)) if part else ""
                message = say_off(case, "update", parts.get(part, "update"), difference, hint)
                return {"update": (OFF, message), "read": (LATER, "")}
            try:
                found = case.layer.read(theirs, x[:, t])
            except Exception as error:
                return {"update": (RIGHT, ""), "read": judge_error(case, "read", formula["read"], error)}
            if (difference := compare(found, y[:, 0], "y", t)) is not None:
                hint = matching_mistake(case, "read", (rebuild(case, theirs), x[:, t]), found)
                message = say_off(case, "read", formula["read"], difference, hint)
                return {"update": (RIGHT, ""), "read": (OFF, message)}
    return {"update": (RIGHT, ""), "read": (RIGHT, "")}


def rebuild(case: Case, state: Any) -> Any:
    """A learner's state as one of the answer's."""
    kind = type(case.answer.initial_state(1, memory=None if case.memory is None else one_row(case.memory)))
    return kind(*(tensor.clone() if isinstance(tensor, Tensor) else tensor for tensor in state))


def one_row(memory: Memory) -> Memory:
    return Memory(memory.values[:1], memory.valid[:1])


def find_wrong_part(
    found: Any, expected: Sequence[Tensor], names: Sequence[str], parts: dict[str, str], t: int
) -> tuple[str, str] | None:
    """The first part of a state that differs, in the order of the definition, and how."""
    if not isinstance(found, tuple) or getattr(found, "_fields", ()) != names:
        wanted, kind = ", ".join(names), type(found).__name__
        return "", f"expected a State of {wanted}, found {kind}"
    for part in parts:
        if (difference := compare(getattr(found, part), expected[names.index(part)], part, t)) is not None:
            return part, difference
    return None


def judge_laws(case: Case) -> dict[str, str]:
    """How each law of the contract was broken; empty where it holds."""
    torch.manual_seed(3)
    x = draw(BATCH, STEPS, case.layer.dim)
    found = {name: judge(name, case.layer, law) for name, law in list_laws(case.layer, x, case.memory).items()}
    return {name: f"{case.file}: {error}" if isinstance(error, LawBroken) else "" for name, error in found.items()}


# Words


def judge_error(case: Case, line: str, formula: str, error: Exception) -> tuple[str, str]:
    """The verdict on a line that raised an error."""
    place = describe_error(error)
    if isinstance(error, NotImplementedError):
        return OPEN, localize(f"{where(case, line)}, {line}: the line {formula} is still to be written")
    return FAILED, localize(f"{where(case, line)}, {line}: the line {formula} raised {place}")


def say_off(case: Case, line: str, formula: str, difference: str, hint: str) -> str:
    text = localize(f"{where(case, line)}, {line}: the line {formula} is off: {difference}")
    return f"{text}; {localize(hint)}" if hint else text


def where(case: Case, line: str) -> str:
    """The place of a method in the learner's file."""
    code = getattr(getattr(type(case.layer), line, None), "__code__", None)
    return case.file if code is None else f"{case.file}, line {code.co_firstlineno}"


def compare(found: Any, expected: Any, part: str = "", t: int | None = None) -> str | None:
    """How two results differ, in which part of the state, at which step; None where they are equal but for rounding."""
    texts = (compare_tensors(a, b, part, t) for a, b in flatten(found, expected))
    return next((text for text in texts if text is not None), None)


def flatten(found: Any, expected: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(expected, tuple) and isinstance(found, tuple) and len(found) == len(expected):
        for a, b in zip(found, expected, strict=True):
            yield from flatten(a, b)
    else:
        yield found, expected


def compare_tensors(found: Any, expected: Any, part: str, t: int | None) -> str | None:
    name = f"{part} " if part else ""
    if not isinstance(found, Tensor) or not isinstance(expected, Tensor):
        wanted = "a tensor" if isinstance(expected, Tensor) else f"{len(states.leaves(expected))} tensors"
        return f"expected {name}{wanted}, found {type(found).__name__}"
    if found.shape != expected.shape:
        return f"expected {name}of shape {tuple(expected.shape)}, found {tuple(found.shape)}"
    if found.dtype != expected.dtype:
        return f"expected {name}of {expected.dtype}, found {found.dtype}"
    a, b = found.double(), expected.double()
    allowed = TOLERANCE[torch.float64] * max(1.0, float(b.abs().max()) if b.numel() else 0.0)
    wrong = ~((a - b).abs() <= allowed)  # NaN is a difference too
    if not bool(wrong.any()):
        return None
    place = wrong.nonzero()[0].tolist()
    wanted, given = (f"{each[tuple(place)].item():.4g}".replace("-", "−") for each in (b, a))
    if t is None:
        return f"expected {wanted}, found {given} at {place}"
    return f"expected {wanted}, found {given} in {part}{place} at step {t + 1}"


def grade_any(path: Path) -> dict[str, Any]:
    """What `grade` finds in a file; of one that cannot be graded, why, in one line under `error`."""
    try:
        return grade(path)._asdict()
    except (ExerciseError, OutsideError) as error:
        return {"error": str(error)}
    except (Exception, SystemExit) as error:  # such as one in initial_state
        return {"error": f"{CHECK}: {describe_error(error)}"}


PATIENCE = 5  # seconds of the clock for one of the processor


def _end_late(seconds: float, trace: TextIO) -> None:
    """End the process once it has computed for so many seconds; where it was then goes to `trace`."""
    limit = time.process_time() + seconds
    while time.process_time() < limit:
        time.sleep(0.1)
    faulthandler.dump_traceback(trace)
    trace.flush()
    os._exit(1)


def main() -> None:
    """Grade a file: what was found is written to OUT, as JSON; where it still is after so many SECONDS, to TRACE.

    Seconds are those of the processor, since other work may slow a machine down, and five times as many of the clock.
    """
    file, out, trace, seconds = sys.argv[1:]
    with open(trace, "w", encoding="utf-8") as traced:
        faulthandler.dump_traceback_later(PATIENCE * float(seconds), exit=True, file=traced)
        threading.Thread(target=_end_late, args=(float(seconds), traced), daemon=True).start()
        found = grade_any(Path(file))
        faulthandler.cancel_dump_traceback_later()
    Path(out).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
