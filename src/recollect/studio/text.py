"""One text, read by every memory: the routes of its lanes.

    POST /studio/text/pages               {"lanes": [run, …]} → the page's id and what can be seen of each lane
    POST /studio/text/pages/ID/lanes      other lanes
    POST /studio/text/pages/ID/read       {"lines": [{"text", "edits"}], "show", "have"} → frames
    POST /studio/text/pages/ID/look       {"at", "line", "show"} → arrays of pictures at one position
    POST /studio/text/pages/ID/write      {"length", "temperature", "seed", …} → events, texts that all lanes write
    DELETE /studio/text/pages/ID

Models run in one thread, a few positions at a time, so that several pages take turns.
"""

import struct
from bisect import bisect_left
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .. import tasks
from ..core.errors import RecollectError
from ..core.settings import at_least
from ..runtime.sampling import Config
from ..serve.bodies import check_count, read_request
from ..serve.refusals import ClientGone, Json, Refusal
from ..serve.waiting import EventStream, while_connected
from ..serve.worker import Worker
from ..training.folder import RunFolder
from .arrays import Arrays, pack
from .lanes.lane import Edit
from .lanes.pages import Page, Pages
from .lanes.track import Track
from .lanes.writer import Writer

SLICE = 12  # positions of a lane that are read before others have their turn
ROUND = 2  # tokens that all lanes write before what they wrote is sent
LINES = 2  # a text and a branch of it
MOST_EDITS = 64
MESSAGES: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The lanes of a page."""

    lanes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Change:
    """A number of a lane's state that is set after a character."""

    lane: str
    at: int = at_least(0, default=0)
    key: str = ""
    unit: int = at_least(0, default=0)
    value: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Line:
    """A text, and what is changed in states while it is read."""

    text: str
    edits: tuple[Change, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Reading:
    """`show` has the picture of each lane; `have` how many of its columns of each line the page has."""

    lines: tuple[Line, ...]
    show: dict[str, str]
    have: dict[str, tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class Look:
    """A position, by the characters before its end, and the pictures of it."""

    at: int = at_least(1, default=1)
    line: int = at_least(0, default=0)
    show: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Writing:
    """How all lanes write on."""

    length: int = at_least(1, default=80)
    temperature: float = 0.8
    top_k: int | None = at_least(1, default=None)
    seed: int = at_least(0, default=0, most=2**31)


def routes(studio: Any) -> list[Route]:
    """Routes under /studio/text."""
    return TextRoutes(studio).routes()


class TextRoutes:
    """The routes over the open pages of one studio."""

    def __init__(self, studio: Any) -> None:
        self.registry, self.limits = studio.registry, studio.limits
        self.pages = Pages(studio.registry, studio.limits)
        self.worker = Worker(studio.limits)
        studio.text_pages = self.pages
        studio.on_close(self.worker.close)

    def routes(self) -> list[Route]:
        page = "/studio/text/pages/{id}"
        return [
            Route("/studio/text/runs", self.list_runs, methods=["GET"]),
            Route("/studio/text/pages", self.create, methods=["POST"]),
            Route(page, self.remove, methods=["DELETE"]),
            Route(f"{page}/lanes", self.change_lanes, methods=["POST"]),
            Route(f"{page}/read", self.read, methods=["POST"]),
            Route(f"{page}/look", self.look, methods=["POST"]),
            Route(f"{page}/write", self.write, methods=["POST"]),
        ]

    def page(self, request: Request) -> Page:
        return self.pages.find(request.path_params["id"])

    async def list_runs(self, request: Request) -> Response:
        """Runs that can be lanes."""
        found = []
        for name, place in self.registry.list_runs().items():
            try:
                folder = RunFolder.open(place)
                config = folder.config()
                writes = "generate" in tasks.find_use(str(config.get("task"))).methods
            except (RecollectError, OSError):
                continue
            if writes and folder.model_path.exists():
                found.append({"name": name, "model": dict(config.get("model") or {}).get("name", "")})
        return Json({"runs": found, "most": self.limits.lanes, "longest": self.limits.text})

    async def create(self, request: Request) -> Response:
        asked = await read_request(request, Chosen, self.limits)
        page = await while_connected(request, self.worker.call(lambda: self.pages.add(asked.lanes)))
        return Json(self.pages.describe(page), 201)

    async def change_lanes(self, request: Request) -> Response:
        page = self.page(request)
        asked = await read_request(request, Chosen, self.limits)
        page.turn += 1
        await while_connected(request, self.worker.call(lambda: self.pages.change_lanes(page, asked.lanes)))
        return Json(self.pages.describe(page))

    async def remove(self, request: Request) -> Response:
        self.pages.remove(request.path_params["id"])
        return Response(status_code=204)

    async def read(self, request: Request) -> Any:
        page = self.page(request)
        asked = await read_request(request, Reading, self.limits)
        check_count(len(asked.lines), LINES, "lines", "lines")
        if not asked.lines:
            raise Refusal(400, "lines: expected at least one, found none", param="lines")
        for line in asked.lines:
            check_count(len(line.text), self.limits.text, "characters", "text")
            check_count(len(line.edits), MOST_EDITS, "edits", "edits")
        check_shown(page, asked.show)
        page.turn += 1
        return Frames(request, self.read_lines(page, asked, page.turn))

    async def read_lines(self, page: Page, asked: Reading, turn: int) -> AsyncIterator[bytes]:
        """What each lane sees of each line, once it has read it."""
        self.pages.keep_lines(page, len(asked.lines))
        for line, given in enumerate(asked.lines):
            for name in list(page.lanes):
                edits = [Edit(e.at, e.key, e.unit, e.value) for e in given.edits if e.lane == name]
                have = asked.have.get(name, ())
                task = Task(self.pages, page, name, line, given.text, edits, have[line] if line < len(have) else 0)
                found = await self.worker.call(lambda task=task: task.go_on(asked.show))
                while found is None and page.turn == turn:
                    found = await self.worker.call(lambda task=task: task.go_on(asked.show))
                if page.turn != turn:
                    return
                assert found is not None
                yield found
        self.pages.check_memory(page)

    async def look(self, request: Request) -> Response:
        page = self.page(request)
        asked = await read_request(request, Look, self.limits)
        check_shown(page, asked.show)

        def find() -> Response:
            about, arrays = [], {}
            for name, key in asked.show.items():
                track = page.tracks.get((name, asked.line))
                position = 0 if track is None else position_at(track, asked.at)
                if track is None or not position:
                    continue
                cost = {"bytes": track.state_bytes(position), "flops": track.lane.cost(position)}
                about.append({"lane": name, "key": key, "at": position, **cost})
                if track.lane.by_key[key].at_once:
                    arrays[name] = view(track, position, key)
            return Arrays({"looks": about}, arrays)

        return await while_connected(request, self.worker.call(find))

    async def write(self, request: Request) -> Any:
        page = self.page(request)
        asked = await read_request(request, Writing, self.limits)
        check_count(asked.length, self.limits.tokens, "tokens", "length")
        given: dict[str, Any] = {"temperature": asked.temperature} if asked.temperature else {"greedy": True}
        config = Config(length=asked.length, top_k=asked.top_k, seed=asked.seed, **given)

        def begin() -> list[tuple[str, int, Writer]]:
            found = sorted(page.tracks.items(), key=lambda item: item[0][1])
            return [(name, line, Writer(track, config)) for (name, line), track in found]

        writers = await while_connected(request, self.worker.call(begin))
        return EventStream(request, self.write_rounds(writers))

    async def write_rounds(self, writers: list[tuple[str, int, Writer]]) -> AsyncIterator[Any]:
        def next_round() -> list[Any]:
            parts = []
            for name, line, writer in writers:
                for _ in range(min(ROUND, writer.left)):
                    text, share = writer.next()
                    parts.append([name, line, text, round(share, 4)])
            return parts

        while any(writer.left > 0 for _, _, writer in writers):
            yield {"parts": await self.worker.call(next_round)}


class Task:
    """One lane that reads one line, a few positions at a time."""

    def __init__(self, pages: Pages, page: Page, name: str, line: int, text: str, edits: list[Edit], have: int) -> None:
        self.aim = lambda: pages.aim(page, name, line, text, edits)
        self.name, self.line, self.have = name, line, have
        self.track: Track | None = None

    def go_on(self, show: Mapping[str, str]) -> bytes | None:
        """Read on; once all is read, the frame of what the page lacks."""
        if self.track is None:
            self.track, stays = self.aim()
            self.start = min(stays, self.have)
        self.track.advance(SLICE)
        return None if self.track.left else frame(self.track, self.line, self.start, show.get(self.name))


def check_shown(page: Page, show: Mapping[str, str]) -> None:
    """Refuse pictures that the lanes of a page do not have."""
    for name, key in show.items():
        if name not in page.lanes:
            raise Refusal(400, "show: expected lanes of this page, found another", param="show")
        if key not in page.lanes[name].by_key:
            raise Refusal(400, f"show: expected a picture of {name}, found another", param="show")


def position_at(track: Track, characters: int) -> int:
    """How many tokens cover so many characters."""
    return min(bisect_left(track.ends, characters) + 1, track.position)


def view(track: Track, position: int, key: str) -> np.ndarray:
    """A picture of one position: from what was seen, or for a matrix from the state."""
    column = track.columns[position - 1]
    return column.values[key] if key in column.values else track.lane.view(track.state_at(position), key)


def frame(track: Track, line: int, start: int, key: str | None) -> bytes:
    """What a lane has seen from a position on: its length, then arrays as `arrays.pack` writes them."""
    columns, position = track.columns[start:], track.position
    bits = [column.surprise for column in track.columns if column.surprise == column.surprise]
    about: dict[str, Any] = {
        "lane": track.lane.name, "line": line, "start": start, "position": position, "key": key,
        "bytes": track.state_bytes(position), "flops": track.lane.cost(position),
        "bits": sum(bits) / len(bits) if bits else None, "kept": len(track.marks),
        "names": track_names(track, columns),
    }  # fmt: skip
    arrays: dict[str, np.ndarray] = {
        "ends": np.array(track.ends[start:], np.int32),
        "surprise": np.array([column.surprise for column in columns], np.float32),
        "entropy": np.array([column.entropy for column in columns], np.float32),
        "likeliest": np.array([column.likeliest for column in columns], np.int32),
        "shares": np.array([column.shares for column in columns], np.float32),
    }
    if key is not None and position:
        picture = track.lane.by_key[key]
        if picture.at_once:
            arrays["now"] = view(track, position, key)
        else:
            arrays["values"] = np.array([column.values[key] for column in columns], np.float16)
    packed = pack(about, arrays)
    return struct.pack("<I", len(packed)) + packed


def track_names(track: Track, columns: Any) -> dict[str, str]:
    """The names of the tokens that are likely somewhere."""
    ids = {int(each) for column in columns for each in column.likeliest}
    return {str(id): track.lane.tokenizer.token(id) for id in sorted(ids)}


class Frames:
    """An answer in binary frames, sent as they are made. An error on the way is a frame too, with an `error`."""

    def __init__(self, request: Request, frames: AsyncIterator[bytes]) -> None:
        self.request, self.frames = request, frames

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"application/octet-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await while_connected(self.request, self._write(send))

    async def _write(self, send: Any) -> None:
        from ..serve.guard import explain

        try:
            async for each in self.frames:
                await send({"type": "http.response.body", "body": each, "more_body": True})
        except ClientGone:
            raise
        except Exception as error:
            packed = pack(explain(error).to_dict(), {})
            body = struct.pack("<I", len(packed)) + packed
            await send({"type": "http.response.body", "body": body, "more_body": True})
        finally:
            await self.frames.aclose()  # type: ignore[attr-defined]
        await send({"type": "http.response.body", "body": b"", "more_body": False})
