"""What Windows lacks is hidden: `resource`, `fcntl`, forks, signal masks. Everything imports, trains and races."""

import os
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import recollect

HIDING = Path(__file__).parent / "no_posix"  # its sitecustomize.py hides them in every process that Python starts
SOURCE = Path(recollect.__file__).parents[1]

IMPORT = """
import importlib, pkgutil
import recollect

for module in pkgutil.walk_packages(recollect.__path__, "recollect."):
    try:
        importlib.import_module(module.name)
    except ImportError as error:
        print(module.name, error.name, type(error).__name__)
"""
ASK = """
import multiprocessing, os, signal

for name in ("resource", "fcntl", "pwd"):
    try:
        __import__(name)
    except ImportError:
        continue
    print(name)
print([name for name in ("fork", "sched_getaffinity") if hasattr(os, name)])
print([name for name in ("SIGKILL", "pthread_sigmask") if hasattr(signal, name)])
print(multiprocessing.get_all_start_methods())
"""
DIE = """
import os
from recollect.racing.processes import Task, run_in_processes

if __name__ == "__main__":
    print([answer.reason for _, answer in run_in_processes([Task(0, os._exit, 3)], jobs=1)])
"""


@pytest.fixture
def without_posix(tmp_path):
    """Run Python with these words; its exit code, output and errors."""
    path = os.pathsep.join([str(HIDING), str(SOURCE)])
    env = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "RECOLLECT_CACHE": str(tmp_path / "cache")}

    def run(*words):
        command = [sys.executable, *words]
        return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


def test_they_are_hidden(without_posix):
    done = without_posix("-c", ASK)
    assert (done.stdout, done.stderr) == ("[]\n[]\n['spawn']\n", "")


def test_every_module_imports(without_posix):
    done = without_posix("-c", IMPORT)
    assert (done.returncode, done.stderr) == (0, "")
    failed = [line.split() for line in done.stdout.splitlines()]
    allowed = set() if find_spec("triton") else {"triton"}  # kernels for a GPU
    assert {(name.split(".")[1], missing) for name, missing, _ in failed} <= {("kernels", each) for each in allowed}


def test_a_run_trains(without_posix, tmp_path):
    words = shlex.split("train recall --model rnn --steps 2 --device cpu --out run --set eval_rows=8")
    done = without_posix("-m", "recollect", *words)
    assert done.returncode == 0, done.stderr
    assert '"memory": null' in (tmp_path / "run" / "metrics.jsonl").read_text()


def test_a_race_runs_in_spawned_processes(without_posix, tmp_path):
    # one job would run in the command's own process
    words = shlex.split(
        "race recall --models rnn --params 2k --budget 2 --search 0 --seeds 1 --jobs 2 --device cpu --out race"
    )
    done = without_posix("-m", "recollect", *words)
    assert done.returncode == 0, done.stderr
    rows = (tmp_path / "race" / "results.jsonl").read_text().splitlines()
    assert len(rows) == 1
    assert '"state_bytes"' in rows[0]


def test_a_process_that_ends_without_a_result_is_told_from_one_that_was_killed(without_posix, tmp_path):
    script = tmp_path / "die.py"
    script.write_text(DIE)
    done = without_posix(str(script))
    assert done.stdout == "['the process of this entry ended without a result (exit code 3)']\n", done.stderr
