"""A command line whose processes can be killed: torch is imported once, then each command is a fork (see forker.py)."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

FORKER = Path(__file__).with_name("forker.py")


class Done(NamedTuple):
    code: int  # minus the signal's number, for a process that was killed
    out: str
    err: str


class Commands:
    """One process that has torch in memory, and forks for each command; `modules` are imported before the forks."""

    def __init__(self, folder: Path, *modules: str, path: Path | None = None) -> None:
        self.folder = folder
        self.running: int | None = None
        self.jobs = 0
        env = os.environ | {"OMP_NUM_THREADS": "1", "RECOLLECT_CACHE": str(folder / "cache")}
        if path is not None:  # of modules that commands call
            env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(path), os.environ.get("PYTHONPATH", "")]))
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(FORKER), *modules],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env,
        )  # fmt: skip
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == "ready"

    def answer(self) -> int:
        """The next number that is told of the last job; what was told of earlier ones is passed over."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            job, number = map(int, line.split())
            if job == self.jobs:
                return number
        raise ChildProcessError(f"{FORKER.name} has ended with code {self.process.wait()}")

    def start(self, *argv: object, **limits: object) -> int:
        """The process id of a command that now runs; `limits` are those of forker.LIMITS. One runs at a time."""
        if self.running is not None:  # nobody waited for it: a test that failed, say
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.running, signal.SIGKILL)
            self.wait()
        places = {name: str(self.folder / name) for name in ("out", "err")}
        assert self.process.stdin is not None
        self.jobs += 1
        job = {"job": self.jobs, "argv": [str(part) for part in argv], **places, **limits}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        self.running = self.answer()
        return self.running

    def wait(self) -> Done:
        code = self.answer()
        self.running = None
        texts = ((self.folder / name).read_text(encoding="utf-8", errors="replace") for name in ("out", "err"))
        return Done(code, *texts)

    def run(self, *argv: object, **limits: object) -> Done:
        self.start(*argv, **limits)
        return self.wait()

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def state_of(pid: int) -> tuple[str, int]:
    """The state of a process, such as R, S or Z, and its session; X where there is none. Linux only."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "X", 0
    return fields[0], int(fields[3])


def is_running(pid: int) -> bool:
    return state_of(pid)[0] not in "XZ"


def session_of(leader: int) -> list[int]:
    """Processes of a session that run."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    return [pid for pid in pids if state_of(pid)[1] == leader and is_running(pid)]


def wait_until_gone(leader: int, patience: float) -> list[int]:
    """Processes of a session that still run after so many seconds, or none as soon as there is none."""
    late = time.monotonic() + patience
    while (left := session_of(leader)) and time.monotonic() < late:
        time.sleep(0.01)
    return left
