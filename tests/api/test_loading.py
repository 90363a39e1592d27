"""`recollect.load`: one object for a run, a shipped run or an exported folder; which engine runs; what is refused."""

import inspect
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

import recollect
import tiny
from recollect.api import steps
from recollect.core.errors import RecollectError
from recollect.export.package import export
from recollect.tasks.text.task import TextTask
from recollect.tasks.text.use import OPTIONS, TextModel
from recollect.training import run as runs
from recollect.training.folder import SHIPPED, RunFolder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two copies of a trained text run: `plain`, and `stepped` with an exported step."""
    place = tmp_path_factory.mktemp("trained")
    book = place / "book.txt"
    book.write_text(tiny.prose(), encoding="utf-8")
    runs.train(TextTask, tiny.configure(book), str(place / "plain"))
    shutil.copytree(place / "plain", place / "stepped")
    assert steps.make_step(runs.load(place / "stepped")) is not None
    return place


@pytest.fixture
def run(trained, tmp_path):
    """A trained text run without an exported step."""
    return shutil.copytree(trained / "plain", tmp_path / "run")


@pytest.fixture
def with_step(trained, tmp_path):
    return shutil.copytree(trained / "stepped", tmp_path / "run")


def test_a_run_writes_the_same_text_by_either_engine_and_saves_the_same_position(with_step, tmp_path):
    texts = {}
    for engine in ("torch", "onnxruntime"):
        model = recollect.load(with_step, engine=engine)
        assert model.engine.startswith(engine)
        state = str(tmp_path / f"{engine}.state")
        texts[engine] = "".join(model.generate("the cat", length=30, seed=5, top_p=0.9, state_out=state))
    assert texts["torch"] == texts["onnxruntime"]
    assert texts["torch"].startswith("the cat")
    crossed = [
        "".join(recollect.load(with_step, engine=engine).generate(length=10, seed=5, state_in=str(tmp_path / name)))
        for engine, name in (("torch", "onnxruntime.state"), ("onnxruntime", "torch.state"))
    ]
    assert crossed[0] == crossed[1]


def test_scores_agree_with_the_models_own_and_sum_up(with_step):
    text = "the cat sat on a mat"
    by = {engine: recollect.load(with_step, engine=engine).score(text) for engine in ("torch", "onnxruntime")}
    assert by["torch"].nats == pytest.approx(by["onnxruntime"].nats, rel=1e-5)
    for score in by.values():
        assert sum(nats for _, nats in score.by_token) == pytest.approx(score.nats)
        assert score.tokens == len(text) - 1
        assert score.perplexity == pytest.approx(np.exp(score.nats / score.tokens))


@pytest.mark.parametrize("engine", ["torch", "onnxruntime"])
def test_a_step_goes_on_from_its_state_and_can_be_forked(with_step, engine):
    model = recollect.load(with_step, engine=engine)
    first, state = model.step(3)
    kept = state.copy()
    one, _ = model.step(4, state)
    other, _ = model.step(5, kept.copy())
    again, _ = model.step(4, kept)
    assert first.shape == one.shape == (1, model.tokenizer.size)
    assert np.array_equal(one, again)
    assert not np.allclose(one, other)
    batch, _ = model.step([3, 3])
    assert np.allclose(batch, np.repeat(first, 2, axis=0), atol=1e-5)


def test_a_state_is_used_once_by_the_exported_step(with_step):
    model = recollect.load(with_step)
    _, state = model.step(3)
    model.step(4, state)
    with pytest.raises(RecollectError, match=r"found a used one; keep a copy\(\) of it"):
        model.step(4, state)


def test_a_run_with_an_exported_step_writes_without_torch(with_step):
    code = (
        "import sys, recollect\n"
        f"model = recollect.load({str(with_step)!r})\n"
        "text = ''.join(model.generate('the ', length=5))\n"
        "model.score('the cat'), model.next_tokens('the ')\n"
        "assert text.startswith('the '), text\n"
        "print('torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "False"


def test_a_step_of_other_weights_is_not_used(with_step):
    model = recollect.load(with_step, engine="torch").module
    with torch.no_grad():
        next(model.parameters()).add_(1)
    from recollect.training import checkpoint

    path = RunFolder.open(with_step).model_path
    checkpoint.write_tensors(path, checkpoint.weights(model), {})
    assert recollect.load(with_step).engine == "torch on cpu"


def test_a_step_with_one_bit_changed_is_refused(with_step):
    file = with_step / "step" / "step.onnx"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(RecollectError, match="found an altered one"):
        recollect.load(with_step).step(3)


def test_a_step_is_made_where_it_pays_and_only_there(run, monkeypatch):
    "".join(recollect.load(run).generate("the ", length=8))
    assert not (run / "step").exists()
    monkeypatch.setattr(steps, "WORTH", 8)
    model = recollect.load(run)
    "".join(model.generate("the ", length=8))
    assert (run / "step" / "manifest.json").exists()
    assert model.engine.startswith("onnxruntime")


def test_models_without_a_step_run_by_their_own_call_and_say_so(book, tmp_path):
    runs.train(TextTask, tiny.configure(book, "ngram"), str(tmp_path / "ngram"))
    model = recollect.load(tmp_path / "ngram")
    assert "".join(model.generate("the ", length=8_000, greedy=True)).startswith("the ")
    assert model.engine == "torch on cpu"
    with pytest.raises(RecollectError, match="expected a model whose step can be exported, found ngram"):
        recollect.load(tmp_path / "ngram", engine="onnxruntime").step(1)


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_rounded_weights_are_exported_once_and_write(run, precision):
    model = recollect.load(run)
    text = "".join(model.generate("the ", length=20, greedy=True, precision=precision))
    assert text.startswith("the ")
    assert (run / f"step-{precision}" / "manifest.json").exists()
    with pytest.raises(RecollectError, match="expected float32 with exact"):
        model.generate("the ", precision=precision, exact=True)


def test_nothing_is_written_into_a_run_that_ships():
    before = sorted(SHIPPED.rglob("*"))
    "".join(recollect.load("demo-text").generate("A", length=3, precision="float16"))
    assert sorted(SHIPPED.rglob("*")) == before


def test_an_exported_folder_is_loaded_without_the_run(run, tmp_path, monkeypatch):
    export(runs.load(run), tmp_path / "exported")
    whole = recollect.load(run, engine="torch")
    text = "".join(whole.generate("the ", length=20, seed=2))
    score = whole.score("the cat").nats
    shutil.rmtree(run)
    model = recollect.load(tmp_path / "exported")
    assert (model.task, model.model) == ("text", whole.model)
    assert "".join(model.generate("the ", length=20, seed=2)) == text
    assert model.score("the cat").nats == pytest.approx(score, rel=1e-5)
    monkeypatch.setattr("recollect.tasks.text.use.STEPWISE", 3)  # long texts, which a run reads in chunks
    assert "".join(model.generate("the ", length=20, seed=2)) == text
    assert model.score("the cat").nats == pytest.approx(score, rel=1e-5)
    with pytest.raises(RecollectError, match="load the run that it was exported from"):
        model.evaluate()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: recollect.load("no-such-run"), "expected a run folder, found nothing; with the package come"),
        (lambda: recollect.load("demo-text", engine="fast"), "expected one of auto, torch, onnxruntime"),
        (lambda: recollect.load("demo-text", device="tpu"), "expected a device of this machine, found 'tpu'"),
        (lambda: recollect.load("demo-text", device="cuda", engine="onnxruntime"), "with device='cpu'"),
        (lambda: recollect.load("demo-text").score("a"), "at least two tokens, found 1"),
        (lambda: recollect.load("demo-text").step("a"), "expected token numbers"),
        (lambda: recollect.load("demo-text").step(1.5), "expected token numbers"),
        (lambda: recollect.load("demo-text").step([[1]]), "expected one number a row"),
        (lambda: recollect.load("demo-text").generate([1]), "expected prompts and stops that are texts"),
        (lambda: recollect.load("demo-text").generate("a", precision="bf16"), "expected one of float32, float16, int8"),
        (lambda: recollect.load("demo-text").generate("a", temperature=0), "temperature above 0"),
        (
            lambda: recollect.load("demo-translation").translate("one", bean=3),
            "an option of translate out of beam",
        ),
        (lambda: recollect.load("demo-series").forecast([1, 2]), "at least 22 rows"),
        (lambda: recollect.load("demo-series").forecast({"a": [1, 2], "b": [1]}), "columns of one length"),
        (lambda: recollect.load("demo-series").forecast("sunspots", horizon=0), "at least 1"),
        (lambda: recollect.load("demo-captions").caption("nothing.png"), "expected a picture, found"),
        (lambda: recollect.load("demo-captions").caption(3), "expected"),
    ],
)
def test_bad_input_is_one_line_of_our_own_error(call, words):
    with pytest.raises(RecollectError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_model_says_what_it_can_do():
    assert repr(recollect.load("demo-text")).endswith("generate, score, next_tokens, explain, step, evaluate, verify>")
    model = recollect.load("demo-series")
    assert (model.task, model.path) == ("series", SHIPPED / "demo-series")
    assert model.settings["series"]["horizon"] > 0
    assert json.dumps(dict(model.settings))


def test_translations_come_with_alignments_and_by_either_engine():
    model = recollect.load("demo-translation")
    one = model.translate("twenty-one", alignments=True, nbest=2, beam=3)
    assert one.alignment.shape == (len(one.target_tokens), len(one.source_tokens))
    assert np.allclose(one.alignment.sum(axis=1), 1, atol=1e-5)
    assert len(one.texts) == 2
    assert one.scores[0] >= one.scores[1]
    assert [str(each) for each in model.translate(["twenty-one", "", "five"])] == [
        str(model.translate("twenty-one")),
        "",
        str(model.translate("five")),
    ]
    assert set(model.explain("five")) >= {"mean"}


def test_a_forecast_is_the_same_from_a_file_an_array_and_columns():
    model = recollect.load("demo-series")
    known = model.forecast("sunspots", 4)
    values = known.history.values
    (name,) = model.columns
    for table in (values, values[:, 0], values[:, 0].tolist(), {name: values[:, 0]}, torch.from_numpy(values)):
        found = model.forecast(table, 4)
        assert np.array_equal(found.mean, known.mean)
        assert np.array_equal(found.lower, known.lower)
    dated = model.forecast({"year": range(1700, 1700 + len(values)), name: values[:, 0]}, 4)
    assert dated.times == known.times
    assert list(known.to_dict()) == ["time", "series", "mean", "lower", "upper", "how"]


def test_a_caption_of_an_array_comes_with_its_gaze():
    image = np.full((48, 48, 3), 255, np.uint8)
    image[8:30, 8:30] = [200, 30, 30]
    model = recollect.load("demo-captions")
    found = model.caption(image, gaze=True)
    assert found.gaze.shape[0] == len(found.words)
    assert np.allclose(found.gaze.sum(axis=(1, 2)), 1, atol=1e-4)
    assert [each.text for each in model.caption([image, image])] == [found.text] * 2


def test_a_missing_value_of_a_single_column_stays_a_row():
    model = recollect.load("demo-series")
    spots = [*np.sin(np.arange(100) / 4), float("nan"), float("nan"), 1.0, 2.0]
    assert len(model.open(spots).values) == 104
    assert [row.how for row in model.fill(spots)] == ["interpolated"] * 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: recollect.load(""), "expected a run folder, found an empty name"),
        (lambda: recollect.build("lstm", dim=10**9), "layer: lstm: expected at most .* lower dim or width"),
        (lambda: recollect.layers.GRU(dim=10**9), "GRU: expected at most .* lower dim or width"),
        (lambda: list(demo("text").generate(state_in="/nope")), "/nope: expected a state .*, found no file there"),
        (lambda: demo("text").generate("a", temprature=1), "found 'temprature'; did you mean 'temperature'"),
        (lambda: demo("series").explain("a"), "expected a model of text or translation, found one of series"),
        (lambda: demo("captions").explain("a"), "expected a model of text or translation, found one of captions"),
    ],
)
def test_what_cannot_be_had_is_one_line_of_our_own(call, words):
    with pytest.raises(RecollectError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def demo(task):
    return recollect.load(f"demo-{task}")


def test_options_of_generate_that_a_suggestion_names_are_those_that_it_has():
    taken = [name for name in inspect.signature(TextModel.generate).parameters if name not in ("self", "others")]
    assert tuple(taken) == OPTIONS


def test_a_state_is_not_written_over_a_fifo(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RecollectError, match="pipe: expected the name of a regular file to write, found a FIFO"):
        list(demo("text").generate("a", length=1, state_out=str(tmp_path / "pipe")))


def test_a_step_of_an_older_version_beside_a_run_is_refused_with_what_to_remove(tmp_path):
    """Its manifest has no seal; once the folder is gone the run works."""
    place = tmp_path / "run"
    shutil.copytree(SHIPPED / "demo-text", place)
    manifest = place / "step" / "manifest.json"
    content = json.loads(manifest.read_text(encoding="utf-8"))
    del content["sha256"]
    manifest.write_text(json.dumps(content), encoding="utf-8")
    words = f"found an altered one; remove the folder {re.escape(str(manifest.parent))}, which is made again"
    with pytest.raises(RecollectError, match=words):
        "".join(recollect.load(place).generate("K", length=2))
    shutil.rmtree(manifest.parent)
    assert "".join(recollect.load(place).generate("K", length=2)).startswith("K")
