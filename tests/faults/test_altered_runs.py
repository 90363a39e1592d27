"""Runs and states whose files were altered by hand: each is one line, through the command line."""

import json
import shutil

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import tiny
from recollect import tasks
from recollect.training import run as runs
from tasks import cases
from tiny import invoke

SMALL = ["--width", 8, "--context", 12, "--batch", 4, "--steps", 6, "--device", "cpu"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a recurrent run, a Transformer, and a saved state of each."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_CACHE", str(folder / "cache"))
        (folder / "book.txt").write_text(tiny.prose())
        for model, heads in (("lstm", []), ("transformer", ["--set", "heads=2"])):
            words = ["--data", folder / "book.txt", "--model", model, *heads, "--set", "save_every=3"]
            assert invoke("train", "text", *words, *SMALL, "--out", folder / model).exit_code == 0
            state = folder / f"{model}.safetensors"
            assert invoke("generate", folder / model, "--length", 5, "--state-out", state).exit_code == 0
    return folder


def rewrite(path, change=lambda tensors: None, note=None):
    """Alter the tensors of a safetensors file, and its note."""
    with safe_open(path, framework="pt") as file:
        about = file.metadata()
    tensors = load_file(path)
    change(tensors)
    if note is not None:
        about = {"recollect": json.dumps(json.loads(about["recollect"]) | note)}
    save_file({name: tensor.contiguous().clone() for name, tensor in tensors.items()}, path, metadata=about)


def copy_of(made, model, tmp_path):
    shutil.copytree(made / model, tmp_path / "run")
    return tmp_path / "run"


def refusal(*words):
    """The line with which a command refuses."""
    result = invoke(*words)
    assert isinstance(result.exception, ValueError), result.output
    line = str(result.exception)
    assert "\n" not in line
    assert len(line) < 1_000
    return line


MOMENT = "optimizer.0.exp_avg"
TENSORS = {  # what becomes of a moment of the optimiser
    "wider": lambda moment: torch.cat([moment, moment], 1),
    "transposed": lambda moment: moment.T,
    "flat": lambda moment: moment.flatten(),
    "a number": lambda moment: moment.sum(),
    "empty": lambda moment: moment[:0],
    "double": lambda moment: moment.double(),
    "whole numbers": lambda moment: moment.int(),
    "large": lambda moment: torch.zeros(2000, 2000),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_a_moment_of_another_shape_or_type_is_refused_before_it_is_used(made, tmp_path, kind):
    """Handed to the optimiser as it is, one of another shape ends in an abort of the process."""
    run = copy_of(made, "lstm", tmp_path)
    last = run / "checkpoints" / "last.safetensors"
    rewrite(last, lambda tensors: tensors.update({MOMENT: TENSORS[kind](tensors[MOMENT])}))
    line = refusal("train", "text", "--resume", "--out", run, "--steps", 9, "--device", "cpu")
    assert "expected a checkpoint of this run, its optimiser's state, 0.exp_avg as float32 of (32, 8), found" in line


NAMES = {
    "another index": lambda tensors: tensors.update({"optimizer.90.exp_avg": tensors.pop(MOMENT)}),
    "no index": lambda tensors: tensors.update({"optimizer.x.exp_avg": tensors.pop(MOMENT)}),
    "one missing": lambda tensors: tensors.pop(MOMENT),
    "an unknown part": lambda tensors: tensors.update({"other.0": torch.zeros(2)}),
    "a step below 0": lambda tensors: tensors["optimizer.0.step"].fill_(-5),
    "a cut generator": lambda tensors: tensors.update({"rng.cpu": tensors["rng.cpu"][:10]}),
    "no generator": lambda tensors: tensors["rng.cpu"].fill_(255),
}


@pytest.mark.parametrize("kind", NAMES)
def test_tensors_that_are_not_those_of_the_run_are_refused(made, tmp_path, kind):
    run = copy_of(made, "lstm", tmp_path)
    rewrite(run / "checkpoints" / "last.safetensors", NAMES[kind])
    line = refusal("train", "text", "--resume", "--out", run, "--steps", 9, "--device", "cpu")
    assert "last.safetensors: expected a checkpoint of this run" in line


NOTES = {
    "a text for numbers": {"spent": "x"},
    "no best": {"best": float("nan")},
    "a best that is a text": {"best": "Infinity"},
    "no schedule": {"schedule": None},
    "a schedule of lists": {"schedule": {"x": [[[]]]}},
    "too many digits": {"since_best": 10**400},
    "below 0": {"since_best": -1},
}


@pytest.mark.parametrize("kind", NOTES)
def test_a_note_of_other_types_is_refused(made, tmp_path, kind):
    run = copy_of(made, "lstm", tmp_path)
    rewrite(run / "checkpoints" / "last.safetensors", note=NOTES[kind])
    line = refusal("train", "text", "--resume", "--out", run, "--steps", 9, "--device", "cpu")
    assert "last.safetensors: expected a checkpoint of this run, found another note" in line


STATES = {  # model, tensor, what becomes of it
    "rows that disagree": ("lstm", "0", lambda scores: torch.cat([scores, scores])),
    "no rows": ("lstm", "0", lambda scores: scores[:0]),
    "no scores": ("lstm", "0", lambda scores: scores[:, :0]),
    "scores of another type": ("lstm", "0", lambda scores: scores.long()),
    "scores that are none": ("lstm", "0", lambda scores: scores * float("nan")),
    "no tokens": ("lstm", "2", lambda written: written[:, :0]),
    "a token beyond the vocabulary": ("lstm", "2", lambda written: written + 10**6),
    "narrow cells": ("lstm", "1.0.c", lambda cells: cells[..., :1]),
    "a clock below 0": ("transformer", "1.0.clock", lambda clock: -clock),
    "a clock ahead": ("transformer", "1.0.clock", lambda clock: clock + 10**9),
    "clocks for more rows": ("transformer", "1.0.clock", lambda clock: torch.cat([clock] * 9)),
    "keys of more steps than values": ("transformer", "1.0.keys", lambda keys: torch.cat([keys] * 9, 1)),
    "narrow values": ("transformer", "1.0.values", lambda values: values[..., :1]),
}


@pytest.mark.parametrize("kind", STATES)
def test_a_state_that_disagrees_with_its_layer_or_itself_is_refused(made, tmp_path, kind):
    model, name, change = STATES[kind]
    state = tmp_path / "state"
    shutil.copy(made / f"{model}.safetensors", state)
    rewrite(state, lambda tensors: tensors.update({name: change(tensors[name])}))
    assert refusal("generate", made / model, "--length", 5, "--state-in", state).startswith(f"{state}: expected ")


@pytest.mark.parametrize("place", ["/dev/zero", "/dev/null", "/proc/self/mem", "."])
def test_a_state_that_is_no_file_is_refused(made, place):
    line = refusal("generate", made / "lstm", "--length", 5, "--state-in", place)
    assert line.startswith(f"{place}: expected ")


CONFIGS = {
    "a width of 10^12": (("model", "width"), 10**12, "memory that are free, found more than 10^24"),
    "10^12 layers": (("model", "layers"), 10**12, "model.layers: expected a whole number of at most 1,000"),
    "10^12 heads": (("model", "heads"), 10**12, "expected heads to divide dim 8"),
    "no width": (("model", "width"), None, "model.width: expected a whole number, found null"),
    "half a width": (("model", "width"), 8.5, "model.width: expected a whole number, found 8.5"),
    "a list for a name": (("model", "name"), ["lstm"], 'model.name: expected a string, found ["lstm"]'),
    "a list of lists of files": (("data", "data"), [["a"]], "data.data[0]: expected a string"),
    "a seed of 30 digits": (("train", "seed"), 10**30, "train.seed: expected a whole number of at most"),
    "a name of a megabyte": (("model", "x" * 10**6), 1, "expected"),
}


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_config_of_other_types_or_absurd_sizes_is_refused(made, tmp_path, kind):
    keys, value, words = CONFIGS[kind]
    run = copy_of(made, "transformer", tmp_path)
    content = json.loads((run / "config.json").read_text())
    content[keys[0]][keys[1]] = value
    (run / "config.json").write_text(json.dumps(content))
    assert words in refusal("generate", run, "--length", 5)


LOST_DATA = {  # task, the case of its run, what becomes of the data in config.json, how many rows that would generate
    "all settings of scenes": ("captions", "attend", lambda data: data.clear(), "24", "12,000"),
    "the number of scenes": ("captions", "attend", lambda data: data.pop("count"), "24", "12,000"),
    "more scenes": ("captions", "attend", lambda data: data.update(count=24_000), "24", "24,000"),
    "the folder of pictures": ("captions", "fixed, photos", lambda data: data.update(data=[]), None, "24"),
    "the files of pairs": ("translation", "attend", lambda data: data.pop("data"), None, "20,000"),
    "more ratings": ("ratings", "dot", lambda data: data.update(ratings=110_000), "400", "110,000"),
}


@pytest.mark.parametrize("kind", LOST_DATA)
def test_settings_that_would_generate_other_data_than_in_training_are_refused_before_they_do(
    tmp_path, monkeypatch, kind
):
    """An evaluation then costs what the run's own data cost, and not what defaults or altered counts do."""
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    task, label, change, before, now = LOST_DATA[kind]
    cases.write_data(tmp_path)
    run = tmp_path / "run"
    runs.train(tasks.find(task), cases.configure(tmp_path, task, label), str(run))
    assert invoke("eval", run, "--device", "cpu").exit_code == 0
    content = json.loads((run / "config.json").read_text())
    change(content["data"])
    (run / "config.json").write_text(json.dumps(content))
    expected = "data from files" if before is None else f"{before} generated rows"
    words = f"data: expected {expected} as in training, found the settings of {now} generated rows"
    assert words in refusal("eval", run, "--device", "cpu")
    del content["generated"]  # as runs of earlier versions
    (run / "config.json").write_text(json.dumps(content))
    assert runs.load(run).kind.name == task


@pytest.mark.parametrize("model", ["lstm", "transformer"])
def test_laws_that_weights_without_numbers_break_are_a_result(made, tmp_path, model):
    run = copy_of(made, model, tmp_path)
    rewrite(run / "model.safetensors", lambda tensors: [weights.fill_(float("nan")) for weights in tensors.values()])
    result = invoke("verify", run)
    assert "BROKEN  Chunk law broken" in result.stdout
    assert "expected every law to hold, found" in str(result.exception)


@pytest.mark.parametrize("vocab", ["1000000000", "1e30", "1e999", "nan", "-5", "0", "1.5"])
def test_a_vocabulary_that_cannot_be_is_refused(made, tmp_path, vocab):
    words = ["--tokenizer", "bpe", "--vocab", vocab, "--out", tmp_path / "run"]
    assert "vocab" in refusal("train", "text", "--data", made / "book.txt", *SMALL, *words)
