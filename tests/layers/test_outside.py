"""Layers from outside the package: registered by a call or by a file, trained, checked and raced by their name."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace

import pytest
import torch

from recollect import build, layers, tasks
from recollect.core.contract import Config as BaseConfig
from recollect.core.contract import ContractError
from recollect.layers import outside, rnn
from recollect.models import language
from recollect.models.body import kind_of
from recollect.race import evidence, run
from recollect.race.heats import heats
from recollect.race.terms import Terms, with_models
from recollect.tasks.series import model as forecaster
from recollect.train import run as training

FILE = '''"""A layer of one's own.

STATE   h
UPDATE  that of an RNN
READ    h
GROWS   no
FAST    as the RNN
"""

from dataclasses import dataclass

from recollect.layers import rnn


@dataclass(frozen=True, kw_only=True)
class Config(rnn.Config):
    gain: float = 1.0
'''


@dataclass(frozen=True, kw_only=True)
class Own(rnn.Config):
    gain: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Fixed(BaseConfig):
    """It has no width."""


@pytest.fixture(autouse=True)
def _registry():
    before = dict(layers.LAYERS)
    yield
    layers.LAYERS.clear()
    layers.LAYERS.update(before)


def test_a_layer_that_was_added_is_built_by_its_name():
    layers.add("own", Own)
    assert build("own", dim=4, gain=2.0).width == 4
    with pytest.raises(ContractError, match="setting of own out of .*gain"):
        build("own", dim=4, gian=2.0)
    layers.add("own", rnn.Config)  # a cell of a notebook is run again
    assert layers.LAYERS["own"] is rnn.Config


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [("lstm", Own, "found 'lstm', which is taken"), ("own", dict, "expected a subclass of contract.Config for 'own'")],
)
def test_a_name_that_is_taken_and_what_is_no_config_are_refused(name, config, message):
    before = dict(layers.LAYERS)
    with pytest.raises(ContractError, match=message):
        layers.add(name, config)
    assert before == layers.LAYERS


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("recall", {"length": "8", "load": "2", "vocab": "12", "eval_rows": "10"}),
        ("adding", {"length": "8", "eval_rows": "10"}),
        ("series", {"lookback": "8", "horizon": "2"}),
    ],
)
def test_an_added_layer_is_trained_measured_and_verified_by_its_name(task, settings, tmp_path):
    layers.add("own", Own)
    kind, out = tasks.find(task), str(tmp_path / "run")
    texts = settings | {"steps": "2", "batch": "4", "layers": "1", "gain": "3"}
    training.train(kind, training.configure(kind, texts, model="own"), out, params=2_000)
    used = training.load(out)
    assert used.config.model["layer"] == {"gain": 3.0}
    assert sum(p.numel() for p in used.model.parameters()) == pytest.approx(2_000, rel=0.1)
    assert training.evaluate(out, split="valid")["metric"]["value"] >= 0
    assert max(training.verify(out).values()) < 1e-10
    del layers.LAYERS["own"]
    with pytest.raises(ContractError, match=r"\(or a layer that RECOLLECT_LAYERS names\) out of .*found 'own'"):
        training.load(out)


def test_a_layer_of_the_registry_is_the_model_that_its_stack_is():
    layers.add("own", Own)
    for settings in ({}, {"block": "residual", "taps": 2}):
        made = []
        for model in ("own", "rnn"):
            torch.manual_seed(0)
            made.append(language.Config(model=model, vocab=7, width=8, **settings).build().double().eval())
        x = torch.randint(7, (2, 5))
        assert torch.equal(made[0](x, made[0].initial_state(2))[0], made[1](x, made[1].initial_state(2))[0])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("norm", "whose Config has a width, found 'norm' without"),
        ("fixed-width", "whose Config has a width, found 'fixed-width' without"),
        ("cross-attention", "reads its input alone, found 'cross-attention', which reads a source"),
        ("tcn", "expected one 'tcn', found the lineage's and a layer of that name"),
        ("lstn", "out of .*, found 'lstn'; did you mean 'lstm'"),
    ],
)
def test_what_cannot_be_stacked_is_one_line(name, message):
    layers.LAYERS |= {"fixed-width": Fixed, "tcn": Own}
    for refuse in (kind_of, lambda model: training.configure(tasks.find("text"), {}, model=model)):
        with pytest.raises(ContractError, match=message) as caught:
            refuse(name)
        assert "\n" not in str(caught.value)


def test_a_layer_is_given_the_heads_of_its_model():
    kind = kind_of("attention")
    assert kind.heads
    assert forecaster.Config(model="attention", heads=3).grain == 6
    assert language.Config(model="linear-attention", vocab=5, heads=2, width=8).build().body.layers[0].config.heads == 2


def test_tasks_without_stacks_take_their_own_models_alone():
    layers.add("own", Own)
    for task in ("translation", "captions", "ratings"):
        with pytest.raises(ContractError, match="expected a model out of .*found 'own'"):
            training.configure(tasks.find(task), {}, model="own")


def test_an_added_layer_enters_a_race_and_has_its_card(tmp_path, monkeypatch):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    monkeypatch.setenv(outside.VARIABLE, str(path))
    ((name, config),) = outside.found()
    layers.add(name, config)
    settings = {"length": "8", "load": "2", "vocab": "12", "batch": "4", "eval_rows": "20", "lr": "1e-3"}
    heat = replace(with_models(heats()["recall"], ["rnn", "mine"]), params=1_500, steps=4, settings=settings)
    rows = run.run([heat], Terms(search=0), tmp_path / "out", title="a race", command="recollect race", jobs=1)
    first, second = sorted(rows, key=lambda row: row["model"])
    assert (first["model"], second["model"]) == ("mine", "rnn")
    assert first["metric"] == second["metric"], "the same weights, the same data"
    assert evidence.layer_card(training.load(tmp_path / "out/runs/recall-mine-0"))["update"] == "that of an RNN"


def test_a_layer_that_says_nothing_of_itself_has_an_empty_card(monkeypatch):
    layers.add("own", Own)
    monkeypatch.setattr(sys.modules[__name__], "__doc__", None)
    assert layers.card("own") == ("own", "", "", "", "", "", "")


# ------------------------------------------------------------------------------------------------ files


def command(*words, named, cwd):
    environment = os.environ | {outside.VARIABLE: named, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "recollect.cli", *words],
        cwd=cwd, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_a_file_is_a_layer_on_the_command_line(tmp_path):
    (tmp_path / "my_own.py").write_text(FILE)
    (tmp_path / "other.py").write_text(FILE)
    flags = ("--set", "length=8", "--set", "load=2", "--set", "eval_rows=10", "--width", "8", "--steps", "2")
    both = f"my_own.py{os.pathsep}other.py"
    done = command("train", "recall", "--model", "my-own", *flags, "--out", "run", named=both, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run/config.json").read_text())["model"]["name"] == "my-own"
    assert command("eval", "run", named="my_own.py", cwd=tmp_path).returncode == 0
    without = command("eval", "run", named="", cwd=tmp_path)
    assert without.returncode == 1
    assert "or a layer that RECOLLECT_LAYERS names" in without.stderr
    missing = command("eval", "run", named="my-own.py", cwd=tmp_path)
    assert missing.stderr.startswith("recollect: RECOLLECT_LAYERS: expected Python files")
    assert missing.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("mine.txt", FILE, "expected Python files with ':' between, found none at .*mine.txt"),
        ("mine.py", None, "expected Python files with ':' between, found none at .*mine.py"),
        ("mine.py", "x = 1\n", "expected the Config of a layer in .*mine.py, found none"),
    ],
)
def test_a_file_that_is_no_layer_is_refused_by_name(name, text, message, tmp_path, monkeypatch):
    if text is not None:
        (tmp_path / name).write_text(text)
    monkeypatch.setenv(outside.VARIABLE, str(tmp_path / name))
    monkeypatch.setattr(os, "pathsep", ":")
    with pytest.raises(ContractError, match=f"RECOLLECT_LAYERS: {message}"):
        list(outside.found())
