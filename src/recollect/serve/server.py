"""The server as a process: a socket bound before anything is loaded, signals, an end that waits for nobody."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn

from ..core.errors import RecollectError
from .connection import Connection
from .guard import HEAD
from .limits import Limits

GRACE = 1  # seconds for answers that are being sent when the server ends


class Server(uvicorn.Server):
    """Uvicorn, which ends at the first signal: what is being written is ended first, then every connection."""

    on_end: Callable[[], Any] = staticmethod(lambda: None)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal: the first one ends, the second one at once. It is not raised again: this is how a server ends."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: Any = None) -> None:
        await asyncio.to_thread(self.on_end)
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            with contextlib.suppress(Exception):
                connection.transport.abort()


def bind(host: str, port: int) -> socket.socket:
    """A listening address; port 0 is any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except (OSError, OverflowError, TypeError, ValueError) as error:
        made.close()
        found = f"{host:.100} port {port} ({getattr(error, 'strerror', None) or error})"
        raise RecollectError(f"--host and --port: expected an address to listen on, found {found}") from None
    return made


def make_server(app: Any, limits: Limits, on_end: Callable[[], Any]) -> Server:
    """The server of an application."""
    protocol = type("Connection", (Connection,), {"limits": limits})
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # its words on each odd request, to a terminal
    config = uvicorn.Config(
        app, http=protocol, ws="none", lifespan="off", log_config=None, access_log=False, server_header=False,
        proxy_headers=False, timeout_keep_alive=30, timeout_graceful_shutdown=GRACE, loop="asyncio",
        backlog=limits.connections, h11_max_incomplete_event_size=HEAD,
    )  # fmt: skip
    server = Server(config)
    server.on_end = on_end
    return server


def run(server: Server, sock: socket.socket) -> None:
    """Answer until a signal comes."""
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        server.run(sockets=[sock])
