"""A hostile input put before its reader: drawn, run in a process of its own, and judged by how that ended."""

import hashlib
import os
import re
import shutil
import signal
from pathlib import Path
from typing import NamedTuple

from hypothesis import strategies as st
from tools.commands import Commands, Done

from faults.fuzzing.readers import Start
from faults.fuzzing.strategies import COUNTS, NUMBERS, TEXTS, Change, changes

MEMORY = 4 << 30  # bytes that a reader may take
SECONDS = 20  # of computing
MODULES = (
    "PIL.Image",
    "recollect.report.pages.race",
    "recollect.claims.runner",
    "onnxruntime",
    "recollect.runtime.session",
)
TESTS = Path(__file__).resolve().parents[2]  # the folder in which `faults` is
LONGEST = 1_100  # characters of an error
GOOD = ("accepted", "one line")
FINE = (*GOOD, "memory")  # memory that ran out is told in a line, too
KINDS = (*GOOD, "memory", "traceback", "hang", "abort", "several lines", "changed")


class Attempt(NamedTuple):
    """A valid start, one of its commands, and what is altered."""

    start: Start
    command: tuple[str, ...]
    changes: tuple[tuple[str, Change], ...]

    def describe(self) -> str:
        altered = "; ".join(f"{name}: {change.words}" for name, change in self.changes)
        words = self.command[-2:] if self.start.settings else self.command[:2]
        return f"{self.start.folder}: {altered or 'as it is'} ({' '.join(words)})"


class Outcome(NamedTuple):
    kind: str  # of KINDS
    done: Done

    @property
    def place(self) -> str:
        """The last line of code that a traceback or a hang names, or the error itself."""
        found = re.findall(r'File "[^"]*?(?:src/)?(recollect/[^"]+)", line (\d+)', self.done.err)
        if self.kind == "hang":
            found = found[:1]
        lines = self.done.err.strip().splitlines()
        where = f"{found[-1][0]}:{found[-1][1]}: " if found else ""
        return where + (lines[-1] if lines else "")[:300]


@st.composite
def attempts(draw: st.DrawFn, valid: Path, starts: list[Start]) -> Attempt:
    """One of the starts, with one file altered, or two; or with a drawn setting."""
    start = draw(st.sampled_from(starts))
    command = draw(st.sampled_from(start.commands))
    if start.settings:
        name = draw(st.sampled_from(start.settings))
        few = st.sampled_from(["0", "-1", "nan", "1e999", "x", "", "3"])
        value = draw(few if name in COUNTS else settings())
        return Attempt(start, (*command, "--set", f"{name}={value}"), ())
    count = draw(st.sampled_from([1, 1, 1, 2]))
    drawn = dict(draw(changes(valid / start.folder, start.files)) for _ in range(count))
    return Attempt(start, command, tuple(drawn.items()))


def settings() -> st.SearchStrategy[str]:
    """Values of settings as text."""
    numbers = st.sampled_from([*NUMBERS, "1e30", "1e999", "1e-400", "10k", "1T", "0.3", "3", "٣"]).map(str)
    others = st.sampled_from(
        [*(text for text in TEXTS if "\0" not in text and "\ud800" not in text), "none", "true", "1,2"]
    )
    return numbers | others


def run(commands: Commands, valid: Path, attempt: Attempt, place: Path, seconds: int = SECONDS) -> Outcome:
    """Make the altered copy in the new folder `place`, run the command on it and judge the result."""
    given = place / "given"
    shutil.copytree(valid / attempt.start.folder, given)
    for name, change in attempt.changes:
        change.write(given / name)
    before = digest(given)
    names = {"given": given, "valid": valid, "out": place / "out"}
    env = {name: fill(text, names) for name, text in attempt.start.env.items()}
    stdin = Path(fill(attempt.start.stdin, names)) if attempt.start.stdin else None
    done = commands.run(
        *(fill(part, names) for part in attempt.command),
        memory=MEMORY, seconds=seconds, cwd=str(place), env={"RECOLLECT_CACHE": str(place / "cache")} | env,
        stdin=str(stdin) if stdin and stdin.is_file() else os.devnull,
    )  # fmt: skip
    kind = judge(done)
    if kind in GOOD and not attempt.start.writes and digest(given) != before:
        kind = "changed"
    return Outcome(kind, done)


def fill(text: str, names: dict[str, Path]) -> str:
    for name, path in names.items():
        text = text.replace(f"{{{name}}}", str(path))
    return text


def judge(done: Done) -> str:
    """The kind of an outcome."""
    if done.code in (-signal.SIGALRM, -signal.SIGXCPU):
        return "hang"
    if done.code < 0:
        return "abort"
    if done.code == 99 or "Traceback (most recent call last)" in done.err:
        return "traceback"
    errors = [line for line in done.err.splitlines() if line.startswith("recollect: ")]
    if done.code == 0:
        return "accepted" if not errors else "several lines"
    if done.code != 1 or len(errors) != 1 or len(errors[0]) > LONGEST:
        return "several lines"
    return "memory" if "out of memory" in errors[0] else "one line"


def digest(folder: Path) -> str:
    """A hash over the names and contents of the regular files of a folder that are not huge."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found.update(f"{path.relative_to(folder)} {path.lstat().st_mode} {path.lstat().st_size}".encode())
        if path.is_file() and path.stat().st_size < 1 << 30:
            found.update(path.read_bytes())
    return found.hexdigest()
