"""A command line that can be killed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest


class Done(NamedTuple):
    code: int  # minus the signal's number, for a process that was killed
    out: str
    err: str


class Commands:
    """One process that has torch in memory, and forks for each command (see forker.py)."""

    def __init__(self, folder):
        self.folder = folder
        env = os.environ | {"OMP_NUM_THREADS": "1", "RECOLLECT_CACHE": str(folder / "cache")}
        script = Path(__file__).with_name("forker.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
        )
        assert self.line() == "ready"

    def line(self):
        return self.process.stdout.readline().strip()

    def start(self, *argv, die_at=None, limit=None):
        """The process id of a command that now runs."""
        job = {
            "argv": [str(part) for part in argv],
            "out": str(self.folder / "out"),
            "err": str(self.folder / "err"),
            "die_at": die_at,
            "limit": limit,
        }
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return int(self.line())

    def wait(self):
        code = int(self.line())
        return Done(code, *((self.folder / name).read_text(encoding="utf-8") for name in ("out", "err")))

    def run(self, *argv, **faults):
        self.start(*argv, **faults)
        return self.wait()

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="session")
def commands(tmp_path_factory):
    commands = Commands(tmp_path_factory.mktemp("commands"))
    yield commands
    commands.close()


@pytest.fixture(autouse=True)
def _own_cache(own_cache):
    pass
