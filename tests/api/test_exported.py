"""Exported folders of every task in the classes of their runs: the same answers, without the run and without torch."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import recollect
from export import made
from recollect.core.errors import RecollectError
from recollect.export import package
from recollect.runtime.manifest import seal
from tasks import cases


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files that small runs read."""
    folder = tmp_path_factory.mktemp("files")
    cases.write_data(folder)
    return folder


EXPORTED = {}


@pytest.fixture
def pair_of(files, tmp_path, tmp_path_factory, monkeypatch):
    """What a run answers, by a function of the loaded model, and the model of its export once the run is gone."""
    monkeypatch.setenv("RECOLLECT_CACHE", str(files / "cache"))

    def pair(ask, name, label=None, **settings):
        key = name, label, tuple(settings.items())
        if key not in EXPORTED:
            place = tmp_path_factory.mktemp("made")
            package.export(made.make(place, files, name, label, **settings), place / "exported")
            EXPORTED[key] = place
        both = shutil.copytree(EXPORTED[key], tmp_path / "both")
        answers = ask(recollect.load(both / "run", engine="torch"))
        shutil.rmtree(both / "run")
        return answers, recollect.load(both / "exported")

    return pair


def test_it_forecasts_and_fills_like_its_run(pair_of, files):
    table = {name: np.where(np.arange(60) % 17 == 9, np.nan, np.arange(60) % 12) for name in "ab"}

    def ask(model):
        ahead = [model.forecast(files / "hours.csv", horizon) for horizon in (None, 2, 9)]
        assert np.isnan(ahead[2].lower[4:]).all()  # beyond its own horizon a direct forecaster has no interval
        return [np.stack([part.mean, part.lower, part.upper]) for part in ahead] + [
            np.array([[row.mean, row.lower, row.upper] for row in model.fill(table)], float)
        ]

    wanted, model = pair_of(ask, "series", "mlp")
    for own, other in zip(ask(model), wanted, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-5)
    assert model.engine.startswith("onnxruntime")
    assert (model.columns, model.shown) == (("a", "b"), 12)


def test_it_rates_like_its_run(pair_of):
    def ask(model):
        names = model._names
        return model.rate(list(names.users[:3]), names.items[0]), model.recommend("nobody", 4), model.rate("1", "1")

    (scores, best, one), model = pair_of(ask, "ratings", "dot")
    found = ask(model)
    np.testing.assert_allclose(found[0], scores, rtol=1e-5)
    assert [name for name, _ in found[1]] == [name for name, _ in best]
    assert found[2] == pytest.approx(one, rel=1e-5)
    with pytest.raises(RecollectError, match="load the run that it was exported from"):
        model.step(1)


TEXTS = ["the film was good", "bad", "", "so long and so bad a film"]


@pytest.mark.slow
def test_it_labels_texts_like_its_run(pair_of):
    def ask(model):
        return model.probabilities([text for text in TEXTS if text]), model.classify(TEXTS), model.classify("so bad")

    (shares, answers, one), model = pair_of(ask, "labels", "gru")
    found = ask(model)
    np.testing.assert_allclose(found[0], shares, rtol=1e-5)
    assert [answer and answer.label for answer in found[1]] == [answer and answer.label for answer in answers]
    assert found[2].probability == pytest.approx(one.probability, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("label", ["lstm, images", "tcn, images"])
def test_it_labels_pictures_like_its_run(pair_of, label):
    images = np.random.default_rng(0).integers(0, 256, (3, 4, 3))
    shares, model = pair_of(lambda model: model.probabilities(images), "labels", label)
    np.testing.assert_allclose(model.probabilities(images), shares, rtol=1e-5)
    assert model.classify(images[0]) == model.classify(images)[0]


LINES = ["a dog sees a fish", "", "the cat", "now, now, now"]
SEARCHES = ({"beam": 1, "length_penalty": 0.0}, {"beam": 3, "nbest": 2}, {"temperature": 1.0, "seed": 3})


def translations(model):
    return [model.translate(LINES, coverage=0.0, extra=4, **search) for search in SEARCHES]


def assert_same_texts(found, wanted):
    for own, other in zip(found, wanted, strict=True):
        assert [each.texts for each in own] == [each.texts for each in other]
        for one, two in zip(own, other, strict=True):
            np.testing.assert_allclose(one.scores, two.scores, rtol=1e-5)


@pytest.mark.slow
def test_it_translates_like_its_run(pair_of):
    wanted, model = pair_of(translations, "translation", "attend", cell="gru", layers=1, beam=3)
    assert_same_texts(translations(model), wanted)
    assert model.translate(LINES[0]).texts == model.translate(LINES[0], beam=3).texts
    with pytest.raises(RecollectError, match="which has no attention to read; ask for none"):
        model.translate("a cat", coverage=0.1)
    for call in (lambda: model.translate("a cat", alignments=True), lambda: model.explain("a cat")):
        with pytest.raises(RecollectError, match="load the run that it was exported from"):
            call()


@pytest.mark.slow
@pytest.mark.parametrize("label", [*cases.SMALL["translation"].models])
def test_every_translator_translates_like_its_run(pair_of, label):
    wanted, model = pair_of(translations, "translation", label)
    assert_same_texts(translations(model), wanted)


@pytest.mark.slow
def test_a_translation_beyond_learned_positions_is_refused_like_its_run(pair_of):
    def ask(model):
        with pytest.raises(RecollectError, match="expected at most 40 positions .*, found 41") as caught:
            model.translate("a cat", beam=1, extra=60)
        assert "\n" not in str(caught.value)

    _, model = pair_of(ask, "translation", "transformer", max_positions=40)
    ask(model)


@pytest.mark.slow
@pytest.mark.parametrize("label", ["fixed", "context", "attend", "conv", "transformer"])
def test_every_captioner_describes_like_its_run(pair_of, tmp_path, label):
    draw = np.random.default_rng(0)
    pictures = [draw.integers(0, 256, (40, 30, 3)).astype(np.uint8) for _ in range(2)]
    Image.fromarray(pictures[0]).save(tmp_path / "one.png")

    def ask(model):
        return [model.caption(pictures, **search) for search in SEARCHES[:2]] + [[model.caption(tmp_path / "one.png")]]

    wanted, model = pair_of(ask, "captions", label)
    assert_same_texts(ask(model), wanted)
    with pytest.raises(RecollectError, match="load the run that it was exported from"):
        model.caption(pictures[0], gaze=True)


SERIES = [*cases.SMALL["series"].models]


@pytest.mark.slow
@pytest.mark.parametrize("label", SERIES)
def test_every_forecaster_goes_on_like_its_run(pair_of, files, label):
    def ask(model):
        found = [model.forecast(files / "hours.csv", horizon) for horizon in (3, 4)]
        return [np.stack([part.mean, part.lower, part.upper]) for part in found]

    wanted, model = pair_of(ask, "series", label)
    drawn = "gaussian" in cases.SMALL["series"].models[label].values()  # its intervals are drawn, here from other noise
    for own, other in zip(ask(model), wanted, strict=True):
        np.testing.assert_allclose(own[0], other[0], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(own[1:], other[1:], rtol=0.5 if drawn else 1e-5, atol=0.5 if drawn else 1e-5)
    if drawn:
        with pytest.raises(RecollectError, match="expected a horizon of at most 4, that of the export, found 5"):
            model.forecast(files / "hours.csv", 5)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*cases.DIALS])
def test_a_test_of_memory_steps_like_its_run(pair_of, name):
    def ask(model):
        x, state, found = (np.array([[0.5, 1.0], [0.1, 0.0]]) if name == "adding" else [0, 1]), None, []
        for _ in range(5):
            y, state = model.step(x, state)
            found.append(np.asarray(y))
        return np.stack(found)

    wanted, model = pair_of(ask, name)
    np.testing.assert_allclose(ask(model), wanted, rtol=1e-5, atol=1e-5)


def test_what_needs_the_run_says_so_in_a_line(pair_of):
    _, model = pair_of(lambda model: None, "ratings", "dot")
    for call in (model.evaluate, model.verify, lambda: model.module):
        with pytest.raises(RecollectError, match="load the run that it was exported from") as caught:
            call()
        assert "\n" not in str(caught.value)


WITHOUT_TORCH = {
    "series": ("mlp", "model.forecast({'a': range(30), 'b': range(30)}).rows()"),
    "ratings": ("dot", "model.recommend('1')"),
    "labels": ("gru", "model.classify(['so good', 'bad'])"),
    "text": ("lstm", "[''.join(model.generate('t', length=5)), model.score('the')]"),
}


@pytest.mark.parametrize(
    "name", ["series", "ratings", *(pytest.param(name, marks=pytest.mark.slow) for name in ("labels", "text"))]
)
def test_it_is_used_without_torch_and_refused_with_one_bit_changed(pair_of, name):
    label, call = WITHOUT_TORCH[name]
    _, model = pair_of(lambda model: None, name, label)
    code = f"model = recollect.load({str(model.path)!r}); assert {call}; print('torch' in sys.modules)"
    program = [sys.executable, "-c", f"import sys, recollect; {code}"]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    for file in sorted(model.path.iterdir()):
        content = bytearray(file.read_bytes())
        place = len(content) // 2
        if file.name == "manifest.json":
            place = content.index(b",", content.index(b'"parameters": ')) - 1  # a digit
        content[place] ^= 1
        file.write_bytes(content)
        with pytest.raises(RecollectError, match="found an altered one; export again") as caught:
            eval(call, {"model": recollect.load(model.path)})
        assert "\n" not in str(caught.value)
        content[place] ^= 1
        file.write_bytes(content)
    assert eval(call, {"model": recollect.load(model.path)})


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"lookback": 12', '"lookback": "x"', "expected the settings that its task needs, found others .*lookback"),
        ('"lookback": 12', '"lookback": 9', "expected inputs that the graph takes, found others"),
        ('"name": "lower"', '"name": "lowest"', "expected a graph 'forecast' that gives mean, lower, upper, found"),
        ('"forecast": {', '"other": {', "expected a graph 'forecast' .* found .*other"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused_in_a_line(pair_of, old, new, words):
    _, model = pair_of(lambda model: None, "series", "mlp")
    manifest = model.path / "manifest.json"
    content = manifest.read_text(encoding="utf-8")
    assert old in content
    manifest.write_text(json.dumps(seal(json.loads(content.replace(old, new)))), encoding="utf-8")
    with pytest.raises(RecollectError, match=words) as caught:
        recollect.load(model.path).forecast({"a": range(30), "b": range(30)})
    assert "\n" not in str(caught.value)
