"""Hostile requests to the studio: each is refused with the right code, and nothing else is harmed."""

import json

import pytest

from studio.models import TEXT
from studio.small import SmallStudio

JSON = {"content-type": "application/json"}
PAGES, PAGE = "/studio/text/pages", "/studio/text/pages/PAGE"
DEEP = b"[" * 100_000 + b"]" * 100_000


def read(**changes):
    body = {"lines": [{"text": "who"}], "show": {}, "have": {}} | changes
    return ("POST", f"{PAGE}/read", json.dumps(body).encode(), JSON)


HOSTILE = {  # what it tries → method, path, body, headers, the code that it gets
    "another host": ("GET", "/", b"", {"host": "rebound.example:8017"}, 403),
    "another host asks for a script": ("GET", "/studio/static/shell.js", b"", {"host": "10.0.0.7:8017"}, 403),
    "another host posts": (*read()[:3], JSON | {"host": "rebound.example"}, 403),
    "another host, by a method of its own": ("PURGE", "/studio/about", b"", {"host": "rebound.example"}, 403),
    "no host": ("GET", "/studio/about", b"", {"host": None}, 403),
    "a foreign page that posts": ("POST", PAGES, b"{}", JSON | {"origin": "https://evil.example"}, 403),
    "a foreign page that asks beforehand": ("OPTIONS", PAGES, b"", {"origin": "https://evil.example"}, 403),
    "a foreign page that deletes": ("DELETE", PAGE, b"", {"origin": "http://127.0.0.1:3000"}, 403),
    "a page in a frame without an origin": ("POST", PAGES, b"{}", JSON | {"origin": "null"}, 403),
    "the page without a token": ("GET", "/", b"", {"authorization": None}, 401),
    "a script without a token": ("GET", "/studio/static/shell.js", b"", {"authorization": None}, 401),
    "another token in the link": ("GET", "/?token=" + "a" * 43, b"", {"authorization": None}, 401),
    "a token in the link of a script": (
        "GET", "/studio/static/shell.js?token=a-token-of-the-tests", b"", {"authorization": None}, 401,
    ),
    "a cookie of another": ("GET", "/studio/about", b"", {"authorization": None, "cookie": "recollect=x"}, 401),
    "a head of a megabyte": ("GET", "/", b"", {"cookie": "a" * 2**20}, 431),
    "a way out of the files": ("GET", "/studio/static/../../../../etc/passwd", b"", {}, 404),
    "a way out, encoded": ("GET", "/studio/static/..%2f..%2fapp.py", b"", {}, 404),
    "a way out, by backslashes": ("GET", "/studio/static/..\\..\\app.py", b"", {}, 404),
    "a file by its path": ("GET", "/studio/static//etc/passwd", b"", {}, 404),
    "the source of the server": ("GET", "/studio/app.py", b"", {}, 404),
    "a template": ("GET", "/studio/static/../templates/studio.html", b"", {}, 404),
    "a null byte": ("GET", "/studio/static/shell.js\0.css", b"", {}, 404),
    "weights of a run": ("GET", "/studio/static/../../demos/lane-lstm/model.safetensors", b"", {}, 404),
    "a folder": ("GET", "/studio/static/lib/", b"", {}, 404),
    "a file is written": ("PUT", "/studio/static/shell.js", b"alert(1)", {}, 405),
    "a file is posted": ("POST", "/studio/static/shell.js", b"{}", JSON, 405),
    "another method": ("PUT", PAGES, b"{}", JSON, 405),
    "tracing": ("TRACE", "/", b"", {}, 405),
    "a page of another": ("POST", f"{PAGES}/AAAAAAAAAAAAAAAA/read", read()[2], JSON, 404),
    "a script as a page": ("POST", f"{PAGES}/<script>alert(1)</script>/look", b'{"at":1,"show":{}}', JSON, 404),
    "a script as a lane": ("POST", PAGES, b'{"lanes": ["<script>alert(1)</script>"]}', JSON, 404),
    "a run by its path": ("POST", PAGES, b'{"lanes": ["/etc"]}', JSON, 404),
    "a run by a way up": ("POST", PAGES, b'{"lanes": ["../demos/lane-lstm"]}', JSON, 404),
    "a form of a foreign page": ("POST", PAGES, b'{"lanes":[]}', {"content-type": "text/plain"}, 415),
    "no type": ("POST", PAGES, b"{}", {}, 415),
    "a body that is too large": ("POST", PAGES, b" " * (2 << 20), JSON, 413),
    "a length that lies": ("POST", PAGES, b"{}", JSON | {"content-length": "9" * 30}, 413),
    "half a body": ("POST", PAGES, b'{"lanes": ["la', JSON, 400),
    "lists in lists": ("POST", PAGES, DEEP, JSON, 400),
    "no number": ("POST", f"{PAGE}/write", b'{"temperature": NaN}', JSON, 400),
    "a number without end": ("POST", f"{PAGE}/write", b'{"temperature": 1e999}', JSON, 400),
    "a key twice": ("POST", f"{PAGE}/write", b'{"seed": 1, "seed": 2}', JSON, 400),
    "half a character": ("POST", f"{PAGE}/read", b'{"lines":[{"text":"\\ud800"}],"show":{},"have":{}}', JSON, 400),
    "a list in place of an object": ("POST", f"{PAGE}/read", b"[1]", JSON, 400),
    "a text of a million characters": (*read(lines=[{"text": "a" * 900_000}]), 400),
    "a thousand lanes": ("POST", PAGES, json.dumps({"lanes": [f"x{i}" for i in range(1_000)]}).encode(), JSON, 400),
    "more to write than there is time": ("POST", f"{PAGE}/write", b'{"length": 100000000}', JSON, 400),
    "a negative position": (*read(lines=[{"text": "a", "edits": [{"lane": "lane-lstm", "at": -1}]}]), 400),
    "more columns than memory": (*read(have={"lane-lstm": ["9" * 100]}), 400),
    "a picture by a path": (*read(show={"lane-lstm": "../../etc/passwd"}), 400),
}  # fmt: skip


@pytest.fixture(scope="module")
def small():
    made = SmallStudio("lstm")
    yield made
    assert made.studio.close()


def test_there_are_forty():
    assert len(HOSTILE) >= 40


@pytest.mark.parametrize("name", HOSTILE)
def test_it_is_refused_with_the_right_code(small, name):
    method, path, body, headers, code = HOSTILE[name]
    page = small.open()
    small.read(page, TEXT[:5])
    before = small.pages.pages[page].tracks["lane-lstm", 0].columns[:]
    answer = small(method, path.replace("PAGE", page), body, headers=headers)
    assert answer.status == code, answer.body[:300]
    assert answer.error
    assert "\n" not in answer.error
    assert len(answer.body) < 3_000
    assert b"<script" not in answer.body
    assert b"Traceback" not in answer.body
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert small.app.running == 0
    assert small.pages.pages[page].tracks["lane-lstm", 0].columns == before
    assert small.read(page, TEXT[:6], have={"lane-lstm": [5]})[0]["start"] == 5  # it goes on as if nothing had been


@pytest.mark.parametrize(
    ("chunks", "silent", "code"),
    [
        ([b'{"lanes":', b' ["lane'], True, 408),  # half of it, then nothing
        ([b" "] * 200, True, 408),  # drop by drop
        ([b" " * 400] * 4, True, 413),  # without an end, counted as it comes
    ],
)
def test_bodies_that_do_not_end_are_left(chunks, silent, code):
    small = SmallStudio(body=1_000, body_seconds=0.2)
    answer = small("POST", PAGES, chunks=chunks, silent=silent, headers=JSON)
    assert answer.status == code
    assert small.get("/health").status == 200
    assert small.studio.close()


def test_a_reader_that_leaves_ends_its_reading(small):
    page = small.open()
    body = {"lines": [{"text": TEXT * 20}], "show": {}, "have": {}}
    small.post(f"{PAGES}/{page}/read", body, leave_after=0)
    assert small.app.running == 0
    track = small.pages.pages[page].tracks.get(("lane-lstm", 0))
    assert track is None or track.position < 20 * len(TEXT)
    assert small.read(page, "who")[0]["position"] == 3


def test_links_out_of_a_folder_are_no_runs(tmp_path):
    from recollect.studio.registry import Registry

    inside, outside = tmp_path / "runs", tmp_path / "secret"
    for place in (inside / "own", outside / "run"):
        place.mkdir(parents=True)
        (place / "config.json").write_text("{}")
    (inside / "linked").symlink_to(outside / "run")
    registry = Registry([inside], [])
    assert list(registry.list_runs()) == ["own"]
    for name in ("linked", "../secret/run", str(outside / "run"), "", ".", "..", "own/../linked"):
        with pytest.raises(Exception, match="this studio sees"):
            registry.find(name)
