"""A learner's file graded in a process of its own, which is ended where it takes too long."""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..core.language import localize
from .exercises import RIGHT, ExerciseError

SECONDS = 60  # that a learner's code may take


def check(file: str, seconds: float = SECONDS) -> dict[str, Any]:
    """What `grade` finds in a file: the exercise, its lines, its laws."""
    path = Path(file)
    if path.suffix != ".py" or not path.is_file():
        raise ExerciseError(f"--check: expected a Python file, found none at {file!r}")
    with tempfile.TemporaryDirectory() as folder:
        out, trace = Path(folder) / "found.json", Path(folder) / "trace.txt"
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-P", "-m", f"{__package__}.grade", path.resolve(), out, trace, str(seconds)],
            stdin=subprocess.DEVNULL, stdout=2, check=False,  # what the learner's code prints goes to stderr
        )  # fmt: skip
        if out.is_file():
            found = json.loads(out.read_text(encoding="utf-8"))
        else:
            text = trace.read_text(encoding="utf-8", errors="replace") if trace.is_file() else ""
            raise ExerciseError(f"{path.name}{say_end(path, text, done.returncode, seconds)}")
    if "error" in found:
        raise ExerciseError(found["error"])
    return found


def say_end(path: Path, trace: str, code: int, seconds: float) -> str:
    """Why there is no answer: where the code still was, or how the process ended."""
    if not trace:
        return f": expected code that returns, found that its process ended with the code {code}"
    line = re.search(rf'File "{re.escape(str(path.resolve()))}", line (\d+)', trace)
    return f"{f', line {line[1]}' if line else ''}: expected an answer within {seconds:g} s, found none"


def report(found: dict[str, Any], file: str) -> str:
    """The lines of the definition with their verdicts, and the laws."""
    from ..report.table import render

    rows = [(line, formula, localize(verdict)) for line, formula, verdict, _ in found["lines"]]
    title = localize(f"{Path(file).name}: the exercise {found['exercise']}")
    columns = [localize("method"), localize("line of the definition"), localize("verdict")]
    table = render(title, columns, rows)
    held, broken = (", ".join(name for name, message in found["laws"].items() if bool(message) == wrong)
                    for wrong in (False, True))  # fmt: skip
    laws = [localize(f"laws that hold: {held}")] if held else []
    laws += [localize(f"laws that are broken: {broken}")] if broken else []
    return "\n".join([table.rstrip("\n"), *laws])


def list_faults(found: dict[str, Any]) -> list[str]:
    """What has to be mended, in the order of the definition; laws only where every line is right."""
    lines = [message for *_, verdict, message in found["lines"] if verdict != RIGHT and message]
    return lines or [message for message in found["laws"].values() if message]
