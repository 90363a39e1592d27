"""Who may come in: Host and Origin on every method, the token and its cookie, the headers of every answer."""

import pytest

from recollect.serve.guard import host_names, make_token
from serve.asgi import HOST, TOKEN, Client
from serve.conftest import client_of

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "X" * 100)
FOREIGN = (
    "evil.example", "evil.example:8017", "127.0.0.1", "127.0.0.1:80", "127.0.0.1.evil.example:8017",
    "127.0.0.1:8017.evil.example", "0.0.0.0:8017", "", "localhost:8018", "[::1]:1", "user@127.0.0.1:8017",
)  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("path", ["/", "/health", "/v1/models", "/v1/completions", "/nothing"])
def test_a_foreign_host_or_origin_is_refused_on_every_method(client, method, path):
    for headers in (
        {"host": "evil.example"},
        {"host": None},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:8018"},
        {"origin": ""},
    ):
        answer = client(method, path, headers=headers)
        assert answer.status == 403, (headers, answer)


@pytest.mark.parametrize("host", FOREIGN)
def test_hosts_are_compared_whole(client, host):
    assert client.get("/v1/models", headers={"host": host}).status == 403


def test_own_names_come_in():
    names = host_names("127.0.0.1", 8017, ("Models.Example",))
    assert names == {"127.0.0.1:8017", "localhost:8017", "[::1]:8017", "models.example"}
    assert "0.0.0.0:8017" not in host_names("0.0.0.0", 8017)
    assert "[fd00::1]:80" in host_names("fd00::1", 80)
    assert "localhost" in host_names("127.0.0.1", 80)


@pytest.mark.parametrize("origin", [f"http://{HOST}", f"https://{HOST}", f"HTTP://{HOST.upper()}"])
def test_own_origins_come_in(client, origin):
    assert client.get("/v1/models", headers={"origin": origin}).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": None},
        {"authorization": "Bearer"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": f"Bearer {TOKEN[:-1]}"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": TOKEN},
        {"authorization": "Bearer \xff\xfe"},
        {"authorization": None, "cookie": "recollect=wrong"},
        {"authorization": None, "cookie": f"other={TOKEN}"},
        {"authorization": None, "cookie": "=;;=\x01;recollect"},
        {"authorization": None, "cookie": "a=b;" * 5_000},
    ],
)
def test_without_the_token_nobody_comes_in(client, headers):
    for method, path in (("GET", "/v1/models"), ("POST", "/v1/sessions"), ("GET", "/"), ("GET", "/nothing")):
        answer = client(method, path, headers=headers)
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == "Bearer"
    assert client.get("/health", headers=headers).status == 200


def test_the_link_becomes_a_cookie_that_no_script_reads(client):
    answer = client.get(f"/?token={TOKEN}", headers={"authorization": None})
    assert answer.status == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert {"httponly", "samesite=strict", "path=/"} <= {part.strip().lower() for part in cookie.split(";")}
    given = {"authorization": None, "cookie": cookie.partition(";")[0]}
    assert client.get("/v1/models", headers=given).status == 200
    assert client.get("/?token=wrong", headers=given).status == 401
    assert client.get(f"/v1/models?token={TOKEN}", headers={"authorization": None}).status == 401  # by the link alone
    assert client.get("/?view=1&x=2", headers=given).status == 200  # a page's own
    assert client.get("/?" + "a=b&" * 5_000, headers={"authorization": None}).status == 401
    assert client("POST", f"/?token={TOKEN}", headers={"authorization": None}).status == 401


def test_every_answer_has_the_headers(client):
    answers = [
        client.get("/health"), client.get("/v1/models"), client.get("/nothing"), client.get(f"/?token={TOKEN}"),
        client.get("/health", headers={"host": "evil.example"}), client.get("/", headers={"authorization": None}),
        client.post("/v1/completions", b"{", headers={"content-type": "application/json"}),
        client.post("/v1/completions", {"model": "demo-text", "stream": True}), client("PUT", "/v1/models"),
    ]  # fmt: skip
    assert {answer.status for answer in answers} == {200, 303, 400, 401, 403, 404, 405}
    for answer in answers:
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in answer.headers


def test_a_method_that_a_path_lacks_is_named(client):
    answer = client("PUT", "/v1/models")
    assert answer.status == 405
    assert "GET" in answer.headers["allow"]
    assert client("DELETE", "/v1/completions").status == 405
    assert client("OPTIONS", "/v1/completions").status == 405


def test_an_error_of_the_servers_own_tells_nothing_of_it(service, caplog):
    async def fail(request):
        raise RuntimeError("/home/someone/secret")

    from starlette.routing import Route

    client = client_of(service, routes=[Route("/fail", fail)])
    answer = client.get("/fail")
    assert answer.status == 500
    assert "secret" not in answer.body.decode()
    assert "secret" in caplog.text
    assert client.get("/health").status == 200


def test_pages_of_others_stand_behind_the_same_guard(service):
    from starlette.responses import HTMLResponse
    from starlette.routing import Route

    async def page(request):
        return HTMLResponse("<p>", headers={"Content-Security-Policy": "default-src 'self'"})

    client = client_of(service, routes=[Route("/", page)])
    answer = client.get("/")
    assert answer.headers["content-security-policy"] == "default-src 'self'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert client.get("/", headers={"authorization": None}).status == 401
    assert client.get("/", headers={"host": "evil.example"}).status == 403
    assert client.get("/v1/models").status == 200


def test_more_requests_at_once_than_allowed_are_refused(limited):
    app = limited(requests=1).application(hosts=frozenset({HOST}), token=TOKEN)
    app.running = 1  # one is under way
    answer = Client(app).get("/v1/models")
    assert answer.status == 503
    assert answer.headers["retry-after"] == "1"
    app.running = 0
    assert Client(app).get("/v1/models").status == 200
    assert app.running == 0


def test_another_protocol_is_closed(client):
    import asyncio

    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(client.app({"type": "websocket", "path": "/", "headers": []}, None, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_tokens_are_long_and_differ():
    assert len({make_token() for _ in range(100)}) == 100
    assert len(make_token()) >= 40
