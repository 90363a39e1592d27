"""Forty hostile requests: each is refused with the right code, and nothing else is harmed."""

import json

import pytest

from recollect.serve.limits import Limits
from serve.conftest import client_of

DEEP = b"[" * 100_000 + b"]" * 100_000
PLACE = "/v1/completions"
JSON = {"content-type": "application/json"}


def completion(text):
    return ("POST", PLACE, text if isinstance(text, bytes) else text.encode(), JSON)


HOSTILE = {  # what it tries → method, path, body, headers, the code that it gets
    "another host": ("GET", "/v1/models", b"", {"host": "rebound.example:8017"}, 403),
    "another host, by a method of its own": ("PURGE", "/v1/models", b"", {"host": "rebound.example:8017"}, 403),
    "an address of the network as host": ("GET", "/v1/models", b"", {"host": "192.168.0.7:8017"}, 403),
    "no host": ("GET", "/v1/models", b"", {"host": None}, 403),
    "a foreign page that posts": ("POST", PLACE, b"{}", JSON | {"origin": "https://evil.example"}, 403),
    "a foreign page that asks beforehand": ("OPTIONS", PLACE, b"", {"origin": "https://evil.example"}, 403),
    "a page in a frame without an origin": ("POST", PLACE, b"{}", JSON | {"origin": "null"}, 403),
    "a page of another port": ("DELETE", "/v1/sessions/x", b"", {"origin": "http://127.0.0.1:3000"}, 403),
    "no token": ("POST", PLACE, b"{}", JSON | {"authorization": None}, 401),
    "the token of another": ("GET", "/v1/sessions", b"", {"authorization": "Bearer " + "a" * 43}, 401),
    "a token of a megabyte": ("GET", "/v1/sessions", b"", {"authorization": "Bearer " + "a" * 2**20}, 431),
    "a form of a foreign page": ("POST", PLACE, b'{"prompt":"a"}', {"content-type": "text/plain"}, 415),
    "a form with fields": ("POST", PLACE, b"prompt=a", {"content-type": "application/x-www-form-urlencoded"}, 415),
    "no type": ("POST", PLACE, b"{}", {}, 415),
    "a way out of the folder": ("GET", "/v1/models/../../../etc/passwd", b"", {}, 404),
    "a way out, decoded": ("GET", "/v1/models/..\\..\\etc\\passwd", b"", {}, 404),
    "a file by its path": ("GET", "//etc/passwd", b"", {}, 404),
    "a file of a run": ("GET", "/v1/models/demo-text/model.safetensors", b"", {}, 404),
    "a null byte": ("GET", "/v1/models/demo-text\0.json", b"", {}, 404),
    "a run that is not served": ("GET", "/v1/models/demo-tang", b"", {}, 404),
    "a run by its path": (*completion('{"model": "../demos/demo-text"}'), 404),
    "a state by a path": ("POST", "/v1/sessions", b'{"state": "/etc/passwd"}', JSON, 404),
    "a session of another": ("GET", "/v1/sessions/AAAAAAAAAAAAAAAA", b"", {}, 404),
    "a script as a session": ("GET", "/v1/sessions/<script>alert(1)</script>", b"", {}, 404),
    "a script as a model": (*completion('{"model": "</script><script>alert(1)</script>"}'), 404),
    "another method": ("PUT", PLACE, b"{}", JSON, 405),
    "tracing": ("TRACE", "/v1/models", b"", {}, 405),
    "a body that is too large": (*completion(b" " * (Limits().body + 1)), 413),
    "a length that lies": ("POST", PLACE, b"{}", JSON | {"content-length": "9" * 30}, 413),
    "a length that is none": ("POST", PLACE, b"{}", JSON | {"content-length": "-5"}, 400),
    "half a body": (*completion('{"prompt": "KI'), 400),
    "no body": (*completion(""), 400),
    "lists in lists": (*completion(DEEP), 400),
    "objects in objects": (*completion(b'{"prompt":' * 60 + b"1" + b"}" * 60), 400),
    "no number": (*completion('{"temperature": NaN}'), 400),
    "a number without end": (*completion('{"temperature": 1e999}'), 400),
    "a number of 5,000 digits": (*completion('{"seed": 1' + "0" * 5_000 + "}"), 400),
    "a count beyond 64 bits": (*completion('{"max_tokens": 18446744073709551616}'), 400),
    "a key twice": (*completion('{"seed": 1, "seed": 2}'), 400),
    "bytes that are no UTF-8": (*completion(b'{"prompt": "\xff\xfe"}'), 400),
    "half a character": (*completion('{"prompt": "\\ud800"}'), 400),
    "a list in place of an object": (*completion("[1]"), 400),
    "a key of its own": (*completion('{"__class__": "os.system"}'), 400),
    "a command of the shell": (*completion('{"model": "demo-text; rm -rf /"}'), 404),
    "a file to write": ("POST", "/v1/models/demo-text/score", b'{"text": "ab", "state_out": "/tmp/x"}', JSON, 400),
    "a file as a table": ("POST", "/v1/models/demo-series/forecast", b'{"table": "/etc/passwd"}', JSON, 400),
    "a very long prompt": (*completion(json.dumps({"model": "demo-text", "prompt": "a" * 900_000})), 400),
    "a program as a picture": ("POST", "/v1/models/demo-captions/caption", b"%!PS\n", {"content-type": "image/x"}, 400),
}


def files_of(service):
    """Every file of the runs that are served, with its size and time."""
    found = {}
    for served in service.models:
        for path in served.model.path.rglob("*"):
            about = path.stat()
            found[path] = about.st_size, about.st_mtime_ns
    return found


def test_there_are_forty():
    assert len(HOSTILE) >= 40


@pytest.mark.parametrize("name", HOSTILE)
def test_it_is_refused_with_the_right_code(client, name):
    method, path, body, headers, code = HOSTILE[name]
    answer = client(method, path, body, headers=headers)
    assert answer.status == code, answer.body[:300]
    error = answer.json()["error"]
    assert error["message"]
    assert "\n" not in error["message"]
    assert len(answer.body) < 3_000
    assert b"<script" not in answer.body
    assert b"Traceback" not in answer.body
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_nothing_else_is_harmed(service, client, alone):
    before, sessions = files_of(service), dict(service.store.sessions)
    for method, path, body, headers, _ in HOSTILE.values():
        client(method, path, body, headers=headers)
    assert files_of(service) == before
    assert service.store.sessions == sessions
    assert client.app.running == 0
    assert not any(served.batcher.rows or served.batcher.waiting for served in service.models if served.batcher)
    answer = client.post(PLACE, {"model": "demo-text", "prompt": "KING:", "max_tokens": 20, "seed": 1})
    assert answer.json()["choices"][0]["text"] == alone("KING:", 20, seed=1)


def test_links_out_of_a_folder_lead_nowhere(client, service, runs, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    links = [runs / "small-labels" / "secret.txt", runs / "linked"]
    links[0].symlink_to(tmp_path / "secret.txt")
    links[1].symlink_to(tmp_path)
    try:
        for path in ("small-labels/secret.txt", "linked", "linked/secret.txt", "small-labels/../linked"):
            answer = client.get(f"/v1/models/{path}")
            assert answer.status == 404
            assert b"secret" not in answer.body.replace(b"secret.txt", b"")
        for body in ({"model": "linked"}, {"model": str(runs / "linked")}, {"model": "small-labels/secret.txt"}):
            assert client.post(PLACE, body).status == 404
    finally:
        for link in links:
            link.unlink()


@pytest.mark.parametrize(
    ("chunks", "silent", "code"),
    [
        ([b'{"prompt":', b' "K"'], True, 408),  # half of it, then nothing
        ([b" "] * 200, True, 408),  # drop by drop
        ([b" " * 400] * 4, True, 413),  # without an end, counted as it comes
    ],
)
def test_bodies_that_do_not_end_are_left(limited, chunks, silent, code):
    client = client_of(limited(body=1_000, body_seconds=0.2))
    answer = client("POST", PLACE, chunks=chunks, silent=silent, headers=JSON)
    assert answer.status == code
    assert client.get("/health").status == 200


def test_a_client_that_leaves_amid_its_body_harms_nothing(client):
    answer = client("POST", PLACE, chunks=[b"{"], silent=True, leave_after=0, headers=JSON)
    assert answer.status == 408
    assert client.app.running == 0
