"""Altered requests before the server: each is answered, or refused in one JSON line with a code of the client's."""

import json

import hypothesis
import pytest

from faults.fuzzing.bodies import VALID, attempts
from recollect.serve.app import Service
from recollect.serve.limits import Limits
from serve.asgi import HOST, TOKEN, Client

FEW, MANY = 60, 5_000
FINE = {200, 201, 204, 400, 404, 405, 409, 413, 415, 429}


@pytest.fixture(scope="module")
def service():
    found = Service(["demo-text", "demo-series"], Limits(tokens=200, sessions=50, states=50, body=500_000))
    yield found
    found.close()


def put_before(service, attempt):
    """The answer to an attempt, with a session under the id that its path names."""
    client = Client(service.application(hosts=frozenset({HOST}), token=TOKEN))
    service.store.sessions.clear()
    service.store.states.clear()
    made = client.post("/v1/sessions", VALID["/v1/sessions"]).json()["id"]
    path = attempt.path.replace("/ID", f"/{made}")
    return client, client(attempt.method, path, attempt.body, headers={"content-type": attempt.type})


def count():
    deep = hypothesis.settings().max_examples > hypothesis.settings.get_profile("house").max_examples
    return MANY if deep else FEW


@hypothesis.settings(max_examples=count(), database=None)
@hypothesis.given(attempts())
def test_an_altered_request_is_answered_or_refused_in_one_line(service, attempt):
    client, answer = put_before(service, attempt)
    assert answer.status in FINE, (attempt, answer.body[:500])
    if answer.status >= 400:
        error = json.loads(answer.body)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert "\n" not in error["message"]
        assert len(error["message"]) <= 1_000
    assert b"Traceback" not in answer.body
    assert b"<script" not in answer.body
    assert client.app.running == 0


def test_what_it_begins_with_is_answered(service):
    """Else every request would be refused for another reason, and nothing would be tested."""
    from faults.fuzzing.bodies import Attempt

    for path, body in VALID.items():
        _, answer = put_before(service, Attempt("", "POST", path, json.dumps(body).encode(), "application/json"))
        assert answer.status in (200, 201), (path, answer.body)
        assert b'"error"' not in answer.body
