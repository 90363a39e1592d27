"""The run folder: config, weights, metrics, checkpoints and where it all came from."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..core.artifacts import read_artifact, write_artifact
from ..core.files import write_aside
from ..core.task import RunError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

MAGIC, VERSION = "recollect-run", 2
SHIPPED = Path(__file__).resolve().parent.parent / "demos"  # small trained runs that come with the package


def shipped() -> list[str]:
    """The names of the runs that come with the package."""
    return sorted(path.name for path in SHIPPED.iterdir()) if SHIPPED.is_dir() else []


class RunFolder:
    """config.json · model.safetensors · tokenizer.json · metrics.jsonl · checkpoints/ · manifest.json"""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.config_path = self.path / "config.json"
        self.model_path = self.path / "model.safetensors"
        self.metrics_path = self.path / "metrics.jsonl"
        self.last = self.path / "checkpoints" / "last.safetensors"
        self.best = self.path / "checkpoints" / "best.safetensors"

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "RunFolder":
        """An existing run, or by its name one that comes with the package."""
        folder = cls(path)
        if str(path) in shipped() and not folder.path.exists():
            return cls(SHIPPED / path)
        if not folder.path.is_dir():
            found = "a file" if folder.path.exists() else "nothing"
            hint = f"; with the package come {', '.join(shipped())}" if len(folder.path.parts) == 1 else ""
            raise RunError(f"{path}: expected a run folder, found {found}{hint}")
        if not folder.config_path.is_file():
            raise RunError(f"{path}: expected a run folder with a config.json, found none in it")
        return folder

    @classmethod
    def create(cls, path: str | os.PathLike[str], config: dict[str, Any]) -> "RunFolder":
        """A new run; an old one in its place is never written over."""
        folder = cls(path)
        folder.check_new()
        folder.path.mkdir(parents=True, exist_ok=True)
        folder.clear_up()  # what a run that was killed before its config left here
        # the config comes first: whenever the run is killed after it, it can go on
        folder.write_json("config.json", {"format": MAGIC, "version": VERSION} | config)
        folder.last.parent.mkdir(exist_ok=True)
        folder.write_json("manifest.json", manifest(config))
        return folder

    def check_new(self) -> None:
        """Refuse a place where something stands already."""
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path}: expected a new or empty folder, found a file; use another --out")
        if self.path.exists() and any(found.suffix != ".part" for found in self.path.iterdir()):
            raise RunError(
                f"{self.path}: expected a new or empty folder, found files in it; use --resume, or another --out"
            )

    def check_own(self) -> None:
        """Refuse to write into a run that comes with the package."""
        if self.path.parent == SHIPPED:
            raise RunError(f"{self.path.name}: expected a run of your own, found one that comes with the package")

    def clear_up(self) -> None:
        """Remove what a killed run was about to write."""
        for part in self.path.rglob(".*.part"):
            part.unlink()

    def snapshot(self, step: int) -> Path:
        """The file with the weights of an evaluation, for a mean of several."""
        return self.last.parent / f"kept-{step}.safetensors"

    def snapshot_steps(self, until: int) -> list[int]:
        """The steps with a snapshot, in order, up to `until`: a killed run may have left later ones."""
        found = [path.stem.removeprefix("kept-") for path in self.last.parent.glob("kept-*.safetensors")]
        return sorted(step for step in map(int, filter(str.isdecimal, found)) if step <= until)

    def config(self) -> dict[str, Any]:
        content = self.read_json("config.json")
        if not isinstance(content, dict) or content.get("format") != MAGIC:
            raise RunError(f"{self.config_path}: expected the config of a recollect run, found something else")
        if content.get("version") != VERSION:
            raise RunError(
                f"{self.config_path}: expected a run of version {VERSION}, found {content.get('version')!r}; "
                "use the recollect that made it"
            )
        return content

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else trains in this folder meanwhile. The system frees the lock of a process that is killed."""
        if fcntl is None:
            yield
            return
        handle = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise RunError(f"{self.path}: expected a run that nobody trains, found one in training") from None
        try:
            yield
        finally:
            os.close(handle)

    def read_json(self, name: str) -> Any:
        return read_artifact(self.path, name)

    def write_json(self, name: str, content: Any) -> None:
        write_artifact(self.path, name, content, indent=1)

    def log(self, row: dict[str, Any]) -> None:
        """Append a line to metrics.jsonl."""
        with self.metrics_path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        """The rows so far; a last line that was only half written is left out."""
        if not self.metrics_path.exists():
            return []
        *lines, _ = self.metrics_path.read_text(encoding="utf-8", errors="replace").split("\n")
        return [json.loads(line) for line in lines]

    def cut_metrics(self, step: int) -> None:
        """Drop what a killed run logged after the checkpoint that it goes on from, and a half-written last line."""
        if not self.metrics_path.exists():
            return
        rows = []
        for line in self.metrics_path.read_text(encoding="utf-8", errors="replace").split("\n"):
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue
            if row.get("step", 0) <= step:
                rows.append(json.dumps(row))
        write_aside(self.metrics_path, "".join(line + "\n" for line in rows).encode())


def manifest(config: dict[str, Any]) -> dict[str, Any]:
    """Versions, commit, command, machine and seed."""
    return {
        "command": " ".join([Path(sys.argv[0]).name.replace("__main__.py", "recollect"), *sys.argv[1:]]),
        "commit": commit(),
        "machine": machine(),
        "seed": config.get("train", {}).get("seed"),
    }


def commit() -> str:
    """The commit of the checkout that runs, or the package's version."""
    here = Path(__file__).resolve().parent
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=here, capture_output=True, text=True, check=False
    )
    from .. import __version__

    return done.stdout.strip() or os.environ.get("RECOLLECT_COMMIT", __version__)


def machine() -> dict[str, Any]:
    """What a figure was measured on, without naming the host."""
    import torch

    return {
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
