"""The routes of the text view: frames, pictures, writing, limits, and what is refused."""

import shutil

import numpy as np
import pytest

from recollect.training.folder import SHIPPED
from studio.models import TEXT
from studio.small import SmallStudio, unpack


@pytest.fixture(scope="module")
def small():
    made = SmallStudio("lstm", "transformer", "delta", "ngram")
    yield made
    assert made.studio.close()


def test_each_lane_answers_each_line_with_its_columns(small):
    found = small.read(small.open(), TEXT[:20], TEXT[:10] + "the", show={"lane-lstm": "1.h"})
    assert [(each["lane"], each["line"]) for each in found] == [(name, line) for line in (0, 1) for name in small.names]
    first = found[0]
    assert (first["start"], first["position"], first["ends"].tolist()) == (0, 20, list(range(1, 21)))
    assert first["values"].shape == (20, 16)
    assert np.isnan(first["surprise"][0])
    assert first["bits"] == pytest.approx(np.nanmean(first["surprise"]))
    assert found[4]["position"] == 13


def test_only_what_the_page_lacks_is_sent(small):
    page = small.open()
    small.read(page, TEXT[:20])
    found = small.read(page, TEXT[:15] + "y" + TEXT[16:24], have={name: [20] for name in small.names})
    assert [each["start"] for each in found] == [15] * 4
    assert [len(each["ends"]) for each in found] == [9] * 4
    again = small.read(page, TEXT[:15] + "y" + TEXT[16:24], have={"lane-lstm": [24]})
    assert [each["start"] for each in again] == [24, 0, 0, 0]


def test_each_answer_is_computed_once(small, monkeypatch):
    lane, count = small.pages.loaded["lane-lstm"], []
    monkeypatch.setattr(lane, "step", lambda *given, step=lane.step: count.append(1) or step(*given))
    page = small.open()
    small.read(page, TEXT[:20])
    small.read(page, TEXT[:20])
    small.read(page, TEXT[:22], TEXT[:20] + "e", show={"lane-lstm": "0.c"})
    assert len(count) == 20 + 2 + 1
    small.read(page, TEXT[:10])
    assert len(count) == 23


def test_pictures_of_a_position_are_looked_up(small):
    page = small.open()
    (frame, *_) = (
        each for each in small.read(page, TEXT[:20], show={"lane-delta": "0.sums"}) if each["lane"] == "lane-delta"
    )
    asked = {"at": 20, "show": {"lane-delta": "0.sums", "lane-transformer": "0.weights", "lane-lstm": "1.h"}}
    found = unpack(small.post(f"/studio/text/pages/{page}/look", asked).body)
    assert np.array_equal(found["lane-delta"], frame["now"])
    weights = found["lane-transformer"].astype(float)
    assert weights.shape == (2, 20)
    assert np.allclose(weights.sum(1), 1, atol=5e-3)
    assert "lane-lstm" not in found
    earlier = unpack(small.post(f"/studio/text/pages/{page}/look", asked | {"at": 7}).body)
    assert earlier["lane-transformer"].shape == (2, 7)
    assert [look["bytes"] for look in earlier["looks"]] < [look["bytes"] for look in found["looks"]]


def test_all_lanes_write_the_same_again_with_the_same_seed(small):
    page = small.open()
    small.read(page, TEXT[:20], TEXT[:12])

    def write(**settings):
        answer = small.post(f"/studio/text/pages/{page}/write", {"length": 7, "seed": 4} | settings)
        texts = {}
        for event in answer.events():
            for name, line, text, share in event["parts"]:
                texts[name, line] = texts.get((name, line), "") + text
                assert 0 < share <= 1
        return texts

    first = write()
    assert set(first) == {(name, line) for name in small.names for line in (0, 1)}
    assert {len(text) for text in first.values()} == {7}
    assert write() == first
    assert write(seed=5) != first
    assert write(temperature=0) == write(temperature=0, seed=9)
    assert small.read(page, TEXT[:20], have={name: [20] for name in small.names})[0]["start"] == 20  # nothing was read


def test_a_newer_reading_ends_an_older_one(small):
    import asyncio

    async def both():
        page = small.pages.add(small.names)
        path, body = f"/studio/text/pages/{page.id}/read", {"show": {}, "have": {}}
        first = asyncio.create_task(small.request("POST", path, {"lines": [{"text": TEXT * 8}]} | body))
        await asyncio.sleep(0.05)
        second = await small.request("POST", path, {"lines": [{"text": TEXT[:5]}]} | body)
        return (await first).body, second.body

    from studio.small import frames

    older, newer = asyncio.run(both())
    assert len(frames(newer)) == 4
    assert len(frames(older)) < 4


BAD = {  # what is wrong → path behind the page, body, code, words of the error
    "no line": ("read", {"lines": [], "show": {}, "have": {}}, 400, "at least one"),
    "too many lines": ("read", {"lines": [{"text": "a"}] * 3, "show": {}, "have": {}}, 400, "at most 2 lines"),
    "a long text": ("read", {"lines": [{"text": "a" * 2001}], "show": {}, "have": {}}, 400, "2,000 characters"),
    "many edits": (
        "read",
        {"lines": [{"text": "a", "edits": [{"lane": "lane-lstm", "key": "1.h"}] * 65}], "show": {}, "have": {}},
        400,
        "64 edits",
    ),
    "another lane": ("read", {"lines": [{"text": "a"}], "show": {"x": "1.h"}, "have": {}}, 400, "lanes of this page"),
    "another picture": (
        "read",
        {"lines": [{"text": "a"}], "show": {"lane-lstm": "9.h"}, "have": {}},
        400,
        "picture of",
    ),
    "a key of its own": (
        "read",
        {"lines": [{"text": "a", "file": "/etc/passwd"}], "show": {}, "have": {}},
        400,
        "file",
    ),
    "a position before the text": ("look", {"at": 0, "show": {}}, 400, "at"),
    "a picture that is none": ("look", {"at": 1, "show": {"lane-lstm": "../../x"}}, 400, "picture of"),
    "too long a writing": ("write", {"length": 5_000}, 400, "4,096 tokens"),
    "cold": ("write", {"temperature": -1}, 400, "temperature"),
    "no lanes": ("lanes", {"lanes": []}, 400, "1 to 18"),
    "a lane twice": ("lanes", {"lanes": ["lane-lstm"] * 2}, 400, "1 to 18"),
    "a run that is not seen": ("lanes", {"lanes": ["../../etc"]}, 404, "this studio sees"),
    "a run by its path": ("lanes", {"lanes": ["/etc/passwd"]}, 404, "this studio sees"),
    "nothing typed": ("write", {"length": 5}, 409, "type something first"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_refused_in_one_line(small, name):
    place, body, code, words = BAD[name]
    page = small.open()
    if name == "nothing typed":
        small.read(page, "")
    answer = small.post(f"/studio/text/pages/{page}/{place}", body)
    assert (answer.status, "\n" in answer.error) == (code, False)
    assert words in answer.error


def test_an_edit_that_is_none_ends_the_stream_with_its_error(small):
    page = small.open()
    edit = {"lane": "lane-lstm", "at": 1, "key": "1.forget", "unit": 0, "value": 1.0}
    body = {"lines": [{"text": "who", "edits": [edit]}], "show": {}, "have": {}}
    (frame,) = small.read(page, **body)
    assert "picture of the state of lane-lstm" in frame["error"]["message"]


def test_pages_are_limited_in_number_and_age_and_bytes():
    small = SmallStudio("lstm", pages=2, memory=60_000)
    first, second = small.open(), small.open()
    small.pages.pages[first].used -= 1
    third = small.open()
    assert set(small.pages.pages) == {second, third}
    assert (
        small.post(f"/studio/text/pages/{first}/read", {"lines": [{"text": "a"}], "show": {}, "have": {}}).status == 404
    )
    small.pages.pages[second].used -= 4_000
    assert small.post(f"/studio/text/pages/{second}/look", {"at": 1, "show": {}}).status == 404
    fourth = small.open()
    small.read(third, TEXT[:20])
    found = small.read(fourth, TEXT * 3)
    assert "of states, found more; take fewer lanes" in found[-1]["error"]["message"]
    assert fourth not in small.pages.pages
    assert third not in small.pages.pages  # it was let go first
    assert small.studio.close()


def test_a_run_that_cannot_be_loaded_is_told_and_the_others_read(small, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(SHIPPED / "lane-rnn", broken)
    (broken / "model.safetensors").write_bytes(b"none")
    small.studio.registry.named["broken"] = str(broken)
    answer = small.post("/studio/text/pages", {"lanes": ["broken", "lane-lstm"]}).json()
    assert [lane["name"] for lane in answer["lanes"]] == ["lane-lstm"]
    assert "safetensors" in answer["failed"]["broken"]
    assert str(tmp_path) not in answer["failed"]["broken"]
    assert small.read(answer["id"], "who")[0]["position"] == 3
    assert small.post("/studio/text/pages", {"lanes": ["broken"]}).status == 400


def test_texts_of_one_page_do_not_reach_another(small):
    first, second = small.open(), small.open()
    small.read(first, TEXT[:20])
    alone = small.read(second, "stand")
    assert [each["position"] for each in alone] == [5] * 4


def test_runs_that_can_be_lanes_are_those_of_texts(client):
    found = {run["name"]: run["model"] for run in client.get("/studio/text/runs").json()["runs"]}
    assert found["lane-lstm"] == "lstm"
    assert found["demo-text"] == "gru"
    assert "demo-series" not in found
