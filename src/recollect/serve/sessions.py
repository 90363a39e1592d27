"""Sessions: texts that stay on the server with their states, to be gone on with, forked, rewound, kept and resumed.

States stand in memory alone, at the end of a text and every `SPACING` tokens of it; a text is rewound to the nearest
one before and read on from there. Snapshots are never altered, so that forks and kept states share them.
"""

import secrets
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import monotonic, time
from typing import Any, NamedTuple

from ..core.limits import write_bytes
from ..core.typed import show
from .batches import Finished, Job, Snapshot
from .limits import Limits
from .models import Models, Served
from .refusals import Refusal

SPACING = 256  # tokens between two states of a text
MARKS = 16  # states of a text at most


class Part(NamedTuple):
    """A part of a text that was read, or written with numbers of a seed."""

    start: int
    drawn: int  # numbers before it
    draws: bool  # whether each of its tokens used one up


@dataclass
class Text:
    """A text so far, with the states that were kept of it."""

    tokens: list[int] = field(default_factory=list)
    marks: dict[int, Snapshot] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)

    @property
    def position(self) -> int:
        return len(self.tokens)

    @property
    def end(self) -> Snapshot | None:
        """The state after all of it; None before the first token."""
        return self.marks.get(self.position)

    def drawn(self, position: int) -> int:
        """How many numbers the text up to a position has used up."""
        at = bisect_right([part.start for part in self.parts], position) - 1
        if at < 0:
            return 0
        part = self.parts[at]
        return part.drawn + (position - part.start if part.draws else 0)

    def extended(self, done: Finished, *, draws: bool) -> "Text":
        """The text with what a job has read and written."""
        here = self.position
        own = [Part(here, self.drawn(here), False)] if done.read else []
        if done.written:
            own.append(Part(here + len(done.read), self.drawn(here), draws))
        tokens = [*self.tokens, *done.read, *done.written]
        marks = self.marks | done.marks | ({} if done.end is None else {len(tokens): done.end})
        return Text(tokens, thin(marks, MARKS), [*self.parts, *own])

    def cut(self, position: int, read: Finished | None = None) -> "Text":
        """The text up to a position, whose state a job may have made anew."""
        marks = {at: mark for at, mark in self.marks.items() if at <= position}
        if read is not None and read.end is not None:
            marks[position] = read.end
        return Text(self.tokens[:position], marks, [part for part in self.parts if part.start < position])

    def nearest(self, position: int) -> int:
        """The last position up to there whose state was kept; 0 is the beginning."""
        return max((at for at in self.marks if at <= position), default=0)


def thin(marks: dict[int, Snapshot], most: int) -> dict[int, Snapshot]:
    """At most so many of the states, spread over the text; the last one stays."""
    places = sorted(marks)
    while len(places) > most:
        gaps = [after - before for before, after in zip([0, *places], places[1:], strict=False)]
        del places[gaps.index(min(gaps))]
    return {at: marks[at] for at in places}


@dataclass(eq=False)
class Kept:
    """A text that is kept under an id: a session, or a state of one."""

    id: str
    served: Served
    text: Text
    created: float = field(default_factory=time)
    used: float = field(default_factory=monotonic)
    busy: bool = False

    def describe(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "model": self.served.name,
            "position": self.text.position,
            "bytes": count_bytes([self.text]),
            "created": int(self.created),
        }

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One request at a time."""
        if self.busy:
            raise Refusal(409, "session: expected one request at a time, found another one under way")
        self.busy = True
        try:
            yield
        finally:
            self.busy, self.used = False, monotonic()


class Store:
    """The sessions and the kept states of a server, limited in number, age and bytes."""

    def __init__(self, models: Models, limits: Limits) -> None:
        self.models, self.limits = models, limits
        self.sessions: dict[str, Kept] = {}
        self.states: dict[str, Kept] = {}

    def find(self, kind: str, id: str) -> Kept:
        self.drop_old()
        found = getattr(self, kind).get(id)
        if found is None:
            one = kind[:-1]
            raise Refusal(404, f"{one}: expected one that is here, found {show(id)}; it may have become too old")
        found.used = monotonic()
        return found

    def add(self, kind: str, served: Served, text: Text) -> Kept:
        """A new session or state."""
        self.drop_old()
        place: dict[str, Kept] = getattr(self, kind)
        most = getattr(self.limits, kind)
        if len(place) >= most:
            raise Refusal(429, f"{kind}: expected at most {most:,}, found as many; delete one that is not needed")
        made = Kept(secrets.token_urlsafe(12), served, text)
        place[made.id] = made
        return made

    def remove(self, kind: str, id: str) -> None:
        del getattr(self, kind)[self.find(kind, id).id]

    def drop_old(self) -> None:
        """Forget what nobody has used for long."""
        oldest = monotonic() - self.limits.age
        for place in (self.sessions, self.states):
            for id in [id for id, kept in place.items() if kept.used < oldest and not kept.busy]:
                del place[id]

    def put(self, session: Kept, text: Text) -> None:
        """Give a session its new text. Where memory is short, states on the way are let go, and made again if asked."""
        others = [kept.text for kept in (*self.sessions.values(), *self.states.values()) if kept is not session]
        for fitting in (text, replace(text, marks=thin(text.marks, 1))):
            if count_bytes([*others, fitting]) <= self.limits.memory:
                session.text = fitting
                return
        limit = write_bytes(self.limits.memory)
        raise Refusal(429, f"sessions: expected at most {limit} of states, found more; delete one that is not needed")

    # What sessions do. A request that is not finished leaves its session as it was.

    def job(self, session: Kept, *, read: Sequence[int] = (), **options: Any) -> Job:
        """A job that goes on with a session's text."""
        text = session.text
        deadline = monotonic() + self.limits.seconds
        return Job(read=list(read), start=text.end, keep=True, spacing=SPACING, deadline=deadline, **options)

    def submit(self, session: Kept, job: Job) -> Job:
        assert session.served.batcher is not None
        session.served.batcher.submit(job)
        return job

    async def feed(self, session: Kept, tokens: Sequence[int]) -> None:
        """Read more of a text."""
        if tokens:
            session.served.check_length(session.text.position + len(tokens), "text")
            done = await self.submit(session, self.job(session, read=tokens)).wait()
            self.put(session, session.text.extended(done, draws=False))

    async def rewind(self, session: Kept, position: int) -> None:
        """Go back to a position, from the nearest state that was kept before it."""
        text = session.text
        if not 0 <= position <= text.position:
            raise Refusal(400, f"position: expected one from 0 to {text.position:,}, found {show(position)}")
        near = text.nearest(position)
        read = None
        if near < position:
            job = Job(
                read=text.tokens[near:position], start=text.marks.get(near), keep=True,
                deadline=monotonic() + self.limits.seconds,
            )  # fmt: skip
            read = await self.submit(session, job).wait()
        self.put(session, text.cut(position, read))


def count_bytes(texts: Sequence[Text]) -> int:
    """Bytes of texts and of their states, those that several share once."""
    found = {id(mark): mark.nbytes for text in texts for mark in text.marks.values()}
    return sum(found.values()) + sum(8 * len(text.tokens) for text in texts)
