"""The command over a real socket: existing clients, slow and broken ones, many at once, its end."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from serve.test_batches import AT_ONCE

TOKEN = "a-token-of-the-tests"
LIMITS = ("head_seconds=2", "body_seconds=2", "stall_seconds=1", "connections=60", "tokens=100000")


class Process:
    """`recollect serve` in a process of its own."""

    def __init__(self, *words, **env):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "recollect", "serve", *words, "--port", "0", "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"RECOLLECT_TOKEN": TOKEN} | env,
        )  # fmt: skip
        lines = []
        while not lines or lines[-1].rstrip() != "}":
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()
            lines.append(line)
        self.about = json.loads("".join(lines))
        self.port = int(self.about["url"].rpartition(":")[2])

    def connect(self):
        made = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        made.settimeout(30)
        return made

    def raw(self, *parts, pause=0.0):
        """Bytes sent as they are, and all that comes back until the server closes."""
        with self.connect() as own:
            for part in parts:
                own.sendall(part)
                time.sleep(pause)
            return read_all(own)

    def head(self, method="GET", path="/health", **headers):
        given = {"Host": f"127.0.0.1:{self.port}", "Authorization": f"Bearer {TOKEN}"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items()), "", ""]
        return "\r\n".join(lines).encode()

    def post(self, path, body, **headers):
        content = json.dumps(body).encode()
        return (
            self.head("POST", path, Content_Type="application/json", Content_Length=len(content), **headers) + content
        )

    def end(self, kind=signal.SIGINT):
        self.process.send_signal(kind)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


def read_all(own):
    found = b""
    while True:
        try:
            part = own.recv(1 << 16)
        except ConnectionResetError:
            return found
        if not part:
            return found
        found += part


def status_of(answer):
    return int(answer.split(b" ", 2)[1])


def completion(**body):
    return {"model": "demo-text", "prompt": "KING:", "max_tokens": 20, "seed": 1} | body


@pytest.fixture(scope="module")
def server():
    found = Process("demo-text", *(word for limit in LIMITS for word in ("--set", limit)))
    yield found
    code, _, err = found.end()
    assert (code, err) == (0, "")


def test_the_openai_client_works(server, alone):
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{server.about['url']}/v1", api_key=TOKEN, max_retries=0) as client:
        assert [model.id for model in client.models.list()] == ["demo-text"]
        asked = {"model": "demo-text", "prompt": "KING:", "max_tokens": 40, "seed": 1}
        whole = client.completions.create(**asked)
        assert whole.choices[0].text == alone("KING:", 40, seed=1)
        assert whole.choices[0].finish_reason == "length"
        assert whole.usage.total_tokens == 45
        assert client.completions.create(**asked, extra_body={"top_k": 1}).choices[0].text == (
            alone("KING:", 40, greedy=True)
        )
        parts = list(client.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
        assert "".join(part.choices[0].text for part in parts if part.choices) == whole.choices[0].text
        assert parts[-1].usage.completion_tokens == 40
        with pytest.raises(openai.NotFoundError, match="expected a model of this server"):
            client.completions.create(model="gpt-4", prompt="a")
        with pytest.raises(openai.BadRequestError, match="logprobs"):
            client.completions.create(**asked, logprobs=3)
        with (
            openai.OpenAI(base_url=f"{server.about['url']}/v1", api_key="wrong", max_retries=0) as other,
            pytest.raises(openai.AuthenticationError),
        ):
            other.models.list()


def test_many_clients_at_once_get_what_they_get_alone(server, alone):
    def ask(number):
        answer = server.raw(
            server.post("/v1/completions", completion(seed=number, temperature=0.5), Connection="close")
        )
        assert status_of(answer) == 200
        return json.loads(answer.partition(b"\r\n\r\n")[2])["choices"][0]["text"]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(ask, range(AT_ONCE)))
    assert found == [alone("KING:", 20, seed=number, temperature=0.5) for number in range(AT_ONCE)]


def test_slow_clients_are_dropped(server):
    """Those that send nothing, half a head, half a body, or a drop now and then."""
    half = server.post("/v1/completions", completion())[:-5]
    with ThreadPoolExecutor(5) as pool:
        jobs = [
            pool.submit(server.raw, b""),
            pool.submit(server.raw, server.head()[:30]),
            pool.submit(server.raw, half),
            pool.submit(server.raw, half, b" "),
            pool.submit(server.raw, server.head()[:-2], b"A: b\r\n"),
        ]
        answers = [job.result() for job in jobs]
    assert [status_of(answer) for answer in answers] == [408] * 5
    assert all(b"nosniff" in answer for answer in answers)


def test_what_is_no_http_is_refused_with_the_same_headers(server):
    for sent in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET /\r\n\r\n",
        b"A" * 200_000,
        server.head(Connection="close", X="a" * 100_000),
        server.head("POST", "/v1/completions", Content_Length="1, 2"),
        server.head("POST", "/v1/completions", Transfer_Encoding="gzip"),
        server.head(Content_Length="3", Transfer_Encoding="chunked") + b"zz\r\n",
    ):  # fmt: skip
        answer = server.raw(sent)
        assert status_of(answer) in (400, 431), sent[:50]
        assert b"nosniff" in answer
        assert b"content-security-policy" in answer
        assert b"uvicorn" not in answer


def test_a_body_that_is_too_large_is_refused_while_it_comes(server):
    part = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    head = server.head("POST", "/v1/completions", Content_Type="application/json", Transfer_Encoding="chunked")
    with server.connect() as own:
        try:
            own.sendall(head)
            for _ in range(40):
                own.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = own.recv(1 << 16)
    assert status_of(answer) == 413


@pytest.mark.skipif(not hasattr(select, "poll"), reason="poll")
def test_a_reader_that_stalls_is_dropped_and_others_are_served(server):
    """One that asks for much and takes nothing: once the ways to it are full, the server waits a second."""
    with socket.socket() as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2_048)
        own.connect(("127.0.0.1", server.port))
        own.setblocking(False)
        asked, dropped = server.head(path="/v1/models") * 1_000, select.poll()
        dropped.register(own, select.POLLHUP | select.POLLERR)
        until = time.monotonic() + 100
        while not dropped.poll(50):
            assert time.monotonic() < until, "it is still there"
            with contextlib.suppress(BlockingIOError, ConnectionError):
                own.send(asked)
    assert status_of(server.raw(server.post("/v1/completions", completion(), Connection="close"))) == 200


def test_more_connections_than_allowed_are_refused(server):
    held = [server.connect() for _ in range(60)]
    try:
        with server.connect() as own:
            answer = read_all(own)
        assert status_of(answer) == 503
    finally:
        for each in held:
            each.close()
    until = time.monotonic() + 60
    while status_of(server.raw(server.head(Connection="close"))) == 503:
        assert time.monotonic() < until, "places that were left are not free"


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_at_once_amid_a_stream(kind):
    own = Process("demo-text", "--set", "tokens=1000000")
    with own.connect() as stream, own.connect() as idle:
        idle.sendall(own.head()[:20])
        stream.sendall(own.post("/v1/completions", completion(max_tokens=900_000, stream=True)))
        assert stream.recv(10)
        code, _, err = own.end(kind)
        assert (code, err) == (0, "")
        rest = read_all(stream)
    assert b"found it ending" in rest[-400:] or not rest.endswith(b"[DONE]\n\n")
