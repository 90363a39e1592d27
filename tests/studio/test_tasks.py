"""The routes of the views of tasks: the numbers of an answer are the model's, and nothing of an upload is kept."""

import io
import json
import struct
import tempfile
import wave
import zlib
from pathlib import Path

import numpy as np
import pytest

import recollect
from export import made
from recollect.studio.app import Studio
from recollect.studio.limits import Limits
from recollect.training.folder import shipped
from serve.asgi import HOST, TOKEN, Client
from tasks import cases

TYPES = {"float32": "<f4", "uint8": "|u1"}


@pytest.fixture(scope="module")
def client():
    own = Studio([], shipped(), Limits())
    yield Client(own.application(hosts=frozenset({HOST}), token=TOKEN))
    own.close()


def unpack(answer):
    """An answer of arrays: what it says, and the arrays."""
    assert answer.status == 200, answer.body[:300]
    (length,) = struct.unpack("<I", answer.body[:4])
    about = json.loads(answer.body[4 : 4 + length])
    arrays = {}
    for each in about.pop("arrays"):
        count = int(np.prod(each["shape"]))
        found = np.frombuffer(answer.body, TYPES[each["type"]], count, 4 + length + each["at"])
        arrays[each["name"]] = found.reshape(each["shape"])
    return about, arrays


def load(name):
    return recollect.load(name, engine="torch")


def picture(size=(40, 30)):
    from PIL import Image

    content = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (*size[::-1], 3), np.uint8)).save(content, "PNG")
    return content.getvalue()


def recording(seconds=0.5, rate=8_000):
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes((8_000 * np.sin(np.arange(int(seconds * rate)) / 5)).astype("<i2").tobytes())
    return content.getvalue()


@pytest.mark.parametrize(
    ("view", "names"),
    [
        ("sentences", {"demo-translation", "demo-translation-zh"}),
        ("pictures", {"demo-captions", "demo-films"}),
        ("series", {"demo-series"}),
        ("labels", {"demo-opinions", "demo-speech"}),
        ("ratings", {"demo-ratings"}),
    ],
)
def test_a_view_lists_the_runs_of_its_task(client, view, names):
    found = client.get(f"/studio/{view}/runs").json()["runs"]
    assert {run["name"] for run in found} == names
    assert all(run["shipped"] and run["model"] for run in found)


def test_runs_of_a_folder_come_after_those_that_ship_and_broken_ones_not_at_all(tmp_path):
    source = Path(recollect.load("demo-ratings").path)
    for name, text in (("mine", (source / "config.json").read_text()), ("broken", "{"), ("empty", "{}")):
        place = tmp_path / name
        place.mkdir()
        for file in source.iterdir():
            (place / file.name).write_bytes(file.read_bytes())
        (place / "config.json").write_text(text)
    (tmp_path / "untrained").mkdir()
    (tmp_path / "untrained" / "config.json").write_text((source / "config.json").read_text())
    studio = Studio([tmp_path], ["demo-ratings"], Limits())
    own = Client(studio.application(hosts=frozenset({HOST}), token=TOKEN))
    assert [run["name"] for run in own.get("/studio/ratings/runs").json()["runs"]] == ["demo-ratings", "mine"]
    assert str(tmp_path) not in own.get("/studio/ratings/runs").body.decode()
    assert own.get("/studio/ratings/names?run=mine").status == 200
    studio.close()


def test_a_sentence_and_its_maps_are_those_of_the_model(client):
    text, model = "two hundred and six", load("demo-translation")
    about, arrays = unpack(
        client.post("/studio/sentences/trace", {"run": "demo-translation", "text": text, "nbest": 2})
    )
    found, traces = model.trace(text, nbest=2)
    assert [each["text"] for each in about["translations"]] == list(found.texts)
    for number, trace in enumerate(traces):
        assert about["translations"][number]["maps"] == list(trace.maps)
        np.testing.assert_allclose(arrays[str(number)], np.stack(list(trace.maps.values())), atol=1e-6)
    assert about["tokens"] == list(traces[0].source)


def test_an_empty_sentence_has_no_translation(client):
    about, arrays = unpack(client.post("/studio/sentences/trace", {"run": "demo-translation", "text": " "}))
    assert (about["translations"], about["tokens"], arrays) == ([], [], {})


def test_a_picture_and_its_gaze_are_those_of_the_model(client):
    content, model = picture(), load("demo-captions")
    place = "/studio/pictures/describe?run=demo-captions&beam=2"
    about, arrays = unpack(client.post(place, content, headers={"content-type": "image/png"}))
    wanted = model.caption(content, beam=2, nbest=2, gaze=True)
    assert about["texts"] == list(wanted.texts)
    assert about["words"] == list(wanted.words)
    np.testing.assert_allclose(arrays["gaze"], wanted.gaze, atol=1e-6)
    assert arrays["picture"].shape == (30, 40, 3)
    assert arrays["seen"].shape == (48, 48, 3)


def test_a_scene_is_drawn_and_described(client):
    words = "a small red circle left of a large blue square"
    about, arrays = unpack(client.post("/studio/pictures/scene", {"run": "demo-captions", "words": words, "number": 5}))
    assert words in about["captions"]
    assert len(about["words"]) == len(arrays["gaze"])
    by_number, _ = unpack(client.post("/studio/pictures/scene", {"run": "demo-captions", "number": 5}))
    assert by_number["captions"] != about["captions"]


def test_a_built_in_series_and_its_forecasts_are_those_of_the_model(client):
    about, arrays = unpack(client.post("/studio/series/backtest?run=demo-series&source=sunspots"))
    wanted = load("demo-series").backtest("sunspots")
    for name in ("mean", "lower", "upper"):
        np.testing.assert_allclose(arrays[name], getattr(wanted, name), rtol=1e-5)
    assert about["trained"] == 248
    assert about["error_charts"][0].startswith("<svg")


def test_an_uploaded_table_is_read_and_not_kept(client, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rows = [f"{1900 + n},{'' if n == 40 else 50 + n % 11}" for n in range(90)]
    content = "\n".join(["year,sunspots", *rows]).encode()
    place = "/studio/series/backtest?run=demo-series&horizon=4"
    about, arrays = unpack(client.post(place, content, headers={"content-type": "text/csv"}))
    assert arrays["mean"].shape[1:] == (4, 1)
    assert np.isnan(arrays["values"]).sum() == 1
    assert about["trained"] is None
    assert "the table" in about["notes"][0]
    assert list(tmp_path.iterdir()) == []
    assert str(tmp_path) not in json.dumps(about)


def test_the_words_of_a_chart_are_in_the_language_of_the_page(client):
    place = "/studio/series/backtest?run=demo-series&source=sunspots"
    about, _ = unpack(client.post(place, headers={"accept-language": "zh"}))
    assert "预测" in about["error_charts"][0]
    about, _ = unpack(client.post(place, headers={"accept-language": "en"}))
    assert "forecast" in about["error_charts"][0]


@pytest.mark.parametrize("rule", ["without", "path"])
def test_a_sentence_and_what_its_words_contribute_are_those_of_the_model(client, rule):
    text = "although the acting was superb the plot is dull"
    asked = {"run": "demo-opinions", "text": text, "rule": rule}
    found = client.post("/studio/labels/contributions", asked).json()
    wanted = load("demo-opinions").contributions(text, rule)
    np.testing.assert_allclose(found["probabilities"], wanted.probabilities, rtol=1e-5)
    np.testing.assert_allclose(found["values"], wanted.values, atol=1e-4)
    np.testing.assert_allclose(found["so_far"], wanted.so_far, atol=1e-5)
    assert found["labels"] == ["negative", "positive"]


def test_a_run_is_measured_on_its_test_part(client):
    found = client.post("/studio/labels/measure", {"run": "demo-opinions"}).json()
    assert found["split"] == "test"
    assert found["accuracy"] > 0.97 > 0.8 > found["baseline_accuracy"]["bag of words"]
    assert 0 <= found["calibration_error"] < 0.05


def test_a_recording_and_its_label_are_those_of_the_model(client):
    content, model = recording(), load("demo-speech")
    place = "/studio/labels/recording?run=demo-speech"
    about, arrays = unpack(client.post(place, content, headers={"content-type": "audio/wav"}))
    np.testing.assert_allclose(about["probabilities"], model.probabilities([content])[0], atol=1e-6)
    np.testing.assert_allclose(arrays["after"][-1], about["probabilities"], atol=1e-5)
    assert len(arrays["frames"]) == len(arrays["after"])


def test_a_pair_and_its_score_are_those_of_the_model(client):
    found = client.get("/studio/ratings/pair?run=demo-ratings&user=user4&item=item9").json()
    wanted = load("demo-ratings").pair("user4", "item9")
    assert found["score"] == pytest.approx(wanted.score)
    assert found["user"]["vector"] == pytest.approx(wanted.user.tolist())
    product = sum(a * b for a, b in zip(found["user"]["vector"], found["item"]["vector"], strict=True))
    assert found["mean"] + found["user"]["bias"] + found["item"]["bias"] + product == pytest.approx(found["score"])
    lengths = np.linalg.norm(wanted.user) * np.linalg.norm(wanted.item)
    assert np.cos(np.radians(found["angle"])) * lengths == pytest.approx(product)
    names = client.get("/studio/ratings/names?run=demo-ratings").json()
    assert len(names["users"]) == 60
    assert names["low"] < names["high"]


def bomb(width, height):
    """A PNG that says how large it is, and has nothing else."""
    about = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (b"\x89PNG\r\n\x1a\n", struct.pack(">I", 13), about, struct.pack(">I", zlib.crc32(about)))
    return b"".join(parts) + struct.pack(">I", 1_000) + b"IDAT"


TABLE = "series/backtest?run=demo-series"
LOOK = "pictures/describe?run=demo-captions"
HEAR = "labels/recording?run=demo-speech"


@pytest.mark.parametrize(
    ("place", "content", "kind", "code", "words"),
    [
        (LOOK, b"", "image/png", 400, "picture"),
        (LOOK, b"%PDF-1.7 not a picture", "image/png", 400, "picture"),
        (LOOK, picture()[:80], "image/png", 400, "picture"),
        (LOOK, bomb(20_000, 1_000), "image/png", 413, "pixels"),
        (LOOK, bomb(2**31 - 1, 2**31 - 1), "image/png", 413, "pixels"),
        (LOOK, b"<svg onload='alert(1)'/>", "image/svg+xml", 400, "picture"),
        (LOOK, picture(), "text/html", 415, "Content-Type"),
        (LOOK + "&beam=99", picture(), "image/png", 400, "beam"),
        (LOOK + "&beam=x", picture(), "image/png", 400, "beam"),
        (LOOK.replace("demo-captions", "nobody"), picture(), "image/png", 404, "run"),
        (LOOK.replace("demo-captions", "demo-text"), picture(), "image/png", 400, "run"),
        (LOOK.replace("run=demo-captions", ""), picture(), "image/png", 400, "run"),
        (LOOK.replace("demo-captions", "..%2f..%2fetc"), picture(), "image/png", 404, "run"),
        (TABLE, b"", "text/csv", 400, "table"),
        (TABLE, b" \n ", "text/csv", 400, "table"),
        (TABLE, b"\x1f\x8b" + bytes(500), "text/csv", 400, "packed"),
        (TABLE, b"PK\x03\x04" + bytes(500), "text/csv", 400, "packed"),
        (TABLE, b"year,sunspots\n1,\xff\xfe\x00", "text/csv", 400, "packed"),
        (TABLE, b"year,sunspots\n1,2\n", "text/csv", 400, "rows"),
        (TABLE, b"<script>alert(1)</script>,b\n1,2\n2,3\n", "text/csv", 400, "sunspots"),
        (TABLE, b"year,sunspots\n" + b"\n".join(b"%d,x%d" % (n, n) for n in range(60)), "text/csv", 400, "number"),
        (TABLE, b"year,sunspots\n" + b"1,2\n" * 300_000, "text/csv", 413, "bytes"),
        (TABLE, b"sunspots\n" + b"2\n" * 110_000, "text/csv", 400, "cells"),
        (TABLE + "&horizon=0", b"year,sunspots\n", "text/csv", 400, "horizon"),
        (TABLE + "&horizon=100000", b"year,sunspots\n", "text/csv", 400, "horizon"),
        (TABLE + "&source=/etc/passwd", b"", "text/csv", 400, "source"),
        (TABLE + "&wide=99999", b"year,sunspots\n", "text/csv", 400, "wide"),
        (TABLE, b"year,sunspots\n", "application/pdf", 415, "Content-Type"),
        (HEAR, b"", "audio/wav", 400, "recording"),
        (HEAR, b"RIFF\x00\x00\x00\x00WAVEjunk", "audio/wav", 400, "recording"),
        (HEAR, recording()[:60], "audio/wav", 400, "recording"),
        (HEAR, recording(0.001), "audio/wav", 400, "recording"),
        (HEAR, recording(121, 4_000), "audio/wav", 400, "120"),
        (HEAR.replace("speech", "opinions"), recording(), "audio/wav", 400, "recordings"),
    ],
)
def test_hostile_uploads_are_refused_in_one_line(client, place, content, kind, code, words):
    answer = client.post(f"/studio/{place}", content, headers={"content-type": kind})
    assert answer.status == code, answer.body[:300]
    assert words in answer.error
    assert "\n" not in answer.error
    assert "/tmp" not in answer.error
    assert len(answer.error) < 500


@pytest.mark.parametrize(
    ("place", "body", "code", "words"),
    [
        ("sentences/trace", {"run": "demo-translation", "text": "x" * 401}, 400, "400 characters"),
        ("sentences/trace", {"run": "demo-translation", "text": "six", "nbest": 9}, 400, "nbest"),
        ("sentences/trace", {"run": "demo-translation", "text": "six", "beam": 0}, 400, "beam"),
        ("sentences/trace", {"run": "demo-text", "text": "six"}, 400, "translation"),
        ("sentences/trace", {"run": "<script>", "text": "six"}, 404, "run"),
        ("sentences/trace", {"text": "six"}, 400, "run"),
        ("pictures/scene", {"run": "demo-captions", "number": -1}, 400, "number"),
        ("pictures/scene", {"run": "demo-captions", "words": "a cat"}, 400, "words"),
        ("pictures/scene", {"run": "demo-captions", "words": "a " * 200}, 400, "200 characters"),
        ("labels/contributions", {"run": "demo-opinions", "text": "x" * 2_001}, 400, "2,000 characters"),
        ("labels/contributions", {"run": "demo-opinions", "text": "<img>"}, 400, "a word that the run knows"),
        ("labels/contributions", {"run": "demo-opinions", "text": "good", "rule": "x"}, 400, "rule"),
        ("labels/contributions", {"run": "demo-speech", "text": "good"}, 400, "texts"),
        ("labels/measure", {"run": "demo-text"}, 400, "labels"),
    ],
)
def test_wrong_requests_are_refused_in_one_line(client, place, body, code, words):
    answer = client.post(f"/studio/{place}", body)
    assert answer.status == code, answer.body[:300]
    assert words in answer.error
    assert "\n" not in answer.error


def test_a_pair_of_nobody_is_refused(client):
    answer = client.get("/studio/ratings/pair?run=demo-ratings&user=user1&item=%3Cscript%3E")
    assert answer.status == 400
    assert "items: expected" in answer.error
    assert client.get("/studio/ratings/pair?run=demo-ratings").status == 400


@pytest.fixture(scope="module")
def film_client(tmp_path_factory):
    """A studio over an untrained model of films."""
    place = tmp_path_factory.mktemp("films")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_CACHE", str(place / "cache"))
        cases.write_data(place)
        (place / "runs").mkdir()
        made.make(place / "made", place, "films").path.rename(place / "runs" / "own-films")
    own = Studio([place / "runs"], [], Limits())
    yield Client(own.application(hosts=frozenset({HOST}), token=TOKEN)), place / "runs" / "own-films"
    own.close()


def test_a_film_and_its_gaze_are_those_of_the_model(film_client):
    from PIL import Image

    client, place = film_client
    content = io.BytesIO()
    frames = [Image.new("RGB", (40, 30), (n * 40, 90, 90)) for n in range(5)]
    frames[0].save(content, "GIF", save_all=True, append_images=frames[1:])
    where = "/studio/pictures/describe?run=own-films&beam=1"
    about, arrays = unpack(client.post(where, content.getvalue(), headers={"content-type": "image/gif"}))
    wanted = recollect.load(str(place), engine="torch").caption(content.getvalue(), beam=1, gaze=True)
    assert about["words"] == list(wanted.words)
    np.testing.assert_allclose(arrays["gaze"], wanted.gaze, atol=1e-6)
    assert arrays["picture"].shape == (5, 30, 40, 3)
    scene, drawn = unpack(client.post("/studio/pictures/scene", {"run": "own-films", "number": 3, "beam": 1}))
    assert len(scene["captions"]) == 1
    assert drawn["picture"].ndim == 4
