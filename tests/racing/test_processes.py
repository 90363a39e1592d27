"""The process pool: a process for each task, and a time limit for all."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tools.commands import wait_until_gone

from recollect.racing.processes import Died, Task, run_in_processes
from recollect.racing.workers import Local

pytestmark = pytest.mark.slow


def die(number):
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return 10 * number


def test_a_process_that_is_killed_takes_no_other_with_it():
    found = {task.number: answer for task, answer in Local(jobs=2).run([Task(i, die, i) for i in range(3)])}
    assert (found[0], found[2]) == (0, 20)
    assert isinstance(found[1], Died)
    assert "signal 9; out of memory, most likely" in found[1].reason


def wait(seconds):
    time.sleep(seconds)
    return seconds


def test_after_the_limit_what_runs_is_stopped_and_nothing_is_started():
    seen = set()
    tasks = [Task(number, wait, 600.0) for number in range(3)]
    found = run_in_processes(tasks, 2, lambda running: seen.update(task.number for task in running), limit=1.0)
    results = {task.number: answer for task, answer in found}
    assert set(results) == seen == {0, 1}
    assert all("exit code -15" in answer.reason for answer in results.values())


def leave_id(folder):
    Path(folder, str(os.getpid())).touch()
    time.sleep(600)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at processes through /proc")
def test_processes_end_when_the_one_that_started_them_is_killed(tmp_path):
    """Else they would go on training in folders that the race, started again, trains in."""
    code = f"""
from racing.test_processes import leave_id
from recollect.racing.processes import Task, run_in_processes
list(run_in_processes([Task(n, leave_id, {str(tmp_path)!r}) for n in range(2)], 2))
"""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code], env=env, start_new_session=True) as parent:
        while len(list(tmp_path.iterdir())) < 2:
            assert parent.poll() is None
            time.sleep(0.01)
        parent.kill()
    try:
        assert wait_until_gone(parent.pid, patience=60.0) == []
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(parent.pid, signal.SIGKILL)
