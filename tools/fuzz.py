"""Put hostile inputs before every reader through the command line, and count how each ended.

    python -m tools.fuzz --minutes 20 --jobs 2 --out results/fuzz.json

The inputs are those of tests/faults/fuzzing: valid artifacts that hypothesis alters. Each is read by a fork of its own
that may take 4 GiB of memory and 20 seconds of computing. The seed, the worker, the round and the reader decide which
inputs are drawn, and the time how many rounds there are. The inputs of failures are kept in --keep.
"""

import argparse
import collections
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]
os.environ["OMP_NUM_THREADS"] = "1"

import hypothesis  # noqa: E402
import torch  # noqa: E402
from benchmarks.measure import machine  # noqa: E402

from faults.fuzzing import attempts, readers  # noqa: E402
from recollect.training.folder import commit  # noqa: E402
from tools.commands import Commands  # noqa: E402

EACH = 20  # inputs of a reader in a round


def work(place: Path, valid: Path, found: dict[str, Any], worker: int, options: argparse.Namespace) -> Path:
    """What one worker does until its time is up; the file with its counts."""
    place.mkdir()
    torch.set_num_threads(1)
    until, commands = time.monotonic() + options.minutes * 60, Commands(place, *attempts.MODULES, path=attempts.TESTS)
    counts: dict[str, dict[str, int]] = collections.defaultdict(collections.Counter)
    failures: dict[str, dict[str, Any]] = {}
    number = 0
    while time.monotonic() < until:
        for reader, starts in found.items():
            seed = zlib.crc32(f"{options.seed} {worker} {number} {reader}".encode())
            for attempt in draw(valid, starts, seed):
                if time.monotonic() > until:
                    break
                case = place / "case"
                outcome = attempts.run(commands, valid, attempt, case)
                counts[reader][outcome.kind] += 1
                if outcome.kind not in attempts.GOOD:
                    note(failures, reader, seed, attempt, outcome, case, options.keep)
                shutil.rmtree(case)
        number += 1
    commands.close()
    path = place / "counts.json"
    path.write_text(json.dumps({"counts": counts, "failures": list(failures.values()), "rounds": number}))
    return path


def draw(valid: Path, starts: list[readers.Start], seed: int) -> list[attempts.Attempt]:
    """Inputs of a round for one reader."""
    drawn = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=EACH, database=None, deadline=None, phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    @hypothesis.given(attempts.attempts(valid, starts))
    def collect(attempt: attempts.Attempt) -> None:
        drawn.append(attempt)

    collect()
    return drawn


def note(
    failures: dict[str, dict[str, Any]], reader: str, seed: int, attempt: Any, outcome: Any, case: Path, keep: Path
) -> None:
    """Count a failure; of those that end at one place the first is described and its input kept."""
    name = f"{reader}: {outcome.kind}: {outcome.place.split(': ')[0]}"
    if name not in failures:
        folder = keep / f"{reader}-{outcome.kind}-{zlib.crc32(name.encode()):08x}".replace(" ", "-")
        if not folder.exists():
            shutil.copytree(
                case, folder, symlinks=True, ignore=shutil.ignore_patterns("cache"), copy_function=copy_small
            )
            (folder / "stderr.txt").write_text(outcome.done.err, encoding="utf-8")
            (folder / "command.json").write_text(json.dumps([attempt.describe(), *attempt.command]), encoding="utf-8")
        failures[name] = {
            "reader": reader, "outcome": outcome.kind, "input": attempt.describe()[:500], "end": outcome.place,
            "seed": seed, "times": 0,
        }  # fmt: skip
    failures[name]["times"] += 1


def copy_small(source: str, target: str) -> None:
    """A file, unless it is no regular one or huge."""
    if os.path.isfile(source) and os.path.getsize(source) < 1 << 30:
        shutil.copyfile(source, target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--readers", default="", help="some of them, with commas between (default: all)")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "fuzz.json")
    parser.add_argument("--keep", type=Path, default=ROOT / "runs" / "fuzz", help="where inputs of failures go")
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    version = commit()
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        os.environ["RECOLLECT_CACHE"] = str(place / "cache")
        torch.set_num_threads(1)
        wanted = [name.strip() for name in options.readers.split(",") if name.strip()]
        found = readers.build(place / "valid", with_exports=not wanted or "exports" in wanted)
        found = {name: found[name] for name in wanted or found}
        context = multiprocessing.get_context("spawn")
        tasks = [(place / f"worker-{n}", place / "valid", found, n, options) for n in range(options.jobs)]
        with context.Pool(options.jobs) as pool:
            done = [json.loads(path.read_text()) for path in pool.starmap(work, tasks)]
    words = f"python -m tools.fuzz --minutes {options.minutes:g} --jobs {options.jobs} --seed {options.seed}"
    content = summarize(done) | {"commit": version, "machine": machine(), "seed": options.seed}
    content = {"command": words, "minutes": options.minutes} | content
    options.out.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps({"inputs": content["inputs"], "outcomes": content["outcomes"]}))
    sys.exit(1 if any(content["outcomes"][kind] for kind in attempts.KINDS if kind not in attempts.FINE) else 0)


def summarize(done: list[dict[str, Any]]) -> dict[str, Any]:
    """The counts of all workers together."""
    by_reader: dict[str, dict[str, int]] = {}
    for own in done:
        for reader, counts in own["counts"].items():
            total = by_reader.setdefault(reader, dict.fromkeys(attempts.KINDS, 0))
            for kind, count in counts.items():
                total[kind] += count
    outcomes = {kind: sum(own[kind] for own in by_reader.values()) for kind in attempts.KINDS}
    return {
        "inputs": sum(outcomes.values()),
        "outcomes": outcomes,
        "readers": by_reader,
        "failures": [failure for own in done for failure in own["failures"]],
    }


if __name__ == "__main__":
    main()
