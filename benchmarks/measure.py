"""How a row is measured, and what goes into results/.

A row times ours and its peers in one process: warmed up, in turn, on inputs that are made anew for every round. Times
are seconds of one call; the ratio is taken round by round, so that a noisy moment hits both sides. A peer that is not
installed or fails is named with the reason, and the others go on.
"""

import contextlib
import gc
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from recollect.training.folder import commit

ROOT = Path(__file__).resolve().parent.parent
REST = 0.05  # seconds between the turns of two sides on a CPU
PEERS = ("torch", "triton", "transformers", "ctranslate2", "kenlm", "onnxruntime", "flash-linear-attention")
AS_CALLED = "as called"  # the mode of ours where a row has but one
PATIENCE = 2.0  # seconds; a call that takes longer is timed once, not in every round

Run = Callable[[], object]


@cache
def machine() -> dict[str, Any]:
    """Where a figure was measured, without the machine's name."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    cpu = next((line.split(":", 1)[1].strip() for line in info.split("\n") if line.startswith("model name")), None)
    return {
        "system": platform.system(),
        "cpu": cpu or platform.processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": gpu,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


@cache
def versions() -> dict[str, str]:
    """Of the peers that are installed."""
    found = {}
    for name in PEERS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    if torch.version.cuda:
        found["CUDA"] = torch.version.cuda
        found["cuDNN"] = str(torch.backends.cudnn.version())
    return found


@dataclass
class Row:
    """One comparison: seconds a call (`median`, and the spread from `low` to `high`) of ours and each peer.

    `ratio` is ours to the best peer: below 1, ours is faster; None where nothing could be compared. `modes` are all
    ways in which ours was called, of which `ours` is the best. A call does `amount` of `unit` (tokens, sentences),
    where a rate is of interest. `floor` is what no program can beat here: its `seconds`, and what sets the `bound`.
    `checked` says which equality was seen before the clock ran; `absent` why a peer is not there; `error` why ours
    is not. `series` are curves, such as times against lengths, and `fit` what was fitted to them.
    """

    row: str
    device: str
    ours: dict[str, Any]
    peers: dict[str, dict[str, float]] = field(default_factory=dict)
    note: str = ""
    floor: dict[str, Any] | None = None
    absent: dict[str, str] = field(default_factory=dict)
    unit: str = ""
    amount: float = 1.0
    checked: str = ""
    modes: dict[str, dict[str, float]] = field(default_factory=dict)
    series: dict[str, list[float]] = field(default_factory=dict)
    fit: dict[str, float] = field(default_factory=dict)
    error: str | None = None
    best_peer: str = field(init=False, default="")
    ratio: float | None = field(init=False, default=None)
    floor_share: float | None = field(init=False, default=None)
    versions: dict[str, str] = field(default_factory=lambda: dict(versions()))
    machine: dict[str, Any] = field(default_factory=lambda: dict(machine()))

    def __post_init__(self) -> None:
        ratios = {name: peer.pop("ratio", None) for name, peer in self.peers.items()}
        median = self.ours.get("median")
        if median and self.peers:
            self.best_peer = min(self.peers, key=lambda name: self.peers[name]["median"])
            self.ratio = ratios[self.best_peer] or median / self.peers[self.best_peer]["median"]
        if median and self.floor:
            self.floor_share = self.floor["seconds"] / median


def compare(
    row: str,
    ours: Run | dict[str, Run],
    peers: dict[str, Run],
    *,
    device: str,
    rounds: int = 15,
    seconds: float = 0.05,
    note: str = "",
    fresh: Run | None = None,
    floor: dict[str, Any] | None = None,
    absent: dict[str, str] | None = None,
    unit: str = "",
    amount: float = 1.0,
    checked: str = "",
) -> Row:
    """Run each for about `seconds` a round, in turn. The same work must be done by all: check that before.

    `fresh` refills the inputs before every round, outside the clock. `ours` may be several modes by name.
    """
    modes = ours if isinstance(ours, dict) else {AS_CALLED: ours}
    both = set(modes) & set(peers)
    assert not both, f"{row}: expected other names for peers than for modes of ours, found {both}"
    runs, failed = {**modes, **peers}, dict[str, str]()
    repeats, times, slow = dict[str, int](), {name: list[float]() for name in runs}, set[str]()
    for name, run in runs.items():
        try:
            repeats[name], once = _warm_up(run, device, seconds)
            if once > PATIENCE:
                slow.add(name)
                times[name].append(once)
        except Exception as error:
            failed[name] = one_line(error)
            recover(device)
    for number in range(rounds):
        if fresh is not None:
            with torch.no_grad():
                fresh()
        names = [name for name in repeats if name not in slow]
        start = number % max(1, len(names))
        for name in names[start:] + names[:start]:
            try:
                rest(device)
                times[name].append(seconds_of(runs[name], repeats[name], device))
            except Exception as error:
                failed[name] = one_line(error)
                del repeats[name]
                recover(device)
    done = {name: _summary(times[name]) for name in repeats}
    mine = {name: done[name] for name in modes if name in done}
    best = min(mine, key=lambda name: mine[name]["median"], default="")
    theirs = {name: done[name] for name in peers if name in done}
    for name in theirs if best else ():
        theirs[name]["ratio"] = statistics.median(a / b for a, b in zip(times[best], times[name], strict=False))
    missing = (absent or {}) | {name: f"failed: {why}" for name, why in failed.items() if best or name in peers}
    return Row(
        row,
        device,
        mine[best] | {"mode": best} if best else {},
        theirs,
        note=note,
        floor=floor,
        absent=missing,
        unit=unit,
        amount=amount,
        checked=checked,
        modes=mine,
        error=None if best else "; ".join(failed[name] for name in modes),
    )


only = ""  # what a row's name must hold to be measured
LEFT_OUT = Row("left out", "", {}, versions={}, machine={})


def attempt(row: str, device: str, make: Callable[[], Row]) -> Row:
    """The row that `make` gives; one that says why, where it fails, so that the rows after it still run."""
    if only not in row:
        return LEFT_OUT
    try:
        return make()
    except Exception as error:
        recover(device)
        return Row(row, device, {}, error=one_line(error))


def agreeing(peers: dict[str, Run], check: Callable[[Any], str]) -> tuple[dict[str, Run], str, dict[str, str]]:
    """The peers whose result passes `check`, what it said, and why others do not; where none does, ours is wrong."""
    good, said, absent = dict[str, Run](), "", dict[str, str]()
    problem: Exception | None = None
    for name, run in peers.items():
        try:
            said = check(run())
            good[name] = run
        except Exception as error:
            absent[name], problem = f"failed: {one_line(error)}", problem or error
    if problem is not None and not good:
        raise problem
    return good, said, absent


def captured(run: Run, warm: int = 3) -> Run:
    """A replay of `run` as one CUDA graph: same inputs by address, same outputs by address, nothing of Python.

    What waits for the device cannot be captured, and a capture that breaks off leaves torch's memory and chances in
    disorder: so a run before it, told that it is one, raises at the first wait.
    """
    gc.collect()  # graphs of gradients that live on may tie parameters to the stream they were made on
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(warm):
            run()
        try:
            torch.cuda.set_sync_debug_mode("error")
            with mock.patch.object(torch.cuda, "is_current_stream_capturing", return_value=True):
                run()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = run()

    def replay(graph: Any = graph, kept: object = kept) -> object:
        graph.replay()
        return kept

    return replay


def graphs(runs: dict[str, Run], device: str) -> tuple[dict[str, Run], dict[str, str]]:
    """Each run in a CUDA graph, "NAME in a CUDA graph"; and those that cannot be captured, with the reason."""
    found, failed = dict[str, Run](), dict[str, str]()
    for name, run in runs.items() if device == "cuda" else ():
        title = "in a CUDA graph" if name == AS_CALLED else f"{name} in a CUDA graph"
        try:
            found[title] = captured(run)
        except Exception as error:
            failed[title] = f"failed: {one_line(error)}"
            recover(device)
    return found, failed


def one_line(error: BaseException) -> str:
    """An error in a line: its kind and the beginning of what it says."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said[:200]}" if said else type(error).__name__


def recover(device: str) -> None:
    """Put in order what a failure left: memory, and a random generator that still thinks a graph is captured."""
    if device == "cuda":
        with contextlib.suppress(Exception):
            torch.cuda.empty_cache()
            generator = torch.cuda.default_generators[torch.cuda.current_device()]
            generator.graphsafe_set_state(torch.Generator("cuda"))


def _warm_up(run: Run, device: str, seconds: float) -> tuple[int, float]:
    """How many calls last about `seconds`, after some that do not count, and how long one took."""
    run()
    once = seconds_of(run, 1, device)
    if once < seconds / 3:
        once = seconds_of(run, max(2, min(50, int(seconds / 3 / max(once, 1e-7)))), device)
    return max(1, round(seconds / once)), once


def rest(device: str) -> None:
    """Wait until threads of whoever had the last turn have gone to sleep: onnxruntime's spin on for some 20 ms."""
    if device == "cpu":
        time.sleep(REST)


def seconds_of(run: Run, repeats: int, device: str) -> float:
    """Seconds of one of `repeats` calls, the device's work included."""
    wait(device)
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    wait(device)
    return (time.perf_counter() - start) / repeats


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _summary(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    low, *_, high = statistics.quantiles(ordered, n=10, method="inclusive") if len(ordered) > 1 else ordered * 2
    return {"median": statistics.median(ordered), "low": low, "high": high, "rounds": len(ordered)}


def write(name: str, rows: list[Row], command: str, folder: Path | None = None) -> Path:
    """bench-NAME.json in results/ or another folder; where only some rows were asked for, the others stay."""
    path = (folder or ROOT / "results") / f"bench-{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"command": command, "commit": commit(), "rows": [asdict(row) for row in rows]}
    if only and path.exists():
        content["rows"] = merged(json.loads(path.read_text()), content["rows"])
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return path


def merged(before: dict[str, Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a file, those measured anew in their place; the others say which commit they are from."""
    new = {row["row"]: row for row in rows}
    kept = [new.pop(row["row"], {"commit": before["commit"]} | row) for row in before["rows"]]
    return kept + list(new.values())
