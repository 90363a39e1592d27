"""Commands of an earlier commit and of this checkout in turn, on one machine: python -m tools.beside 0de1e88

Each command is a process of its own, from its start to its first character or to its end, with this environment's
packages and compiled modules of both trees. The rows go to results/start.json: seconds of every round, the medians, and
the time after over the time before. On a machine with other work the ratio says more than the seconds.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from recollect.training.folder import commit, machine

ROOT = Path(__file__).parents[1]
MAIN = "import sys; from recollect.cli import main; sys.exit(main())"
ROUNDS = 9
LINES = 1000


@dataclass(frozen=True)
class Case:
    """A command and what is timed of it."""

    row: str
    words: Sequence[str]
    given: str = ""  # to its stdin
    whole: bool = False  # timed to its end, not to its first character


def numbers(count: int) -> str:
    """Lines for the translator that comes with the package: numbers in words, in no order."""
    from num2words import num2words

    return "\n".join(str(num2words(37 * number % 1000)) for number in range(count)) + "\n"


def cases() -> list[Case]:
    return [
        Case("generate demo-text, to the first character", ("generate", "demo-text")),
        Case(
            f"translate demo-translation, {LINES:,} lines from start to end",
            ("translate", "demo-translation"),
            given=numbers(LINES),
            whole=True,
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.beside", description=__doc__.splitlines()[0])
    parser.add_argument("before", metavar="COMMIT", help="an earlier commit")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="timed rounds, after one that is not")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "start.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        unpack(options.before, Path(folder))
        trees = {"before": Path(folder) / "src", "after": ROOT / "src"}
        rows = [compare(case, trees, options.rounds) for case in cases()]
    content = {
        "about": __doc__,
        "command": f"python -m tools.beside {options.before} --rounds {options.rounds}",
        "commits": {"before": options.before, "after": commit()},
        "machine": machine(),
        "rows": rows,
    }
    options.out.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for row in rows:
        print(f"{row['row']}: {row['medians']['before']:.2f} s before, {row['medians']['after']:.2f} s after")


def unpack(commit: str, folder: Path) -> None:
    """The package as it was at a commit."""
    done = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")


def compare(case: Case, trees: Mapping[str, Path], rounds: int) -> dict[str, Any]:
    """Both trees in turn, after a round in which modules are compiled and files read."""
    seconds: dict[str, list[float]] = {name: [] for name in trees}
    for number in range(rounds + 1):
        for name, tree in trees.items():
            taken = run(case, tree)
            if number:
                seconds[name].append(round(taken, 4))
    medians = {name: median(found) for name, found in seconds.items()}
    return {
        "row": case.row,
        "unit": "s",
        **seconds,
        "medians": medians,
        "after / before": round(medians["after"] / medians["before"], 3),
    }


def run(case: Case, tree: Path) -> float:
    """Seconds from the start of a process to what is timed; one that prints nothing is an error."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
        given.write(case.given.encode())
        given.seek(0)
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", MAIN, *case.words],
            stdin=given, stdout=subprocess.PIPE, stderr=errors, env=os.environ | {"PYTHONPATH": str(tree)},
        )  # fmt: skip
        assert process.stdout is not None
        found = process.stdout.read() if case.whole else process.stdout.read(1)
        taken = time.perf_counter() - started
        if not case.whole:
            process.kill()
        process.stdout.close()
        code = process.wait()
        if not found or (case.whole and code):
            errors.seek(0)
            raise RuntimeError(f"{case.row}: expected an answer, found {errors.read()[-300:].decode()!r}")
    return taken


if __name__ == "__main__":
    main()
