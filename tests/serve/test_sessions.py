"""Sessions: what is read and written in parts is what it is at once; forks and rewinding equal recomputation."""

import asyncio

import numpy as np
import pytest

from recollect.serve import sessions
from recollect.serve.sessions import thin
from serve.conftest import client_of

MODELS = ("demo-text", "small-transformer")


def start(client, text="the king and", model="demo-text"):
    answer = client.post("/v1/sessions", {"model": model, "text": text})
    assert answer.status == 201, answer.body
    return f"/v1/sessions/{answer.json()['id']}"


def go_on(client, place, length=30, **options):
    answer = client.post(f"{place}/generate", {"max_tokens": length, "seed": 1} | options)
    assert answer.status == 200, answer.body
    return answer.json()


def distribution(client, place):
    found = client.get(f"{place}/next?count=1000").json()["tokens"]
    return {each["id"]: each["probability"] for each in found}


@pytest.mark.parametrize("model", MODELS)
def test_a_text_in_parts_is_the_text_at_once(client, service, model):
    place = start(client, "the cat", model)
    assert client.post(f"{place}/feed", {"text": " sat on"}).json()["position"] == 14
    parts = [go_on(client, place, length) for length in (10, 1, 29)]
    wanted = "".join(service.models.find(model).model.generate("the cat sat on", length=40, seed=1))
    assert client.get(place).json()["text"] == wanted
    assert "".join(part["text"] for part in parts) == wanted[len("the cat sat on") :]
    assert parts[-1]["position"] == 54


def test_the_next_tokens_are_those_of_the_model(client, service):
    model = service.models.find("demo-text").model
    found = client.get(f"{start(client)}/next?count=5").json()
    assert found["position"] == 12
    assert [(each["token"], pytest.approx(each["probability"], rel=1e-5)) for each in found["tokens"]] == (
        model.next_tokens("the king and", 5)
    )
    assert sum(distribution(client, start(client)).values()) == pytest.approx(1)


@pytest.mark.parametrize("model", MODELS)
def test_rewinding_equals_recomputation(client, monkeypatch, model):
    monkeypatch.setattr("recollect.serve.sessions.SPACING", 7)
    place = start(client, "the cat", model)
    go_on(client, place, 40)
    text = client.get(place).json()["text"]
    for position in (47, 46, 35, 20, 8, 7, 3, 1):
        assert client.post(f"{place}/rewind", {"position": position}).json()["position"] == position
        anew = start(client, text[:position], model)
        found, wanted = distribution(client, place), distribution(client, anew)
        assert found.keys() == wanted.keys()
        np.testing.assert_allclose([found[each] for each in wanted], list(wanted.values()), rtol=1e-4, atol=1e-7)
    assert client.post(f"{place}/rewind", {"position": 0}).json()["position"] == 0
    assert client.get(f"{place}/next").status == 409
    assert client.post(f"{place}/generate", {}).status == 409
    client.post(f"{place}/feed", {"text": text[:5]})
    assert client.get(place).json()["text"] == text[:5]


def test_what_is_written_after_rewinding_is_what_was_written(client):
    """The numbers of the seed go back too."""
    place = start(client)
    text = go_on(client, place, 60)["text"]
    client.post(f"{place}/rewind", {"position": 12 + 25})
    assert go_on(client, place, 35)["text"] == text[25:]


@pytest.mark.parametrize("position", [None, 12, 30])
def test_a_fork_goes_its_own_way(client, position):
    place = start(client)
    text = client.get(place).json()["text"] + go_on(client, place, 40)["text"]
    answer = client.post(f"{place}/fork", {"position": position})
    assert answer.status == 201
    assert place.endswith(answer.json()["parent"])
    fork = f"/v1/sessions/{answer.json()['id']}"
    own = go_on(client, fork, 20, temperature=0)["text"]
    at = 52 if position is None else position
    assert client.get(fork).json()["text"] == text[:at] + own
    assert client.get(place).json()["text"] == text  # as it was
    assert go_on(client, place, 20, temperature=0)["position"] == 72


def test_forks_share_what_they_have_in_common(client, service):
    before = sessions.count_bytes([kept.text for kept in service.store.sessions.values()])
    place = start(client)
    one = sessions.count_bytes([kept.text for kept in service.store.sessions.values()]) - before
    for _ in range(5):
        client.post(f"{place}/fork", {})
    six = sessions.count_bytes([kept.text for kept in service.store.sessions.values()]) - before
    assert six < one + 6 * 8 * 12


def test_a_state_is_kept_and_resumed_by_its_id(client, alone):
    place = start(client, "KING:")
    kept = client.post(f"{place}/keep").json()
    go_on(client, place)
    assert client("DELETE", place).status == 204
    assert client.get(place).status == 404
    for _ in range(2):  # as often as one likes
        again = client.post("/v1/sessions", {"state": kept["id"]}).json()
        assert again["position"] == 5
        assert go_on(client, f"/v1/sessions/{again['id']}")["text"] == alone("KING:", 30, seed=1)
    assert kept["id"] in [each["id"] for each in client.get("/v1/states").json()["data"]]
    assert client("DELETE", f"/v1/states/{kept['id']}").status == 204
    assert client.post("/v1/sessions", {"state": kept["id"]}).status == 404
    assert client.post("/v1/sessions", {"state": "x", "text": "y"}).status == 400


def test_a_stream_of_a_session_ends_with_its_position(client, alone):
    place = start(client, "KING:")
    events = client.post(f"{place}/generate", {"max_tokens": 50, "seed": 2, "stream": True}).events()
    assert "".join(event["text"] for event in events) == alone("KING:", 50, seed=2)
    assert {name: events[-1][name] for name in ("finish_reason", "tokens", "position")} == {
        "finish_reason": "length", "tokens": 50, "position": 55,
    }  # fmt: skip
    assert client.get(place).json()["position"] == 55


def test_a_stop_string_ends_a_text_right_behind_it(client, alone):
    place = start(client, "KING:")
    found = go_on(client, place, 200, stop="e")
    assert found["text"] == alone("KING:", 200, seed=1, stop="e")
    assert found["finish_reason"] == "stop"
    assert client.get(place).json()["text"] == "KING:" + found["text"] + "e"


def test_a_client_that_leaves_leaves_its_session_as_it_was(client):
    place = start(client, "KING:")
    for stream in (False, True):
        body = {"max_tokens": 3_000, "stream": stream}
        client.post(f"{place}/generate", body, leave_after=int(stream))
        assert client.get(place).json()["position"] == 5
    assert go_on(client, place, 5)["position"] == 10


def test_one_request_at_a_time(limited):
    service = limited()
    client, batcher = client_of(service), service.models.find("demo-text").batcher
    place = start(client, "KING:")

    async def both():
        more = (
            ("generate", {}), ("generate", {"stream": True}), ("feed", {"text": "a"}), ("rewind", {"position": 1}),
            ("keep", {}),
        )  # fmt: skip
        with batcher.changed:  # the batch cannot look for jobs meanwhile
            first = asyncio.create_task(client.request("POST", f"{place}/generate", {"max_tokens": 300}))
            while not batcher.waiting:
                await asyncio.sleep(0)
            others = [await client.request("POST", f"{place}/{what}", body) for what, body in more]
        return await first, others

    first, others = asyncio.run(both())
    assert first.json()["position"] == 305
    assert {answer.status for answer in others} == {409}


def test_sessions_are_limited_in_number(limited):
    client = client_of(limited(sessions=2, states=1))
    first, _ = start(client), start(client)
    assert client.post("/v1/sessions", {"model": "demo-text"}).status == 429
    assert client.post(f"{first}/fork", {}).status == 429
    assert client.post(f"{first}/keep").status == 201
    assert client.post(f"{first}/keep").status == 429
    client("DELETE", first)
    assert start(client)


def test_sessions_are_limited_in_age(limited):
    service = limited(age=100)
    client = client_of(service)
    old, new = start(client), start(client)
    kept = client.post(f"{old}/keep").json()["id"]
    service.store.sessions[old.rpartition("/")[2]].used -= 101
    service.store.states[kept].used -= 101
    assert client.get(old).status == 404
    assert [each["id"] for each in client.get("/v1/sessions").json()["data"]] == [new.rpartition("/")[2]]
    assert client.get("/v1/states").json()["data"] == []
    service.store.sessions[new.rpartition("/")[2]].used -= 99
    assert client.get(new).status == 200  # which is a use of it


def test_sessions_are_limited_in_bytes(limited, monkeypatch):
    monkeypatch.setattr("recollect.serve.sessions.SPACING", 10)
    service = limited(memory=60_000)
    client = client_of(service)
    place = start(client, "the cat", "small-transformer")
    go_on(client, place, 150)
    (kept,) = service.store.sessions.values()
    assert len(kept.text.marks) == 1  # those on the way were let go
    assert client.post(f"{place}/rewind", {"position": 20}).status == 200  # and are made again
    go_on(client, place, 130)
    other = start(client, "the cat", "small-transformer")
    assert client.post(f"{other}/generate", {"max_tokens": 150}).status == 429
    assert client.get(other).json()["position"] == 7  # as it was
    client("DELETE", place)
    assert go_on(client, other, 150)["position"] == 157


def test_a_text_is_limited_in_tokens(limited):
    client = client_of(limited(tokens=50))
    place = start(client, "KING:")
    for answer in (
        client.post(f"{place}/generate", {"max_tokens": 46}),
        client.post(f"{place}/feed", {"text": "a" * 46}),
        client.post("/v1/sessions", {"model": "demo-text", "text": "a" * 51}),
        client.post("/v1/sessions", {"model": "demo-text", "text": "a" * 5_000}),
    ):
        assert answer.status == 400
        assert "50 tokens" in answer.error
    assert client.get("/v1/sessions").json()["data"][0]["position"] == 5
    assert len(client.get("/v1/sessions").json()["data"]) == 1  # none was left behind


@pytest.mark.parametrize("position", [13, -1, 10**30, "1", 1.5, True, None])
def test_a_position_outside_the_text_is_refused(client, position):
    answer = client.post(f"{start(client)}/rewind", {"position": position})
    assert answer.status == 400
    assert answer.json()["error"]["param"] in ("position", None)


@pytest.mark.parametrize("count", ["0", "-1", "x", "1e3", "99999999999", "", "\u0663"])
def test_a_count_of_next_tokens_is_a_number(client, count):
    assert client.get(f"{start(client)}/next?count={count}").status == 400


def test_states_on_the_way_are_thinned_evenly_and_the_last_one_stays():
    kept = thin(dict.fromkeys(range(10, 1_001, 10)), 16)
    assert len(kept) == 16
    assert 1_000 in kept
    gaps = np.diff([0, *kept])
    assert gaps.max() <= 4 * gaps.min()
