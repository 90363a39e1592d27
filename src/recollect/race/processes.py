"""Several entries at once, a process each: one that dies, for want of memory say, takes no other with it."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing import connection
from typing import Any, NamedTuple

PRELOAD = ["recollect.race.entry", "torch._dynamo", "safetensors.torch"]  # optimisers want the second
PATIENCE = 10.0  # seconds for a stopped process to save


class Task(NamedTuple):
    """A function of a module, and what it is called with; `number` comes back with what it returns."""

    number: int
    function: Callable[[Any], Any]
    given: Any


class Died(NamedTuple):
    """A process that ended without an answer."""

    reason: str


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def together(
    tasks: Sequence[Task], jobs: int, tick: Callable[[Sequence[Task]], None] = lambda running: None
) -> Iterator[tuple[Task, Any]]:
    """Each task with its answer (or `Died`), as they end; `tick` is called now and then with those that run.

    With one job all happens in this process.
    """
    if jobs == 1:
        for task in tasks:
            tick([task])
            yield task, task.function(task.given)
        return
    methods = multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:  # what is slow to import comes once; each entry is then a fresh process in a moment
        context.set_forkserver_preload(PRELOAD)
        _start_server()
    waiting, running = list(tasks), {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                task = waiting.pop(0)
                pipe, end = context.Pipe(duplex=False)
                process = context.Process(target=_child, args=(end, task.function, task.given), daemon=True)
                process.start()
                end.close()
                running[pipe] = task, process
            for pipe in connection.wait(list(running), timeout=1.0):
                task, process = running.pop(pipe)
                yield task, _answer(pipe, process)
            tick([task for task, _ in running.values()])
    finally:
        _stop([process for _, process in running.values()])


def _start_server() -> None:
    """What forks the entries, deaf to Ctrl-C from its first moment on, since the parent says when to stop."""
    from multiprocessing import forkserver, resource_tracker

    resource_tracker.ensure_running()  # it would be started on the way, and let signals through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _child(pipe: Any, function: Callable[[Any], Any], given: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent says when to stop
    found = function(given)
    with suppress(BrokenPipeError):  # the parent has gone
        pipe.send(found)


def _answer(pipe: Any, process: Any) -> Any:
    try:
        found = pipe.recv()
    except EOFError:
        process.join()
        code = process.exitcode or 0
        why = f"signal {-code}; out of memory, most likely" if code == -signal.SIGKILL else f"exit code {code}"
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
