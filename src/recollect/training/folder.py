"""The run folder: config, weights, metrics, checkpoints and where it all came from."""

import contextlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from ..core import typed
from ..core.artifacts import read_artifact, write_artifact
from ..core.errors import RunError
from ..core.files import locked, read_file, write_aside
from ..core.sharing import share_command
from .events import EventFile

MAGIC, VERSION = "recollect-run", 2
SHARDED_NOTE = "note.json"  # the last file of a sharded checkpoint, which makes it whole
SUMMARY = "data.json"  # what was read: core.summary.DataSummary
MOST_METRICS = 1 << 30  # bytes
SHIPPED = Path(__file__).resolve().parent.parent / "demos"  # small trained runs that come with the package


def shipped() -> list[str]:
    """The names of the runs that come with the package."""
    return sorted(path.name for path in SHIPPED.iterdir()) if SHIPPED.is_dir() else []


class MetricsRow(TypedDict):
    """A line of metrics.jsonl; numbers that grew beyond all bounds are told as they are."""

    step: int
    tokens: NotRequired[int]
    flops: NotRequired[float | typed.Infinite]
    seconds: NotRequired[float | typed.Infinite]
    memory: NotRequired[float | typed.Infinite | None]  # None: the system does not count it
    norm: NotRequired[float | typed.Infinite]
    loss: NotRequired[float | typed.Infinite]
    valid: NotRequired[float | typed.Infinite]


class ConfigFile(TypedDict, total=False):
    """config.json, but for the settings, which tasks and models declare: where data and first weights came from."""

    task: str
    corpus: dict[str, Any]
    init: str | None
    data_dir: str | None  # the folder of known sets, which later commands look in again
    metric: str  # the figure by which validation chose the weights


class Manifest(TypedDict):
    """manifest.json: where a run came from."""

    command: str
    commit: str
    machine: dict[str, Any]
    date: NotRequired[str]  # when it began, in UTC


class RunFolder:
    """config.json · data.json · model.safetensors · tokenizer.json · metrics.jsonl · checkpoints/ · manifest.json"""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.config_path = self.path / "config.json"
        self.model_path = self.path / "model.safetensors"
        self.metrics_path = self.path / "metrics.jsonl"
        self.last_file = self.path / "checkpoints" / "last.safetensors"
        self.best = self.path / "checkpoints" / "best.safetensors"
        self.events: EventFile | None = None

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "RunFolder":
        """An existing run, or by its name one that comes with the package."""
        if not os.fspath(path):
            raise RunError("expected a run folder, found an empty name")
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
        with cls.created(path, config) as folder:
            return folder

    @classmethod
    @contextmanager
    def created(cls, path: str | os.PathLike[str], config: dict[str, Any]) -> Iterator["RunFolder"]:
        """A new run that nobody else trains meanwhile: of two that begin in one place at once, one is refused."""
        folder = cls(path)
        folder.check_new()
        folder.path.mkdir(parents=True, exist_ok=True)
        with folder.locked():
            folder.check_new()
            folder.clear_up()  # what a run that was killed before its config left here
            # the config comes first: whenever the run is killed after it, it can go on
            folder.write_json("config.json", {"format": MAGIC, "version": VERSION} | config)
            folder.last_file.parent.mkdir(exist_ok=True)
            folder.write_json("manifest.json", manifest(config))
            yield folder

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

    @property
    def last(self) -> Path:
        """The last checkpoint: a file, or of a sharded run a folder."""
        steps = [
            (int(found.name.removeprefix("last-")), found)
            for found in self.last_file.parent.glob("last-*")
            if found.name.removeprefix("last-").isdecimal() and (found / SHARDED_NOTE).is_file()
        ]
        return max(steps)[1] if steps else self.last_file

    def drop_sharded(self) -> None:
        """Remove the checkpoints of an earlier, sharded part of the run."""
        for found in self.last_file.parent.glob("last-*"):
            shutil.rmtree(found)

    def snapshot(self, step: int) -> Path:
        """The file with the weights of an evaluation, for a mean of several."""
        return self.last_file.parent / f"kept-{step}.safetensors"

    def snapshot_steps(self, until: int) -> list[int]:
        """The steps with a snapshot, in order, up to `until`: a killed run may have left later ones."""
        found = [path.stem.removeprefix("kept-") for path in self.last_file.parent.glob("kept-*.safetensors")]
        return sorted(step for step in map(int, filter(str.isdecimal, found)) if step <= until)

    def config(self) -> dict[str, Any]:
        """What config.json says; its settings are read by `train.run.from_json`."""
        content = self.read_json("config.json")
        if not isinstance(content, dict) or content.get("format") != MAGIC:
            raise RunError(f"{self.config_path}: expected the config of a recollect run, found something else")
        if content.get("version") != VERSION:
            raise RunError(
                f"{self.config_path}: expected a run of version {VERSION}, found {typed.show(content.get('version'))}; "
                "use the recollect that made it"
            )
        return typed.read(content, ConfigFile, str(self.config_path))

    def data_dir(self, given: str | None) -> str | None:
        """The folder of known sets: the one that is given, else RECOLLECT_DATA's, else that of the training."""
        if given is not None or os.environ.get("RECOLLECT_DATA"):
            return given
        remembered = self.config().get("data_dir")
        return remembered if remembered is not None and Path(remembered).is_dir() else None

    def weights(self) -> tuple[Path, list[str]]:
        """The weights that stand for the run, and what should be known of them.

        Of a run that has not finished they are the best so far, and before its first validation the last.
        """
        found = next((place for place in (self.model_path, self.best, self.last) if place.exists()), None)
        if found is None:
            raise RunError(
                f"{self.path}: expected weights (model.safetensors), found none; the run was stopped too early"
            )
        early = f"{self.path} was stopped before its first validation; its last weights are used"
        return found, [early] if found == self.last else []

    def locked(self) -> AbstractContextManager[bool]:
        """Nobody else trains in this folder meanwhile. The system frees the lock of a process that is killed."""
        busy = f"{self.path}: expected a run that nobody trains, found one in training; wait, or use another --out"
        return locked(self.path, wait=False, busy=busy)

    def read_json(self, name: str) -> Any:
        return read_artifact(self.path, name)

    def write_json(self, name: str, content: Any) -> None:
        write_artifact(self.path, name, content, indent=1)

    def log(self, row: dict[str, Any]) -> None:
        """Append a line to metrics.jsonl."""
        with self.metrics_path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if self.events is not None:
            self.events.write(row)

    def metrics(self) -> list[dict[str, Any]]:
        """The rows so far; a last line that was only half written is left out."""
        *lines, _ = self._metrics_lines() or [""]
        return [self._metrics_row(number, line) for number, line in enumerate(lines, 1)]

    def cut_metrics(self, step: int, evaluated: int | None = None) -> None:
        """Drop what a killed run logged after the checkpoint that it goes on from, and a half-written last line."""
        if not self.metrics_path.exists():
            return
        *lines, last = self._metrics_lines()
        rows = [self._metrics_row(number, line) for number, line in enumerate(lines, 1)]
        with contextlib.suppress(RunError):  # written to its end but for the line break
            rows += [self._metrics_row(len(rows) + 1, last)]
        last = step if evaluated is None else evaluated  # the checkpoint may be older than the evaluation of its step
        kept = [row for row in rows if row["step"] <= (last if "valid" in row else step)]
        write_aside(self.metrics_path, "".join(json.dumps(row) + "\n" for row in kept).encode())

    def _metrics_lines(self) -> list[str]:
        """The lines of metrics.jsonl, the last of them without an end."""
        if not self.metrics_path.exists():
            return []
        return read_file(self.metrics_path, MOST_METRICS).decode("utf-8", errors="replace").split("\n")

    def _metrics_row(self, number: int, line: str) -> dict[str, Any]:
        where = f"{self.metrics_path}: line {number:,}"
        try:
            return typed.read(json.loads(line), MetricsRow, where)
        except typed.TypeMismatch as error:
            raise RunError(str(error)) from error
        except (ValueError, RecursionError) as error:
            raise RunError(f"{where}: expected an object in JSON, found something else ({error})") from error

    def manifest(self) -> dict[str, Any]:
        """Where the run came from."""
        return typed.read(self.read_json("manifest.json"), Manifest, str(self.path / "manifest.json"))


def manifest(config: dict[str, Any]) -> dict[str, Any]:
    """Versions, commit, command, machine, date and seed."""
    name = Path(sys.argv[0]).name.replace("__main__.py", "recollect")
    return {
        "command": share_command(shlex.join([name, *sys.argv[1:]])),
        "commit": commit(),
        "machine": machine(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": config.get("train", {}).get("seed"),
    }


def commit() -> str:
    """The commit of the checkout that runs, or the package's version."""
    here = Path(__file__).resolve().parent
    words = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(words, cwd=here, capture_output=True, text=True, check=False)  # noqa: S603 (fixed words)
        found = done.stdout.strip()
    except OSError:  # a machine without git
        found = ""
    from .. import __version__

    return found or os.environ.get("RECOLLECT_COMMIT", __version__)


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
