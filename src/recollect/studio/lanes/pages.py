"""Open pages and the tracks of their lanes: limited in number, age and bytes."""

import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import torch

from ...core.errors import RecollectError
from ...core.limits import one_line, write_bytes
from ...core.typed import show
from ...serve.refusals import Refusal
from ..limits import Limits
from ..registry import Registry
from .lane import Edit, Lane
from .track import Track


@dataclass(eq=False)
class Page:
    """One open page: its lanes, and for each of them a track of each line of text."""

    id: str
    lanes: dict[str, Lane]
    failed: dict[str, str]
    tracks: dict[tuple[str, int], Track] = field(default_factory=dict)
    used: float = field(default_factory=monotonic)
    turn: int = 0  # counts its readings: an older one stops when a newer one has begun

    @property
    def nbytes(self) -> int:
        return sum(track.nbytes for track in self.tracks.values())


class Pages:
    """All open pages. Models are loaded once for all of them."""

    def __init__(self, registry: Registry, limits: Limits) -> None:
        self.registry, self.limits = registry, limits
        self.pages: dict[str, Page] = {}
        self.loaded: dict[str, Lane] = {}
        self.lock = threading.Lock()

    def lane(self, name: str) -> Lane:
        """The lane of a run, loaded if it is not yet."""
        with self.lock:
            if name not in self.loaded:
                self.loaded[name] = Lane(name, self.registry.load(name))
            return self.loaded[name]

    def choose(self, names: Sequence[str]) -> tuple[dict[str, Lane], dict[str, str]]:
        """Lanes by name, in that order, and of those that cannot be loaded why."""
        if len(set(names)) != len(names) or not 0 < len(names) <= self.limits.lanes:
            raise Refusal(400, f"lanes: expected 1 to {self.limits.lanes} different runs, found others", param="lanes")
        found, failed = {}, {}
        for name in names:
            try:
                found[name] = self.lane(name)
            except Refusal:
                raise
            except RecollectError as error:  # of its files: the other lanes can do without it
                failed[name] = one_line(str(error).replace(self.registry.find(name), name))
        if not found:
            raise Refusal(400, "; ".join(failed.values()), param="lanes")
        return found, failed

    def add(self, names: Sequence[str]) -> Page:
        """A new page; where there are too many, the one that was not used for longest goes.

        The thread that reads from now on does so alone: with steps as small as these, threads that wait for each other
        take ten times as long as the work.
        """
        torch.set_num_threads(1)
        self.drop_old()
        page = Page(secrets.token_urlsafe(12), *self.choose(names))
        while len(self.pages) >= self.limits.pages:
            del self.pages[min(self.pages.values(), key=lambda each: each.used).id]
        self.pages[page.id] = page
        return page

    def find(self, id: str) -> Page:
        self.drop_old()
        page = self.pages.get(id)
        if page is None:
            raise Refusal(404, f"page: expected one that is open here, found {show(id)}; it may have become too old")
        page.used = monotonic()
        return page

    def remove(self, id: str) -> None:
        self.pages.pop(id, None)

    def drop_old(self) -> None:
        """Forget what nobody has used for long."""
        oldest = monotonic() - self.limits.age
        for id in [id for id, page in self.pages.items() if page.used < oldest]:
            del self.pages[id]

    def change_lanes(self, page: Page, names: Sequence[str]) -> None:
        """Give a page other lanes; tracks of those that stay are kept."""
        page.lanes, page.failed = self.choose(names)
        page.tracks = {key: track for key, track in page.tracks.items() if key[0] in page.lanes}

    def aim(self, page: Page, name: str, line: int, text: str, edits: Sequence[Edit]) -> tuple[Track, int]:
        """Turn a track of a page to a text: the track, and how many positions of it stay as they were."""
        lane = page.lanes[name]
        for edit in edits:
            lane.check_edit(edit)
        track = page.tracks.get((name, line))
        fresh = track is None
        if track is None:
            first = page.tracks.get((name, 0))
            track = Track(lane, self.limits.marks) if first is None else first.fork()
            page.tracks[name, line] = track
        stays = track.aim(text, edits)
        return track, 0 if fresh else stays

    def keep_lines(self, page: Page, count: int) -> None:
        """Forget the tracks of lines that there are no more."""
        page.tracks = {key: track for key, track in page.tracks.items() if key[1] < count}

    def check_memory(self, page: Page) -> None:
        """Let pages go that were not used for longest while all of them take too much."""
        others = sorted((each for each in self.pages.values() if each is not page), key=lambda each: each.used)
        total = page.nbytes + sum(each.nbytes for each in others)
        while total > self.limits.memory and others:
            gone = others.pop(0)
            total -= gone.nbytes
            self.remove(gone.id)
        if total > self.limits.memory:
            self.remove(page.id)
            limit = write_bytes(self.limits.memory)
            raise Refusal(429, f"page: expected at most {limit} of states, found more; take fewer lanes or less text")

    def describe(self, page: Page) -> dict[str, Any]:
        lanes = [lane.describe() for lane in page.lanes.values()]
        return {"id": page.id, "lanes": lanes, "failed": page.failed}
