"""Waiting for work while a client waits for it: whoever leaves ends it."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from starlette.requests import Request

from .guard import explain
from .refusals import ClientGone, to_json

T = TypeVar("T")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when the client leaves. The body was read before."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGone
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class EventStream:
    """An answer as server-sent events, each a JSON value; the last is [DONE]. An error on the way is an event too."""

    def __init__(self, request: Request, events: AsyncIterator[Any]) -> None:
        self.request, self.events = request, events

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await while_connected(self.request, self._write(send))

    async def _write(self, send: Any) -> None:
        try:
            async for event in self.events:
                await self._send(send, to_json(event))
        except Exception as error:
            await self._send(send, to_json(explain(error).to_dict()))
        finally:
            await self.events.aclose()  # type: ignore[attr-defined]
        await self._send(send, "[DONE]", more=False)

    async def _send(self, send: Any, data: str, *, more: bool = True) -> None:
        await send({"type": "http.response.body", "body": f"data: {data}\n\n".encode(), "more_body": more})
