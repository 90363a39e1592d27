"""The routes of tasks: each gives what the model's own call gives."""

import io
import struct
import zlib

import numpy as np
import pytest

from serve.conftest import client_of
from tasks.cases import photo


def png(size=(20, 12)):
    content = io.BytesIO()
    photo(size=size).save(content, "PNG")
    return content.getvalue()


def model_of(service, name):
    return service.models.find(name).model


def test_lines_are_translated_with_their_alignments(client, service):
    place, model = "/v1/models/demo-translation/translate", model_of(service, "demo-translation")
    lines = ["twenty-one", "", "two hundred and five"]
    found = client.post(place, {"text": lines, "alignments": True}).json()["translations"]
    for each, wanted in zip(found, model.translate(lines, alignments=True), strict=True):
        assert (each["source"], each["texts"]) == (wanted.source, list(wanted.texts))
        if wanted.texts:
            np.testing.assert_allclose(each["alignment"]["weights"], wanted.alignment, rtol=1e-6)
            assert each["alignment"]["source_tokens"] == list(wanted.source_tokens)
    (found,) = client.post(place, {"text": "six", "beam": 4, "nbest": 3}).json()["translations"]
    assert found["texts"] == list(model.translate("six", beam=4, nbest=3).texts)
    assert found["alignment"] is None


def test_texts_are_labelled(client, service):
    texts = ["the film was good", "", "so bad and long"]
    found = client.post("/v1/models/small-labels/classify", {"text": texts}).json()["answers"]
    wanted = model_of(service, "small-labels").classify(texts)
    assert found[1] is None is wanted[1]
    assert [each["label"] for each in found if each] == [each.label for each in wanted if each]
    assert found[0]["probability"] == pytest.approx(wanted[0].probability)


def test_a_table_is_gone_on_with_and_its_gaps_are_filled(client, service):
    model, place = model_of(service, "demo-series"), "/v1/models/demo-series/forecast"
    values = [50 + 40 * np.sin(n / 2) for n in range(80)]
    table = {"year": [1900 + n for n in range(80)], "sunspots": values}
    (found,) = client.post(place, {"table": table, "horizon": 3}).json()["forecasts"]
    wanted = model.forecast(table, 3)
    np.testing.assert_allclose([row["mean"] for row in found["rows"]], wanted.mean[:, 0])
    np.testing.assert_allclose([row["upper"] for row in found["rows"]], wanted.upper[:, 0])
    assert found["times"] == list(wanted.times)
    gap = table | {"sunspots": [None if n == 60 else value for n, value in enumerate(values)]}
    (found,) = client.post(place, {"table": gap, "fill": True}).json()["forecasts"]
    assert [row["mean"] for row in found["rows"]] == [pytest.approx(row.mean) for row in model.fill(gap)]


def test_a_picture_is_described_and_not_kept(client, service):
    content, place = png(), "/v1/models/demo-captions/caption"
    answer = client.post(f"{place}?beam=2&gaze=true", content, headers={"content-type": "image/png"})
    (found,) = answer.json()["captions"]
    wanted = model_of(service, "demo-captions").caption(content, beam=2, gaze=True)
    assert found["texts"] == list(wanted.texts)
    assert found["words"] == list(wanted.words)
    np.testing.assert_allclose(found["gaze"], wanted.gaze, rtol=1e-5)


def test_ratings_and_recommendations(client, service):
    model = model_of(service, "small-ratings")
    users, items = (list(getattr(model._names, kind))[:3] for kind in ("users", "items"))
    (found,) = client.post("/v1/models/small-ratings/rate", {"users": users, "items": items}).json()["ratings"]
    np.testing.assert_allclose(found, model.rate(users, items))
    (found,) = client.post("/v1/models/small-ratings/rate", {"users": users[0], "items": items}).json()["ratings"]
    np.testing.assert_allclose(found, model.rate(users[0], items))
    found = client.post("/v1/models/small-ratings/recommend", {"user": users[0], "count": 4}).json()["items"]
    assert [(each["title"], each["rating"]) for each in found] == model.recommend(users[0], 4)


def test_a_text_is_scored(client, service):
    (found,) = client.post("/v1/models/demo-text/score", {"text": "the king"}).json()["scores"]
    wanted = model_of(service, "demo-text").score("the king")
    assert found["nats"] == pytest.approx(wanted.nats)
    assert [(each["token"], each["nats"]) for each in found["by_token"]] == [
        (token, pytest.approx(nats)) for token, nats in wanted.by_token
    ]


def test_the_models_are_listed_with_what_they_can(client, service):
    found = {each["id"]: each for each in client.get("/v1/models").json()["data"]}
    assert set(found) == set(service.models.by_name)
    assert "translate" in found["demo-translation"]["methods"]
    assert found["small-transformer"]["longest"] == 300
    assert client.get("/v1/models/demo-text").json() == found["demo-text"]
    assert client.get("/").json()["models"] == list(found)
    assert str(model_of(service, "small-labels").path) not in client.get("/v1/models").body.decode()


def test_a_model_is_asked_for_what_it_can(client):
    answer = client.post("/v1/models/demo-series/translate", {"text": "six"})
    assert answer.status == 404
    assert "forecast" in answer.error


@pytest.mark.parametrize(
    ("place", "body", "words"),
    [
        ("demo-translation/translate", {"text": ["six"] * 65}, "at most 64 texts"),
        ("demo-translation/translate", {"text": "x" * 4_001}, "at most 4,000 characters"),
        ("demo-translation/translate", {"text": "six", "beam": 17}, "from 1 to 16"),
        ("demo-translation/translate", {"text": "six", "nbest": 0}, "nbest"),
        ("demo-translation/translate", {"text": 6}, "text"),
        ("demo-translation/translate", {}, "the key text"),
        ("demo-translation/translate", {"text": "six", "state_out": "/tmp/x"}, "known key"),
        ("demo-series/forecast", {"table": "/etc/passwd"}, "table"),
        ("demo-series/forecast", {"table": ["/etc/passwd"]}, "table"),
        ("demo-series/forecast", {"table": {"sunspots": "/etc/passwd"}}, "table.sunspots"),
        ("demo-series/forecast", {"table": {"sunspots": ["/etc/passwd"] * 40}}, "number"),
        ("demo-series/forecast", {"table": {}}, "the table"),
        ("demo-series/forecast", {"table": {"sunspots": [1, 2]}}, "rows"),
        ("demo-series/forecast", {"table": {"sunspots": [1] * 40}, "horizon": 10**6}, "horizon"),
        ("demo-series/forecast", {"table": {"a": [1] * 60_000, "b": [1] * 60_000}}, "100,000 cells"),
        ("small-labels/classify", {}, "either text or images"),
        ("small-labels/classify", {"images": [{"a": 1}]}, "images"),
        ("small-ratings/rate", {"users": ["1", "2"], "items": ["1", "2", "3"]}, "as many"),
        ("small-ratings/rate", {"users": [], "items": []}, "users"),
        ("small-ratings/recommend", {"user": "1", "count": 0}, "count"),
        ("demo-text/score", {"text": "x" * 5_000}, "4,096 characters"),
        ("demo-text/score", {"text": "x"}, "at least two tokens"),
    ],
)
def test_wrong_requests_are_one_line(client, place, body, words):
    answer = client.post(f"/v1/models/{place}", body)
    assert answer.status == 400, answer.body
    assert words in answer.error
    assert "\n" not in answer.error


@pytest.mark.parametrize(
    ("content", "kind", "query", "code"),
    [
        (b"", "image/png", "", 400),
        (b"no picture", "image/png", "", 400),
        (png()[:60], "image/png", "", 400),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "image/eps", "", 400),
        (b"x" * 5_000, "image/png", "", 413),
        (png((120, 90)), "image/png", "", 413),
        (png(), "text/html", "", 415),
        (png(), "image/png", "?beam=99", 400),
        (png(), "image/png", "?beam=x", 400),
        (png(), "image/png", "?file=1", 400),
        (png(), "image/png", "?gaze=1", 400),
    ],
)
def test_wrong_pictures_are_refused(limited, content, kind, query, code):
    client = client_of(limited(picture=4_000 if len(content) == 5_000 else 10**6, pixels=10_000))
    answer = client.post(f"/v1/models/demo-captions/caption{query}", content, headers={"content-type": kind})
    assert answer.status == code, answer.body
    assert answer.error


def headed(width, height):
    """A PNG that says how large it is, and has nothing else."""
    about = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (b"\x89PNG\r\n\x1a\n", struct.pack(">I", 13), about, struct.pack(">I", zlib.crc32(about)))
    return b"".join(parts) + struct.pack(">I", 1_000) + b"IDAT"


@pytest.mark.parametrize("size", [(20_000, 1_000), (12_000, 9_000), (2**31 - 1, 2**31 - 1)])
def test_a_bomb_is_refused_before_it_is_unpacked(client, size):
    place = "/v1/models/demo-captions/caption"
    answer = client.post(place, headed(*size), headers={"content-type": "image/png"})
    assert answer.status == 413
    assert "pixels" in answer.error
