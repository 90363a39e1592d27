"""Runs of translation: settings, the choice of a checkpoint, measurements."""

from dataclasses import dataclass, replace

import pytest
import torch

from recollect import layers, tasks
from recollect.core.settings import SettingError
from recollect.decode import beam, translate
from recollect.layers import rnn
from recollect.racing.terms import accepted
from recollect.tasks.decoding import greedy_settings, search_settings
from recollect.tasks.translation.heat import TRANSLATION
from recollect.tasks.translation.settings import Config
from recollect.tasks.translation.task import TranslationTask
from recollect.training import checkpoint, evaluation
from recollect.training import run as runs
from recollect.training.folder import RunFolder
from tasks.cases import TRAIN, VALID, table
from tasks.translation.cases import configure


def test_the_search_is_what_the_settings_say():
    config = Config(beam=3, length_penalty=0.2, coverage=0.1, ratio=1.5, extra=4)
    assert search_settings(config) == beam.Config(beam=3, length_penalty=0.2, coverage=0.1, ratio=1.5, extra=4)
    assert search_settings(config, nbest=2, beam=7) == replace(search_settings(config), nbest=2, beam=7)
    assert greedy_settings(config) == beam.Config(beam=1, length_penalty=0.0, coverage=0.0, ratio=1.5, extra=4)


@dataclass(frozen=True, kw_only=True)
class Own(rnn.Config):
    """A layer from outside."""

    gain: float = 1.0


@pytest.mark.parametrize(("model", "settings"), [("own", {"gain": 2.0}), ("fixed", {"encoder": "own"})])
def test_a_layer_from_outside_is_trained_and_used(tmp_path, monkeypatch, model, settings):
    monkeypatch.setitem(layers.LAYERS, "own", Own)
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    files = [table(tmp_path / f"{name}.tsv", rows) for name, rows in (("train", TRAIN * 2), ("valid", VALID))]
    runs.train(TranslationTask, configure(files, model, steps=2, **settings), str(tmp_path / "run"))
    run = runs.load(tmp_path / "run")
    assert run.config.model["layer"] == ({"gain": 2.0} if model == "own" else {})
    ((_, _, best),) = translate.lines(run.model, *run.artifacts, ["the cat"], search_settings(run.config.task))
    assert best


HOSTILE = {
    "smoothing": ({"smoothing": 1}, r"expected smoothing in \[0, 1\), found 1"),
    "sampling": ({"sampling": -0.1}, r"expected sampling in \[0, 1\), found -0.1"),
    "beam": ({"beam": 0}, "expected beam to be a whole number of at least 1, found 0"),
    "ratio": ({"ratio": -1}, "expected ratio of at least 0, found -1"),
    "choose": ({"choose": "belu"}, "choose: expected one of nats, bleu, found 'belu'; did you mean 'bleu'"),
    "batch": ({"batch": 0}, "expected batch to be a whole number of at least 1, found 0"),
    "misspelt": ({"smothing": 0.1}, "smoothing"),
    "keep": ({"keep": 0}, "expected keep to be"),
    "eval_sentences": ({"eval_sentences": 0}, "expected eval_sentences to be"),
    "heads": ({"model": "transformer", "width": 9}, "expected heads to divide width 9, found 2 heads"),
    "gist": ({"model": "context", "gist": "state"}, "gist=last or gist=mean, found gist=state"),
    "share": ({"share": "all"}, "share=all needs one vocabulary, found .* use a joint tokenizer"),
    "embed": ({"model": "transformer", "embed": 4}, "transformer keeps one width, found embed 4 and width 8"),
    "kernel": ({"model": "conv", "kernel": 2}, "expected an odd kernel"),
    "local": ({"alignment": "local"}, "alignment 'local' needs a window"),
    "rotary": ({"model": "transformer", "width": 6, "positions": "rotary"}, "rotary positions need an even head width"),
    "model": ({"model": "lstm"}, "expected a model out of fixed, context, attend, conv, transformer, found 'lstm'"),
    "longest": ({"longest": 0}, "longest"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_setting_that_cannot_be_meant_is_one_line(files, tmp_path, name):
    settings, message = HOSTILE[name]
    settings = dict(settings)
    model = settings.pop("model", "attend")
    with pytest.raises(ValueError, match=message) as caught:
        runs.train(TranslationTask, configure(files, model, **settings), str(tmp_path / "run"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_what_is_held_out_and_which_tables_are_shared_are_two_settings(files, tmp_path):
    run = runs.configure(
        TranslationTask, {"held_out": "0.4", "share": "none"}, model="attend", data=files[:1], tokenizer="words"
    )
    assert (run.data.held_out, run.model["share"]) == (0.4, "none")
    assert len(TranslationTask.load_data(run.data, None).valid) > len(
        TranslationTask.load_data(replace(run.data, held_out=0.2), None).valid
    )


def test_bleu_chooses_the_checkpoint_where_bleu_is_asked_to(files, tmp_path, monkeypatch):
    asked, values = [], [10.0, 30.0, 20.0]

    def translated(self, model, split, search, count=None):
        asked.append((split, search, count))
        return {"bleu": values[len(asked) - 1] if len(asked) <= len(values) else 5.0}

    monkeypatch.setattr(TranslationTask, "translated", translated)
    run = configure(files, choose="bleu", eval_sentences=3, steps=12, beam=7)
    found = runs.train(TranslationTask, run, str(tmp_path / "run"))
    note = checkpoint.read_tensors(RunFolder(tmp_path / "run").best)[1]
    assert note["spent"]["step"] == 8
    assert note["valid"] == -30.0
    assert asked[0] == ("valid", greedy_settings(run.task), 3)
    assert found["bleu"] == 5.0
    assert TranslationTask.headline(found).endswith("BLEU 5.00 (greedy)")
    losses = [row["valid"] for row in RunFolder(tmp_path / "run").metrics() if "valid" in row]
    assert losses == [-10.0, -30.0, -20.0]


def test_the_loss_chooses_otherwise_and_nothing_is_translated(files, tmp_path, monkeypatch):
    monkeypatch.setattr(TranslationTask, "translated", None)
    runs.train(TranslationTask, configure(files, steps=4), str(tmp_path / "run"))


def test_kept_weights_are_averaged_and_taken_where_that_is_best(files, tmp_path, monkeypatch):
    values = iter([5.0, 4.0, 4.5, 4.4, 3.0, 3.0])
    monkeypatch.setattr(TranslationTask, "evaluate", lambda *_: {"nats_per_token": next(values)})
    runs.train(TranslationTask, configure(files, steps=12, eval_every=3, keep=3), str(tmp_path / "run"))
    folder = RunFolder(tmp_path / "run")
    assert folder.snapshot_steps(12) == [6, 9, 12]
    kept = [checkpoint.read_tensors(folder.snapshot(step))[0] for step in (6, 9, 12)]
    mean = checkpoint.read_tensors(folder.model_path)[0]
    for name, tensor in mean.items():
        torch.testing.assert_close(tensor, sum(each[name] for each in kept) / 3)
    assert any(not torch.equal(mean[name], kept[-1][name]) for name in mean)


def test_the_settings_of_a_measurement_reach_the_search(files, tmp_path):
    runs.train(TranslationTask, configure(files, steps=2, beam=3), str(tmp_path / "run"))
    plain = evaluation.evaluate(str(tmp_path / "run"), split="valid")
    other = evaluation.evaluate(str(tmp_path / "run"), split="valid", search={"beam": 1, "length_penalty": 0.0})
    assert plain["translated"]["search"] == "beam 3, length penalty 0.6, coverage 0.0"
    assert other["translated"]["search"] == "beam 1, length penalty 0.0, coverage 0.0"
    assert plain["metric"]["rule"].startswith("lowercased, beam 3")
    columns, rows, below = TranslationTask.table(plain)
    assert len(columns) == len(rows[0])
    assert any("having read its own text" in line for line in below)


def test_a_run_is_measured_on_other_pairs_with_its_own_vocabulary(files, tmp_path):
    runs.train(TranslationTask, configure(files, steps=2), str(tmp_path / "run"))
    other = table(tmp_path / "other.tsv", [*VALID[:2], ("the elephant", "l'éléphant")])
    found = evaluation.evaluate(str(tmp_path / "run"), split="test", data=[other])
    assert found["translated"]["sentences"] == 3
    assert found["forced"]["tokens"] == 6 + 3 + 2


def translated(model, data, texts, **how):
    search = how.pop("search", beam.Config(beam=2, extra=4))
    found = list(translate.lines(model, data.source, data.target, texts, search, **how))
    return [text for text, _, _ in found], [[h.tokens for h in best] for _, _, best in found]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A small trained run: a transformer of two layers with two heads each."""
    folder = tmp_path_factory.mktemp("run")
    files = [table(folder / f"{name}.tsv", rows) for name, rows in (("train", TRAIN * 2), ("valid", VALID))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_CACHE", str(folder / "cache"))
        torch.set_num_threads(1)
        runs.train(TranslationTask, configure(files, "transformer", steps=30, layers=2, lr=0.01), str(folder / "run"))
    return folder / "run"


@pytest.mark.parametrize("task", ["translation", "captions"])
@pytest.mark.parametrize("model", ["conv", "transformer"])
def test_a_model_without_cells_refuses_one(task, model):
    with pytest.raises(SettingError, match=f"cell: expected it with fixed, context, attend, found it with {model}"):
        runs.configure(tasks.find(task), {"cell": "gru"}, model=model)
    runs.configure(tasks.find(task), {"cell": "gru"}, model="attend")


def test_a_race_gives_cells_to_those_that_have_them():
    assert accepted(TRANSLATION, "attend", {"cell": "lstm"}) == {"cell": "lstm"}
    assert accepted(TRANSLATION, "transformer", {"cell": "lstm"}) == {}
