"""Texts that are written at the same time share one batch: rows of different requests, each at a position of its own.

    batcher = Batcher(model, limits)
    job = Job(read=[3, 1, 4], writing=Writing(...))
    batcher.submit(job)
    async for piece in job.pieces(): ...

A step takes one token of every row, of the text that is still read or the one just written. Rows join and leave between
two steps: a state is selected and joined by the contract, so a text is what it would be alone but for rounding.
"""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from ..core.limits import write_bytes
from .limits import Limits
from .refusals import Refusal
from .writing import Writing, choose

FLUSH = 0.02  # seconds for which pieces of a text may be gathered before a client gets them
PATIENCE = 1.0  # seconds that the end waits for a step


class Snapshot(NamedTuple):
    """Where a text stands. It can be gone on from any number of times."""

    state: Any  # of one row, which no step has taken over
    logits: Any  # V, of the next token
    steps: int
    nbytes: int

    @classmethod
    def take(cls, state: Any, row: int, logits: Any, steps: int) -> "Snapshot":
        own, scores = state.select([row]), logits[row].copy()
        return cls(own, scores, steps, own.nbytes + scores.nbytes)


@dataclass
class Finished:
    """What became of a job."""

    read: list[int]
    written: list[int]
    text: str
    reason: str  # of the end: "stop" or "length"
    end: Snapshot | None
    marks: dict[int, Snapshot]


@dataclass(eq=False, kw_only=True)
class Job:
    """A text to go on with: tokens to read from `start` on (None: from nothing), then, where asked, tokens to write.

    `keep` asks for the snapshot at the end, and one every `spacing` tokens on the way. A job that is not done at
    `deadline` is refused; one that nobody waits for any more is dropped.
    """

    read: Sequence[int]
    start: Snapshot | None = None
    writing: Writing | None = None
    keep: bool = False
    spacing: int = 0
    deadline: float
    marks: dict[int, Snapshot] = field(default_factory=dict)
    finished: Finished | None = None
    ended: bool = False  # done, refused, or nobody waits for it any more
    at: int = 0  # tokens of `read` that were taken
    next: int = 0  # the token of the next step
    steps: int = 0
    gathered: str = ""  # text that was not delivered yet

    def __post_init__(self) -> None:
        self.steps = 0 if self.start is None else self.start.steps
        self.loop = asyncio.get_running_loop()
        self.events: asyncio.Queue[str | Finished | Exception] = asyncio.Queue()

    @property
    def longest(self) -> int:
        """Steps at the end."""
        return self.steps + len(self.read) - self.at + (0 if self.writing is None else self.writing.left)

    async def pieces(self) -> AsyncIterator[str]:
        """The text as it is written; then `finished` is there. Whoever stops waiting cancels the job."""
        try:
            while True:
                event = await self.events.get()
                if isinstance(event, Exception):
                    raise event
                if isinstance(event, Finished):
                    self.finished = event
                    return
                yield event
        finally:
            self.ended = True

    async def wait(self) -> Finished:
        async for _ in self.pieces():
            pass
        assert self.finished is not None
        return self.finished


class Batcher:
    """The batch of one model, in a thread of its own that runs while there is something to do."""

    def __init__(self, model: Any, limits: Limits) -> None:
        self.model, self.limits = model, limits
        self.waiting: deque[Job] = deque()
        self.changed = threading.Condition()
        self.thread: threading.Thread | None = None
        self.closed = False
        self.rows: list[Job] = []
        self.state: Any = None
        self.outbox: dict[Job, list[Finished | Exception]] = {}
        self.flushed = 0.0
        self.steps = self.tokens = 0  # so far, of the batch and of its rows
        first, second = (self._measure(count) for count in (1, 2))
        self.slot_bytes, self.row_bytes = max(0, second - first), first

    def _measure(self, count: int) -> int:
        """Bytes of state of a row after so many steps."""
        state = self.model.initial_state(1)
        for _ in range(count):
            _, state = self.model.step([0], state)
        return state.select([0]).nbytes

    # For the event loop

    def submit(self, job: Job) -> None:
        """Put a job before the batch; one that there is no room for is refused."""
        needed = self.row_bytes + self.slot_bytes * job.longest
        if needed > self.limits.memory:
            raise Refusal(400, f"text: expected one that takes at most {write_bytes(self.limits.memory)}, found more")
        with self.changed:
            if self.closed:
                raise Refusal(503, "server: expected it to run, found it ending")
            if len(self.waiting) >= self.limits.waiting:
                raise Refusal(503, f"server: expected at most {self.limits.waiting:,} texts in wait, found more")
            self.waiting.append(job)
            if self.thread is None:
                self.thread = threading.Thread(target=self._run, name="recollect-batch", daemon=True)
                self.thread.start()
            self.changed.notify()

    def close(self) -> bool:
        """End all jobs; whether the thread has ended."""
        with self.changed:
            self.closed = True
            self.changed.notify()
        if self.thread is not None:
            self.thread.join(PATIENCE)
        return self.thread is None or not self.thread.is_alive()

    # In the thread

    def _run(self) -> None:
        while not self.closed:
            try:
                self._admit()
                if self.rows and not self.closed:
                    self._step()
            except Exception as error:  # whatever it is, those who wait get to know it
                self._fail(self.rows, error)
                self.rows, self.state = [], None
            self._flush()
        ending = Refusal(503, "server: expected it to run, found it ending")
        self._fail([*self.rows, *self.waiting], ending)
        self._flush()

    def _admit(self) -> None:
        """Let rows leave and join; wait where there are none."""
        now = monotonic()
        late = [job for job in self.rows if not job.ended and job.deadline < now]
        self._fail(late, self._too_late())
        kept = [row for row, job in enumerate(self.rows) if not job.ended]
        if not kept:
            self.rows, self.state = [], None
            self._flush()  # nothing may be held back while it waits
        with self.changed:
            while not (kept or self.waiting or self.closed):
                self.changed.wait()
            joining = self._take([self.rows[row] for row in kept], monotonic())
        if len(kept) < len(self.rows) or joining:
            self._regroup(kept, joining)

    def _take(self, staying: list[Job], now: float) -> list[Job]:
        """The jobs that have waited longest, as many as fit beside the rows that stay."""
        found: list[Job] = []
        while self.waiting and len(staying) + len(found) < self.limits.batch:
            job = self.waiting[0]
            together = [*staying, *found, job]
            slots = max(each.longest for each in together)
            if len(together) > 1 and len(together) * (self.row_bytes + slots * self.slot_bytes) > self.limits.memory:
                break
            self.waiting.popleft()
            if job.deadline < now:
                self._fail([job], self._too_late())
            elif not job.ended:
                found.append(job)
        return found

    def _too_late(self) -> Refusal:
        return Refusal(503, f"request: expected it done within {self.limits.seconds:g} seconds, found it going on")

    def _regroup(self, kept: list[int], joining: list[Job]) -> None:
        """The state of the rows that stay and of those that join, after whom there may be nothing to do."""
        rows, whole = [self.rows[row] for row in kept], len(kept) == len(self.rows)
        self.rows = [*rows, *joining]  # those who get to know it if anything fails here
        parts = [self.state if whole else self.state.select(kept)] if kept else []
        ready = [job for job in joining if self._begin(job)]
        fresh = [job for job in ready if job.start is None]
        going_on = [job for job in ready if job.start is not None]
        if fresh:
            parts.append(self.model.initial_state(len(fresh)))
        parts += [job.start.state for job in going_on if job.start is not None]
        self.rows = [*rows, *fresh, *going_on]
        self.state = self.model.join(parts) if parts else None

    def _begin(self, job: Job) -> bool:
        """Find the first token of a job; False where it is done without a step."""
        if job.at < len(job.read):
            self._read_next(job)
            return True
        assert job.start is not None  # a text without a token cannot be gone on with
        if job.writing is None or not job.writing.left:
            self._finish(job, job.start if job.keep else None)
            return False
        return self._choose([job], job.start.logits[None])[0]

    def _read_next(self, job: Job) -> None:
        job.next = job.read[job.at]
        job.at += 1

    def _step(self) -> None:
        """One token of every row."""
        tokens = np.array([job.next for job in self.rows])
        logits, self.state = self.model.step(tokens, self.state)
        self.steps, self.tokens = self.steps + 1, self.tokens + len(tokens)
        writing = []
        for row, job in enumerate(self.rows):
            job.steps += 1
            if job.spacing and job.steps % job.spacing == 0:
                job.marks[job.steps] = Snapshot.take(self.state, row, logits, job.steps)
            if job.at < len(job.read):
                self._read_next(job)
            elif job.writing is None or job.writing.reason or not job.writing.left:
                end = Snapshot.take(self.state, row, logits, job.steps) if job.keep else None
                self._finish(job, end)
            else:
                writing.append(row)
        if writing:
            whole = len(writing) == len(self.rows)
            self._choose([self.rows[row] for row in writing], logits if whole else logits[writing])

    def _choose(self, jobs: list[Job], logits: Any) -> list[bool]:
        """The next token of each job that writes, from the logits of its row; False for those that are done by it."""
        going = []
        for job, token in zip(jobs, choose([job.writing for job in jobs], logits), strict=True):
            assert job.writing is not None
            if token is None:
                message = "model: expected a score for each token, found some that are no number"
                self._fail([job], Refusal(500, f"{message}; recollect verify tells what is wrong with its weights"))
            else:
                job.next = token
                job.gathered += job.writing.accept(token)
                self.outbox.setdefault(job, [])
                if job.writing.reason and not job.keep:  # the state after the last token is not asked for
                    self._finish(job, None)
            going.append(not job.ended)
        return going

    def _finish(self, job: Job, end: Snapshot | None) -> None:
        written, text, reason = [], "", "length"
        if job.writing is not None:
            job.gathered += job.writing.finish(whole=not job.keep)
            written, text, reason = job.writing.tokens, job.writing.text, job.writing.reason or "length"
        job.ended = True
        self._post(job, Finished(list(job.read), written, text, reason, end, job.marks))

    def _fail(self, jobs: Sequence[Job], error: Exception) -> None:
        for job in jobs:
            if not job.ended:
                job.ended = True
                self._post(job, error)

    def _post(self, job: Job, event: Finished | Exception) -> None:
        self.outbox.setdefault(job, []).append(event)
        self.flushed = 0.0  # at once

    def _flush(self) -> None:
        """Deliver what was written, not more often than anybody reads."""
        now = monotonic()
        if not self.outbox or (now - self.flushed < FLUSH and self.rows):
            return
        self.flushed = now
        by_loop: dict[Any, list[tuple[Job, list[Any]]]] = {}
        for job, events in self.outbox.items():
            pieces = [job.gathered] if job.gathered else []
            job.gathered = ""
            by_loop.setdefault(job.loop, []).append((job, [*pieces, *events]))
        self.outbox = {}
        for loop, found in by_loop.items():
            with contextlib.suppress(RuntimeError):  # a loop that has ended
                loop.call_soon_threadsafe(_deliver, found)


def _deliver(found: list[tuple[Job, list[Any]]]) -> None:
    for job, events in found:
        for event in events:
            job.events.put_nowait(event)
