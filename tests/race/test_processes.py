"""The process pool: a process for each task, and a time limit for all."""

import os
import signal
import time

import pytest

from recollect.race.entry import run_tasks
from recollect.race.processes import Died, Task, run_in_processes

pytestmark = pytest.mark.slow


def die(number):
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return 10 * number


def test_a_process_that_is_killed_takes_no_other_with_it():
    found = {task.number: answer for task, answer in run_tasks([Task(i, die, i) for i in range(3)], jobs=2)}
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
