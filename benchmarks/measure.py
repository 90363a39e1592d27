"""How a row is measured, and what goes into results/."""

import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Row:
    """One comparison: median seconds of ours and each peer, and the ratio to the best (below 1: ours is faster)."""

    row: str
    device: str
    ours: dict[str, float]
    peers: dict[str, dict[str, float]]
    note: str = ""
    ratio: float = field(init=False)
    best_peer: str = field(init=False)

    def __post_init__(self) -> None:
        self.best_peer = min(self.peers, key=lambda name: self.peers[name]["median"])
        # The ratio is taken round by round, so that a noisy moment hits both sides.
        self.ratio = self.peers[self.best_peer].pop("ratio")
        for peer in self.peers.values():
            peer.pop("ratio", None)


def compare(
    row: str,
    ours: Callable[[], object],
    peers: dict[str, Callable[[], object]],
    *,
    device: str,
    rounds: int = 15,
    seconds: float = 0.05,
    note: str = "",
) -> Row:
    """Run each for about `seconds` a round, in turn. The same work must be done by all: check that before."""
    runs = {"ours": ours, **peers}
    repeats = {name: _warm_up(run, device, seconds) for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(_time(run, repeats[name], device))
    ratios = {name: statistics.median(a / b for a, b in zip(times["ours"], times[name], strict=True)) for name in peers}
    summary = {name: _summary(values) for name, values in times.items()}
    return Row(row, device, summary.pop("ours"), {n: s | {"ratio": ratios[n]} for n, s in summary.items()}, note)


def _warm_up(run: Callable[[], object], device: str, seconds: float) -> int:
    for _ in range(3):
        run()
    return max(1, int(seconds / _time(run, 3, device)))


def _time(run: Callable[[], object], repeats: int, device: str) -> float:
    _wait(device)
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    _wait(device)
    return (time.perf_counter() - start) / repeats


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _summary(values: list[float]) -> dict[str, float]:
    low, *_, high = statistics.quantiles(values, n=10)
    return {"median": statistics.median(values), "low": low, "high": high}


def machine() -> dict[str, object]:
    """Where a figure was measured, without the machine's name."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().split("\n")
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return {
        "system": platform.system(),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": gpu,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def write(name: str, rows: list[Row], command: str) -> Path:
    """results/bench-NAME.json."""
    path = ROOT / "results" / f"bench-{name}.json"
    path.parent.mkdir(exist_ok=True)
    content = {"command": command, "commit": commit(), "machine": machine(), "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return path
