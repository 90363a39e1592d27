"""Kills at random moments of training, of building a cache and of racing: python -m tools.kills --kills 50

Each of the three is run once without a kill, which gives its duration and the hashes of what it leaves. Then it begins
anew, round after round, and is sent SIGKILL at moments that are spread evenly over that duration, a random one in each
part: the first try of a round is killed at the latest moment that is left, and the tries that go on with what it left
at any other. A try that ends before its moment ends the round, and the moment is left for another; where the first try
does, the moments that are left are drawn together to its duration. After some kills a round is left to end. After every
kill what was finished must still be there, whole; at the end of every round the hashes must be those of the run without
a kill. In a race every second kill strikes the main process alone, as a lack of memory does: the processes that it
started must then end by themselves.
"""

import argparse
import contextlib
import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recollect.racing.rows import check_row
from recollect.training import checkpoint
from recollect.training.folder import RunFolder, commit, machine

from .commands import Commands, is_running, session_of, wait_until_gone

TIMES = ("seconds", "tokens_per_second", "memory", "peak_bytes", "machine", "commit")
PATIENCE = 10.0  # seconds in which the processes that a killed race started must have ended
IN_A_ROUND = 6  # kills, at most
EVERY = 3  # steps from one checkpoint to the next
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "one", "dog", "run", "far"]
SIZES = ["--width", "8", "--context", "12", "--batch", "4", "--device", "cpu"]


class Lost(ValueError):
    """Something that was finished and is not whole after a kill."""


class Work(ABC):
    """What is killed: its command in a folder, what of it is finished there, and the hashes of what it leaves."""

    name: str
    alone = False  # whether every second kill strikes the main process alone

    def __init__(self, inputs: Path, small: bool) -> None:
        self.inputs, self.small = inputs, small

    @abstractmethod
    def command(self, place: Path) -> Sequence[str]:
        """The command that begins the work in a folder, or goes on with it."""

    @abstractmethod
    def finished(self, place: Path) -> dict[str, str]:
        """What is finished, each part with its hash; `Lost` where a part is broken. Parts stay once they are there."""

    @abstractmethod
    def outcome(self, place: Path) -> dict[str, str]:
        """Hashes of what the work leaves at its end, times left out."""


class Training(Work):
    """A language model with noise, an average of its weights and a carried state, checkpoints every third step."""

    name = "training"

    def command(self, place: Path) -> Sequence[str]:
        out = ["--out", str(place / "run")]
        if (place / "run" / "config.json").exists():
            return ["train", "text", "--resume", "--device", "cpu", *out]
        settings = {
            "dropout": 0.1, "windows": "sequential", "ema": 0.95, "layers": 2, "warmup": 3, "log_every": 2,
            "eval_every": 40, "save_every": EVERY, "steps": 60 if self.small else 1000,
        }  # fmt: skip
        pairs = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        return ["train", "text", "--data", str(self.inputs / "book.txt"), "--model", "lstm", *SIZES, *pairs, *out]

    def finished(self, place: Path) -> dict[str, str]:
        """The steps up to the last checkpoint; reading it, the best one and the log is the test that they are whole."""
        folder = RunFolder(place / "run")
        if not folder.config_path.exists():
            return {}
        folder.config()
        rows = folder.metrics()
        if not folder.last.exists():
            return {}
        _, content = checkpoint.read_tensors(folder.last)
        note = checkpoint.read_note(folder.last, content)
        for path in (folder.best, folder.model_path):
            if path.exists():
                checkpoint.read_tensors(path)
        step = note.spent.step
        logged = [without_times(row) for row in rows if row["step"] <= step]
        if logged[-1:] and logged[-1]["step"] < step - 2:
            raise Lost(f"the log ends at step {logged[-1]['step']}, the checkpoint is of step {step}")
        return {f"step {made}": "made" for made in range(EVERY, step + 1, EVERY)} | {
            f"row {number}": hash_json(row) for number, row in enumerate(logged)
        }

    def outcome(self, place: Path) -> dict[str, str]:
        folder = RunFolder.open(place / "run")
        check_leftovers(place)
        return {
            "weights": hash_tensors(folder.model_path),
            "last checkpoint": hash_tensors(folder.last),
            "metrics": hash_json([without_times(row) for row in folder.metrics()]),
        }


class Caching(Work):
    """The cache of a text: its vocabulary of pairs of bytes, and the tokens of each part; one step of training."""

    name = "building a cache"

    def command(self, place: Path) -> Sequence[str]:
        run = place / "runs" / str(len(list((place / "runs").glob("*"))))
        data = ["--data", str(self.inputs / "long.txt"), "--tokenizer", "bpe", "--vocab", "300"]
        few = ["--steps", "1", "--set", "eval_tokens=100", "--out", str(run)]
        return ["train", "text", "--model", "rnn", *data, *SIZES, *few]

    def finished(self, place: Path) -> dict[str, str]:
        """Entries of the cache: each is whole by the hashes in its record, or has no record."""
        found = {}
        for path in (place / "cache").rglob("*.json"):
            record = json.loads(path.read_text(encoding="utf-8"))
            if hash_json([record["arrays"], record["content"]]) != record["sha256"]:
                raise Lost(f"{path.name} does not match its own hash")
            for name, about in record["arrays"].items():
                array = path.with_name(f"{path.stem}-{name}-{about['sha256'][:16]}.bin")
                if not array.exists() or hashlib.sha256(array.read_bytes()).hexdigest() != about["sha256"]:
                    raise Lost(f"{path.name} is there, and its array {array.name} is not whole")
            found[path.name] = record["sha256"]
        return found

    def outcome(self, place: Path) -> dict[str, str]:
        found = {}
        check_leftovers(place / "cache")
        for path in sorted((place / "cache").rglob("*")):
            if path.suffix == ".json":  # sources have the time of this very moment
                record = json.loads(path.read_text(encoding="utf-8"))
                found[path.name] = hash_json({key: value for key, value in record.items() if key != "sources"})
            elif path.is_file():
                found[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found


class Racing(Work):
    """A race of several models and seeds, two processes at a time."""

    name = "racing"
    alone = True

    def command(self, place: Path) -> Sequence[str]:
        settings = {"length": 8, "load": 2, "vocab": 12, "batch": 4, "eval_rows": 20, "layers": 1, "heads": 1}
        pairs = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        size = ["--params", "3k", "--budget", "30" if self.small else "200", "--device", "cpu", "--search", "0"]
        entries = ["--models", "rnn,mlp" if self.small else "rnn,lstm,gru,mlp", "--seeds", "2", "--jobs", "2"]
        return ["race", "recall", *entries, *size, *pairs, "--out", str(place / "race")]

    def finished(self, place: Path) -> dict[str, str]:
        """Rows of finished entries as they stand, but for the marks that a race sets at its end; and their weights."""
        path = place / "race" / "results.jsonl"
        if not path.exists():
            return {}
        json.loads((place / "race" / "race.json").read_text(encoding="utf-8"))
        found = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            check_row(row)
            if "error" in row:
                raise Lost(f"the entry {row['entry']} failed: {row['error']}")
            name = f"{row['entry']} {row['seed']}"
            found[name] = hashlib.sha256(json.dumps(row | {"unfair": []}).encode()).hexdigest()
            found[f"{name}: weights"] = hash_tensors(place / "race" / row["run"] / "model.safetensors")
        return found

    def outcome(self, place: Path) -> dict[str, str]:
        check_leftovers(place)
        lines = (place / "race" / "results.jsonl").read_text(encoding="utf-8").splitlines()
        found = {}
        for row in map(json.loads, lines):
            name = f"{row['entry']} {row['seed']}"
            row["learning"] = [[step, tokens, value] for step, tokens, _, value in row["learning"]]
            found[name] = hash_json(without_times({key: row[key] for key in row if key != "command"}))
            found[f"{name}: weights"] = hash_tensors(place / "race" / row["run"] / "model.safetensors")
        return found


WORKS = (Training, Caching, Racing)


def hash_json(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def hash_tensors(path: Path) -> str:
    """sha256 over the tensors of a file: names, types, shapes and bits."""
    tensors, _ = checkpoint.read_tensors(path)
    found = hashlib.sha256()
    for name in sorted(tensors):
        found.update(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)}".encode())
        found.update(tensors[name].contiguous().numpy().tobytes())
    return found.hexdigest()


def without_times(content: Any) -> Any:
    """All but what the clock and the machine say."""
    if isinstance(content, dict):
        return {name: without_times(value) for name, value in content.items() if name not in TIMES}
    return [without_times(value) for value in content] if isinstance(content, list) else content


def check_leftovers(place: Path) -> None:
    """Refuse temporary files that no later try removed."""
    left = [path.name for path in place.rglob(".*.part")]
    if left:
        raise Lost(f"temporary files are left: {', '.join(left[:5])}")


def write_inputs(folder: Path, small: bool) -> None:
    """A text for training and a longer one for the cache, the same every time."""
    for name, words in (("book.txt", 600), ("long.txt", 60_000 if small else 1_200_000)):
        draw = random.Random(0)
        (folder / name).write_text(" ".join(draw.choice(WORDS) for _ in range(words)), encoding="utf-8")


class Killer:
    """Runs one kind of work again and again, and kills it; counts what was seen."""

    def __init__(self, work: Work, commands: Commands, scratch: Path, draw: random.Random) -> None:
        self.work, self.commands, self.scratch, self.draw = work, commands, scratch, draw
        self.began = self.duration = 0.0
        self.expected: dict[str, str] = {}
        self.rounds = self.orphans = 0
        self.kills: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self.struck: list[int] = []  # commands that were killed in this round

    def start(self, place: Path) -> int:
        self.began = time.monotonic()
        return self.commands.start(*self.work.command(place), env={"RECOLLECT_CACHE": str(place / "cache")})

    def run_whole(self) -> None:
        """Without a kill: the duration, and the hashes that every round must end with."""
        place = self.scratch / "whole"
        self.start(place)
        done = self.commands.wait()
        self.duration = time.monotonic() - self.began
        if done.code:
            raise ValueError(f"{self.work.name}: expected a command that ends well, found {done.err}")
        self.expected = self.work.outcome(place)

    def run(self, count: int) -> None:
        """Kill so often; what is found wrong goes into `problems`, and a new round begins."""
        self.run_whole()
        moments = [(number + self.draw.random()) / count * self.duration for number in range(count)]
        while moments:
            self.rounds += 1
            try:
                self.run_round(self.scratch / str(self.rounds), moments)
            except (ValueError, OSError) as error:
                self.problems.append(f"round {self.rounds}: {error}")

    def run_round(self, place: Path, moments: list[float]) -> None:
        """Begin, kill and go on until a try ends before its moment."""
        self.struck.clear()
        before: dict[str, str] = {}
        moment: float | None = moments.pop()
        while True:
            pid = self.start(place)
            if self.ends_before(pid, moment):
                break
            before = self.kill(pid, place, before)
            more = moments and len(self.struck) < IN_A_ROUND
            moment = moments.pop(self.draw.randrange(len(moments))) if more else None
        took = time.monotonic() - self.began
        if moment is not None:
            moments.append(moment)
            moments.sort()
        if not self.struck:  # faster than the run without a kill: the machine has less to do now
            moments[:] = [left * took / self.duration for left in moments]
            self.duration = took
        done = self.commands.wait()
        self.check_processes()
        if done.code:
            raise Lost(f"a try that was not killed ended with code {done.code}: {done.err.strip()[-500:]}")
        found = self.work.outcome(place)
        if found != self.expected:
            names = sorted({*found, *self.expected})
            raise Lost(f"other hashes of {', '.join(n for n in names if found.get(n) != self.expected.get(n))}")

    def ends_before(self, pid: int, moment: float | None) -> bool:
        """Wait until the moment; whether the process ended before it."""
        while is_running(pid):
            left = float("inf") if moment is None else self.began + moment - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, 0.002))
        return True

    def kill(self, pid: int, place: Path, before: dict[str, str]) -> dict[str, str]:
        """Kill the command, and see that what was finished still is; what is finished now."""
        moment, alone = time.monotonic() - self.began, self.work.alone and len(self.kills) % 2 == 1
        started = len(session_of(pid)) - 1
        with contextlib.suppress(ProcessLookupError):  # it ended at this very moment
            (os.kill if alone else os.killpg)(pid, signal.SIGKILL)
        self.struck.append(pid)
        self.commands.wait()
        self.kills.append({"at": round(moment, 3), "round": self.rounds, "alone": alone, "children": started})
        found = self.work.finished(place)
        self.kills[-1]["finished"] = len(found)
        lost = [name for name, digest in before.items() if found.get(name) != digest]
        if lost:
            raise Lost(f"finished before the kill, and not after it: {', '.join(lost[:5])}")
        return found

    def check_processes(self) -> None:
        """See that what killed commands started has ended; the next try did not wait for that."""
        for pid in self.struck:
            if left := wait_until_gone(pid, PATIENCE):
                self.orphans += len(left)
                os.killpg(pid, signal.SIGKILL)
        self.struck.clear()
        if self.orphans:
            raise Lost(f"{self.orphans} processes ran on after the command that had started them was killed")

    def row(self) -> dict[str, Any]:
        """What was seen, for results/."""
        at = [kill["at"] for kill in self.kills]
        return {
            "work": self.work.name,
            "command": " ".join(["recollect", *self.work.command(Path("OUT"))]).replace(str(self.work.inputs), "DATA"),
            "seconds": round(self.duration, 3),
            "kills": len(self.kills),
            "of the main process alone": sum(kill["alone"] for kill in self.kills),
            "while it had processes of its own": sum(kill["children"] > 0 for kill in self.kills),
            "in the first second": sum(moment < 1 for moment in at),
            "in the last second": sum(moment > self.duration - 1 for moment in at),
            "with something finished": sum(bool(kill.get("finished")) for kill in self.kills),
            "rounds": self.rounds,
            "most kills in a round": max(sum(k["round"] == r for k in self.kills) for r in range(1, self.rounds + 1)),
            "processes left running": self.orphans,
            "problems": self.problems,
            "hashes": self.expected,
            "moments": sorted(at),
        }


def measure(count: int, seed: int, small: bool = False) -> list[dict[str, Any]]:
    """A row for each kind of work."""
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        write_inputs(root, small)
        commands = Commands(root)
        for number, work in enumerate(WORKS):
            place = root / str(number)
            place.mkdir()
            killer = Killer(work(root, small), commands, place, random.Random(seed + number))
            killer.run(count)
            rows.append(killer.row())
            print({key: value for key, value in rows[-1].items() if key not in ("hashes", "moments")}, flush=True)
        commands.close()
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description="Kills at random moments of training, caching and racing.")
    parser.add_argument("--kills", type=int, default=50, help="of each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="results/kills.json")
    options = parser.parse_args()
    about = {
        "about": "SIGKILL at random moments, spread evenly over the duration of the run without a kill; hashes are "
        "sha256 of that run, and every round ended with the same",
        "command": " ".join(["python -m tools.kills", *sys.argv[1:]]),
        "commit": commit(),
        "machine": machine(),
        "seed": options.seed,
    }
    rows = measure(options.kills, options.seed)
    Path(options.out).write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n", encoding="utf-8")
    return int(any(row["problems"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
