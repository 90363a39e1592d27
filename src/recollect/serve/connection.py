"""One connection: uvicorn's protocol with a deadline wherever the client owes bytes or does not take them.

Uvicorn waits for the head of a request, for its body and for a reader without end; each connection that stalls would
hold memory and a place for good.
"""

from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from .guard import HEADERS
from .limits import Limits
from .refusals import Refusal, to_json

LINGER = 1.0  # seconds between an end and the close
PHRASES = {400: "Bad Request", 408: "Request Timeout", 503: "Service Unavailable"}


class Connection(H11Protocol):
    """HTTP/1.1 with deadlines; `limits` is set by a subclass for each server."""

    limits: Limits = Limits()
    owed = ""  # what the client has begun to send
    waiting: Any = None  # the timer of what it owes
    stalled: Any = None  # the timer of what it does not take
    ending: Any = None  # the timer of the end, once that was decided

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # told whenever bytes wait for the client
        if len(self.connections) > self.limits.connections:
            self.end(Refusal(503, "server: expected fewer connections at once, found too many; try again later"))
        else:
            self.expect("head")

    def data_received(self, data: bytes) -> None:
        if self.ending is not None or self.transport.is_closing():
            return  # what still comes is let go
        if self.conn.their_state is h11.IDLE and not self.owed:
            self.expect("head")
        super().data_received(data)
        if self.conn.their_state is h11.SEND_BODY:
            self.expect("body")
        elif self.conn.their_state is not h11.IDLE:
            self.expect("")

    def expect(self, owed: str) -> None:
        """Begin to wait for the head or the body of a request, or for nothing."""
        if owed == self.owed:
            return
        self.owed = owed
        if self.waiting is not None:
            self.waiting.cancel()
        seconds = self.limits.head_seconds if owed == "head" else self.limits.body_seconds
        self.waiting = self.loop.call_later(seconds, self.drop_slow, owed, seconds) if owed else None

    def drop_slow(self, owed: str, seconds: float) -> None:
        """The client did not send in time what it had begun."""
        self.end(Refusal(408, f"request: expected its {owed} within {seconds:g} seconds, found a part of it"))

    def end(self, refusal: Refusal) -> None:
        """Answer as far as nothing was answered yet, and close.

        What the client is still sending is read for a moment: a socket that is closed over unread bytes takes back what
        it has answered.
        """
        if self.ending is not None or self.transport.is_closing():
            return
        self.expect("")
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if cycle.response_started:
                self.transport.abort()
                return
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.write(raw_answer(refusal))
        self.transport.write_eof()
        self.transport.resume_reading()
        self.ending = self.loop.call_later(LINGER, self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP."""
        self.end(Refusal(400, "request: expected HTTP/1.1 with a head of at most 65,536 bytes, found something else"))

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.stalled is None:
            self.stalled = self.loop.call_later(self.limits.stall_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_stalled()

    def _cancel_stalled(self) -> None:
        if self.stalled is not None:
            self.stalled.cancel()
            self.stalled = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.expect("")
        self._cancel_stalled()
        if self.ending is not None:
            self.ending.cancel()
        super().connection_lost(exc)


def raw_answer(refusal: Refusal) -> bytes:
    """A refusal as the bytes of a whole answer, for what never became a request."""
    body = to_json(refusal.to_dict()).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"} | HEADERS
    lines = [f"HTTP/1.1 {refusal.status} {PHRASES[refusal.status]}", *(f"{name}: {v}" for name, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body
