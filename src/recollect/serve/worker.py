"""Calls of models that are not written token by token: one after the other in a thread of their own."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

from .limits import Limits
from .refusals import Refusal

PATIENCE = 0.5  # seconds that the end waits for a call


class Call:
    """A call that is waited for: `make` gives its results one by one, and it can be left between two of them."""

    def __init__(self, make: Callable[[], Iterable[Any]], deadline: float) -> None:
        self.make, self.deadline = make, deadline
        self.cancelled = False
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[list[Any]] = self.loop.create_future()

    def run(self, late: Refusal) -> None:
        """The results, or what went wrong, for whoever waits."""
        found: list[Any] = []
        error: Exception | None = None
        try:
            if monotonic() > self.deadline:
                raise late
            for each in self.make():
                found.append(each)
                if self.cancelled:
                    return
                if monotonic() > self.deadline:
                    raise late
        except Exception as problem:
            error = problem
        with contextlib.suppress(RuntimeError):  # a loop that has ended
            self.loop.call_soon_threadsafe(self._deliver, found, error)

    def _deliver(self, found: list[Any], error: Exception | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(found)
        else:
            self.future.set_exception(error)


class Worker:
    """The thread. One call runs at a time: each of them uses the cores that there are."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.waiting: deque[Call] = deque()
        self.changed = threading.Condition()
        self.thread: threading.Thread | None = None
        self.closed = False

    async def collect(self, make: Callable[[], Iterable[Any]]) -> list[Any]:
        """All results of a call; it is left when nobody waits any more, or when a request has taken too long."""
        call = Call(make, monotonic() + self.limits.seconds)
        with self.changed:
            if self.closed:
                raise Refusal(503, "server: expected it to run, found it ending")
            if len(self.waiting) >= self.limits.waiting:
                raise Refusal(503, f"server: expected at most {self.limits.waiting:,} calls in wait, found more")
            self.waiting.append(call)
            if self.thread is None:
                self.thread = threading.Thread(target=self._run, name="recollect-worker", daemon=True)
                self.thread.start()
            self.changed.notify()
        try:
            return await call.future
        finally:
            call.cancelled = True

    async def call(self, function: Callable[[], Any]) -> Any:
        """The result of one call."""
        (found,) = await self.collect(lambda: [function()])
        return found

    def _run(self) -> None:
        late = Refusal(503, f"request: expected it done within {self.limits.seconds:g} seconds, found it going on")
        while True:
            with self.changed:
                while not (self.waiting or self.closed):
                    self.changed.wait()
                if self.closed:
                    break
                call = self.waiting.popleft()
            if not call.cancelled:
                call.run(late)
        ending = Refusal(503, "server: expected it to run, found it ending")
        for call in self.waiting:
            with contextlib.suppress(RuntimeError):
                call.loop.call_soon_threadsafe(call._deliver, [], ending)

    def close(self) -> bool:
        """End; whether the thread has ended. A call that runs cannot be ended from outside."""
        with self.changed:
            self.closed = True
            self.changed.notify()
        if self.thread is not None:
            self.thread.join(PATIENCE)
        return self.thread is None or not self.thread.is_alive()
