"""Where the trainings of a race run: in processes of this machine, over its GPUs, or on the nodes of a Ray cluster.

All give the results of tasks as they end, or `Died` where a process or a node was lost, so that a race is the same
wherever it runs. The run folder stays the truth: with Ray it must lie on a file system that all nodes share.
"""

import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from ..core.errors import RecollectError
from ..core.limits import one_line
from .processes import Died, Task, Tick, run_in_processes

PASSED = "RECOLLECT_"  # environment variables that workers elsewhere are given
PATIENCE = 5.0  # seconds for a cluster to answer
TRIES = 2  # more for a task whose node is lost


class WorkersError(RecollectError):
    """Workers that cannot be had; the message is one line."""


class Workers(Protocol):
    @property
    def jobs(self) -> int:
        """Tasks at a time."""
        ...

    def run(self, tasks: Sequence[Task], tick: Tick = ...) -> Iterator[tuple[Task, Any]]:
        """Each task with its result as it ends; `tick` is called about once a second with those that may run."""
        ...


@dataclass(frozen=True, kw_only=True)
class Local:
    """Processes of this machine; with one job and no choice of devices this process. `devices` are taken in turn."""

    jobs: int = 1
    devices: tuple[str, ...] = ()

    def run(self, tasks: Sequence[Task], tick: Tick = lambda running: None) -> Iterator[tuple[Task, Any]]:
        if self.jobs > 1 or self.devices:
            yield from run_in_processes(tasks, self.jobs, tick, prepare=self._on_device)
            return
        for task in tasks:
            tick([task])
            yield task, task.function(task.given)

    def _on_device(self, task: Task, slot: int) -> Task:
        """The task of an entry on the device of its slot."""
        if not self.devices:
            return task
        terms = replace(task.given.terms, device=self.devices[slot % len(self.devices)])
        return task._replace(given=replace(task.given, terms=terms))


@dataclass(frozen=True, kw_only=True)
class OnRay:
    """Tasks on a Ray cluster: a core each, and a share of a GPU where entries train on one.

    Without an address that of RAY_ADDRESS is asked; without any a cluster of this machine alone is started and ended.
    """

    address: str | None = None
    jobs: int = 1_000
    gpus: float = 0.0  # of a task

    def run(self, tasks: Sequence[Task], tick: Tick = lambda running: None) -> Iterator[tuple[Task, Any]]:
        ray: Any = connect(self.address)
        remote = ray.remote(num_cpus=1, num_gpus=self.gpus, max_retries=TRIES)(call)
        waiting = list(tasks)
        running: dict[Any, Task] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self.jobs:
                    task = waiting.pop(0)
                    running[remote.remote(task.function, task.given)] = task
                done, _ = ray.wait(list(running), num_returns=1, timeout=1.0)
                tick([task for task in running.values() if has_begun(task)])
                for reference in done:
                    yield running.pop(reference), receive(ray, reference)
        finally:
            for reference in running:
                with suppress(Exception):  # the cluster may be gone
                    ray.cancel(reference, force=True)


def call(function: Any, given: Any) -> Any:
    """A task on a node of the cluster."""
    return function(given)


def has_begun(task: Task) -> bool:
    folder = getattr(task.given, "folder", None)
    return folder is None or Path(folder).is_dir()


def receive(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        return Died(f"the worker of this entry ended without a result ({one_line(str(error), 200)})")


def connect(address: str | None) -> Any:
    """Ray, connected: to the cluster at an address, or to one of this machine that only loopback reaches."""
    if find_spec("ray") is None:
        raise WorkersError("--on ray: expected Ray, found none installed; pip install 'recollect[ray]'")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    address = address or os.environ.get("RAY_ADDRESS")
    check_reachable(address)
    if address is None:  # else its services listen on every interface; Ray reads this as it is imported
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    ray: Any = import_module("ray")  # by its name: most installations are without it
    if ray.is_initialized():
        return ray
    passed = {name: value for name, value in os.environ.items() if name.startswith(PASSED) or name == "PYTHONPATH"}
    given: dict[str, Any] = {
        "runtime_env": {"env_vars": passed}, "log_to_driver": False, "logging_level": "ERROR",
    }  # fmt: skip
    if address is None:
        given |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    try:
        ray.init(address=address, **given)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError, OSError, SystemExit) as error:
        raise WorkersError(
            f"--on ray: expected a cluster at {address or 'this machine'}, found none that answers "
            f"({one_line(str(error), 200)}); start it with `ray start --head`, or see its address"
        ) from error
    return ray


def check_reachable(address: str | None) -> None:
    """Refuse an address of a host and port where nobody listens: Ray itself would try for minutes."""
    found = None if address is None else re.fullmatch(r"(?:ray://)?\[?(.+?)\]?:(\d+)", address)
    if found is None:
        return
    try:
        socket.create_connection((found[1], int(found[2])), PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise WorkersError(
            f"--on ray: expected a cluster at {address}, found none that answers ({error}); start it with "
            "`ray start --head`, or see its address"
        ) from error


def workers_of(on: str, *, jobs: int, devices: Sequence[str], on_gpu: bool) -> Workers:
    """The workers that `--on` names: local, ray, or ray=ADDRESS."""
    kind, _, address = on.partition("=")
    if kind == "local" and not address:
        return Local(jobs=jobs, devices=tuple(devices))
    if kind == "ray" and devices:
        raise WorkersError(
            f"--device: expected cuda or cpu with --on ray, which gives GPUs to entries itself, found "
            f"{','.join(devices)}; use --device cuda"
        )
    if kind == "ray":
        return OnRay(address=address or None, gpus=1 / jobs) if on_gpu else OnRay(address=address or None, jobs=jobs)
    raise WorkersError(f"--on: expected local, ray or ray=ADDRESS, found {on!r}")
