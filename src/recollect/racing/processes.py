"""A process pool with a process of its own for each task: one that dies of memory takes no other with it."""

import math
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import connection
from types import ModuleType
from typing import Any, NamedTuple

PRELOAD = ["recollect.racing.entry", "torch._dynamo", "safetensors.torch"]  # optimisers need the second
PATIENCE = 10.0  # seconds for a stopped process to save
Tick = Callable[[Sequence["Task"]], None]


class Task(NamedTuple):
    """A function of a module and its argument; `number` identifies the task when its result comes back."""

    number: int
    function: Callable[[Any], Any]
    given: Any


class Died(NamedTuple):
    """The result of a process that ended without one."""

    reason: str


def count_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_in_processes(
    tasks: Sequence[Task],
    jobs: int,
    tick: Tick = lambda running: None,
    limit: float = math.inf,
    prepare: Callable[[Task, int], Task] = lambda task, slot: task,
) -> Iterator[tuple[Task, Any]]:
    """Each task with its result (or `Died`) as it ends; `tick` is called about once a second with those that run.

    After `limit` seconds the tasks that run are sent SIGTERM, and no other is started. `prepare` is given each task and
    its slot, 0 to `jobs` − 1, of which no two that run have the same.
    """
    methods = multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:  # slow imports happen once; each process is then forked in a moment
        context.set_forkserver_preload(PRELOAD)
        _start_server()
    waiting, running, free = list(tasks), {}, list(range(jobs))
    began, late = time.monotonic(), False
    try:
        while waiting or running:
            if not late and time.monotonic() - began > limit:
                late = True
                waiting.clear()
                for _, process, _ in running.values():
                    process.terminate()
            while waiting and len(running) < jobs:
                task, slot = waiting.pop(0), free.pop(0)
                given = prepare(task, slot).given
                pipe, end = context.Pipe(duplex=False)
                process = context.Process(target=_child, args=(end, task.function, given), daemon=True)
                with _own_main():
                    process.start()
                end.close()
                running[pipe] = task, process, slot
            tick([task for task, _, _ in running.values()])
            for pipe in connection.wait(list(running), timeout=1.0):
                task, process, slot = running.pop(pipe)
                free.append(slot)
                yield task, _receive(pipe, process)
    finally:
        _stop([process for _, process, _ in running.values()])


@contextmanager
def _own_main() -> Iterator[None]:
    """Hide the caller's main module meanwhile: a new process would run the user's script once more to have it."""
    before = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = before


def _start_server() -> None:
    """Start the process that forks the others, with SIGINT blocked from its start: the parent stops them."""
    from multiprocessing import forkserver, resource_tracker

    resource_tracker.ensure_running()  # else the server would start it, and unblock signals on the way
    with _without_interrupts():
        forkserver.ensure_running()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """SIGINT is blocked meanwhile, in processes that are started here too; where signals have no mask, nothing is."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _child(pipe: Any, function: Callable[[Any], Any], given: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    found = function(given)
    with suppress(BrokenPipeError):  # the parent has gone
        pipe.send(found)


def _end_with_parent() -> None:
    """End this process as soon as its parent is gone, or it would train into a folder that the next try writes to."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _receive(pipe: Any, process: Any) -> Any:
    try:
        found = pipe.recv()
    except EOFError:
        process.join()
        code = process.exitcode or 0
        killed = code == -getattr(signal, "SIGKILL", 0) != 0  # Windows has no such signal
        why = f"signal {-code}; out of memory, most likely" if killed else f"exit code {code}"
        return Died(f"the process of this entry ended without a result ({why})")
    process.join()
    return found


def _stop(processes: Sequence[Any]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()
            process.join()
