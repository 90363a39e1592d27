"""Processes that a studio starts: each in a session of its own, in a folder that outlives the studio.

A process holds the lock of its job's folder, which it inherits: whoever opens the same folder later, another studio
too, sees by the lock alone whether it still runs. No number of a process is trusted without it.
"""

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from ...core import typed
from ...core.errors import RecollectError
from ...core.files import is_locked, read_json, write_aside

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

HOME = Path(".studio", "jobs")  # below the first folder of a studio
ABOUT, ENDED, OUTPUT = "job.json", "ended.json", "output.txt"
MOST_KEPT = 100  # jobs that have ended
MOST_TAIL = 1 << 16  # bytes of output that are shown
PATIENCE = 20.0  # seconds in which a stopped training saves, when the studio ends
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
Kind = Literal["train", "race", "course"]


class JobError(RecollectError):
    """A job that cannot be started or stopped; the message is one line."""


@dataclass(kw_only=True)
class Job:
    """What job.json holds. `shown` is the command as one would type it; `out` the name of its run or race."""

    id: str
    kind: Kind
    words: list[str]
    shown: str
    title: str
    out: str | None = None
    started: float
    process: int = 0
    stopping: bool = False
    resumes: dict[str, Any] = field(default_factory=dict)


class Jobs:
    """The jobs of a folder. `most` run at once."""

    def __init__(self, folder: Path | None, most: int = 2) -> None:
        self.folder = None if folder is None else folder / HOME
        self.most = most
        self.lock = threading.Lock()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    # What there is

    def list_jobs(self) -> list[dict[str, Any]]:
        """All jobs for a page, the newest first."""
        return [self.describe(job) for job in self.read_all()]

    def find(self, name: str) -> Job | None:
        return next((job for job in self.read_all() if job.id == name), None)

    def describe(self, job: Job) -> dict[str, Any]:
        """A job with where it stands: its state, its last line, and the line of its error."""
        place = self._place(job.id)
        running, code = is_locked(place), self._code(job.id)
        lines = self.tail(job.id, 1 << 12).splitlines()
        last = next((line for line in reversed(lines) if line.strip()), "")
        if running:
            state = "stopping" if job.stopping else "running"
        elif code == 0:
            state = "finished"
        elif job.stopping:
            state = "stopped"
        else:
            state = "failed" if code is not None else "ended"
        return {
            "id": job.id, "kind": job.kind, "title": job.title, "command": job.shown, "out": job.out,
            "started": job.started, "state": state, "code": code, "line": last[:400],
            "error": last.removeprefix("recollect: ")[:1_000] if state == "failed" else None,
        }  # fmt: skip

    def tail(self, name: str, most: int = MOST_TAIL) -> str:
        """The end of what a job printed, as a terminal would show it."""
        try:
            with (self._place(name) / OUTPUT).open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - most))
                content = file.read(most)
        except OSError:
            return ""
        if size > most:
            content = content[content.find(b"\n") + 1 :]
        text = ESCAPES.sub("", content.decode("utf-8", "replace"))
        return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))

    # Starting and stopping

    def start(
        self, kind: Kind, words: Sequence[str], *, shown: str, title: str, out: str | None = None,
        folder: Path | None = None, env: Mapping[str, str] | None = None, resumes: Mapping[str, Any] | None = None,
    ) -> Job:  # fmt: skip
        """Start a process. It works in an empty folder of its own, or in the one that is given."""
        if self.folder is None:
            raise JobError("start: expected a folder to write to, found none; open one: recollect studio FOLDER")
        with self.lock:
            running = [job for job in self.read_all() if is_locked(self._place(job.id))]
            if len(running) >= self.most:
                raise JobError(
                    f"start: expected fewer than {self.most} jobs that run, found {len(running)}; wait for one, or "
                    "stop it"
                )
            if out is not None and any(job.out == out for job in running):
                raise JobError(f"out: expected a name that no running job writes to, found {out}; use another")
            self._forget_old()
            moment = time.time()
            name = time.strftime("%Y%m%d-%H%M%S-", time.gmtime(moment)) + secrets.token_hex(3)
            place = self._place(name)
            (place / "work").mkdir(parents=True)
            job = Job(
                id=name, kind=kind, words=list(words), shown=shown, title=title, out=out, started=moment,
                resumes=dict(resumes or {}),
            )  # fmt: skip
            self._launch(job, place, folder or place / "work", env or {})
            self._write(job)
            return job

    def _launch(self, job: Job, place: Path, folder: Path, env: Mapping[str, str]) -> None:
        handle = os.open(place, os.O_RDONLY)
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with (place / OUTPUT).open("wb") as output:
                process = subprocess.Popen(  # noqa: S603 (words that this package has put together)
                    job.words, cwd=folder, env={**os.environ, "COLUMNS": "100", **env}, stdin=subprocess.DEVNULL,
                    stdout=output, stderr=subprocess.STDOUT, start_new_session=True, pass_fds=(handle,),
                )  # fmt: skip
        finally:
            os.close(handle)
        job.process = process.pid
        self.processes[job.id] = process
        threading.Thread(target=self._wait, args=(job.id, process), name="recollect-job", daemon=True).start()

    def _wait(self, name: str, process: "subprocess.Popen[bytes]") -> None:
        code = process.wait()
        self.processes.pop(name, None)
        with contextlib.suppress(OSError):  # its folder may have gone
            write_aside(self._place(name) / ENDED, json.dumps({"code": code, "ended": time.time()}).encode())

    def stop(self, name: str) -> None:
        """Ask a job to save and end; one that was asked before is ended."""
        job = self.find(name)
        if job is None:
            raise JobError(f"job: expected one of this studio, found {typed.show(name)}")
        if not is_locked(self._place(name)):
            raise JobError(f"job: expected one that runs, found {name}, which has ended")
        again = job.stopping
        job.stopping = True
        self._write(job)
        with contextlib.suppress(ProcessLookupError):
            if again:
                os.killpg(job.process, signal.SIGKILL)
            elif job.kind == "course":  # a shell waits for its command before it ends itself
                os.killpg(job.process, signal.SIGTERM)
            else:  # which trainings and races save at, also where whoever began the studio ignores SIGINT
                os.kill(job.process, signal.SIGTERM)

    def close(self, *, stop: bool) -> bool:
        """The studio ends: its jobs go on, or are saved and end; whether all that had to have ended."""
        if not stop:
            return True
        mine = dict(self.processes)
        for name in mine:
            with contextlib.suppress(JobError):
                self.stop(name)
        deadline = time.monotonic() + PATIENCE
        for process in mine.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
        return True

    # Files

    def _place(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / name

    def read_all(self) -> list[Job]:
        """The newest first."""
        try:
            names = sorted((path.name for path in self.folder.iterdir()), reverse=True) if self.folder else []
        except OSError:
            return []
        return [job for name in names if (job := self._read(name)) is not None]

    def _read(self, name: str) -> Job | None:
        try:
            job = typed.read(read_json(self._place(name) / ABOUT, 1 << 20), Job)
        except (OSError, RecollectError):
            return None
        return job if job.id == name else None

    def _write(self, job: Job) -> None:
        write_aside(self._place(job.id) / ABOUT, json.dumps(asdict(job), indent=1).encode())

    def _code(self, name: str) -> int | None:
        try:
            found = read_json(self._place(name) / ENDED, 1 << 12)
        except (OSError, RecollectError):
            return None
        code = found.get("code") if isinstance(found, dict) else None
        return code if isinstance(code, int) else None

    def _forget_old(self) -> None:
        ended = [job for job in self.read_all() if not is_locked(self._place(job.id))]
        for job in ended[MOST_KEPT:]:
            shutil.rmtree(self._place(job.id), ignore_errors=True)
