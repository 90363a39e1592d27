"""A client of an ASGI application in this process: every byte of a request is the test's own."""

import asyncio
import json
from typing import Any, NamedTuple

HOST = "127.0.0.1:8017"
TOKEN = "a-token-of-the-tests"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes
    times: int = 0  # that a part of the body was sent

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return self.json()["error"]["message"]

    def events(self) -> list[Any]:
        """The events of a stream but for the last, which ends it."""
        *found, last = self.body.decode().removesuffix("\n\n").split("\n\n")
        assert last == "data: [DONE]"
        return [json.loads(each.removeprefix("data: ")) for each in found]


class Client:
    """Requests one by one; `leave_after` parts of an answer the client is gone."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        chunks: list[bytes] | None = None,
        silent: bool = False,  # after the chunks: neither more of them nor an end
        leave_after: int | None = None,
    ) -> Answer:
        given = {"host": HOST, "authorization": f"Bearer {TOKEN}"}
        if body is not None and not isinstance(body, bytes):
            body, given = json.dumps(body).encode(), given | {"content-type": "application/json"}
        given |= headers or {}
        if chunks is None:
            chunks = [body or b""]
        place, _, query = path.partition("?")
        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": method,
            "scheme": "http", "path": place, "raw_path": place.encode(), "query_string": query.encode(),
            "root_path": "",
            "headers": [(n.lower().encode(), v.encode("latin-1")) for n, v in given.items() if v is not None],
            "client": ("127.0.0.1", 5), "server": ("127.0.0.1", 8017), "state": {},
        }  # fmt: skip
        waiting, gone, sent = list(chunks), asyncio.Event(), []

        async def receive() -> dict[str, Any]:
            if waiting:
                return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting) or silent}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)
            if leave_after is not None and len(sent) > leave_after:
                gone.set()

        if leave_after == 0:
            asyncio.get_running_loop().call_later(0.05, gone.set)
        await self.app(scope, receive, send)
        start, *parts = sent
        assert start["type"] == "http.response.start"
        own = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        return Answer(start["status"], own, b"".join(part.get("body", b"") for part in parts), len(parts))

    def __call__(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        """A request alone."""
        return asyncio.run(self.request(method, path, body, **options))

    def post(self, path: str, body: Any = None, **options: Any) -> Answer:
        return self("POST", path, {} if body is None else body, **options)

    def get(self, path: str, **options: Any) -> Answer:
        return self("GET", path, **options)
