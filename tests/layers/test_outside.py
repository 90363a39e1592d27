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
from recollect.core.outside import OutsideError, describe_outside
from recollect.core.task import RunError
from recollect.layers import outside, rnn
from recollect.models import language
from recollect.models.body import kind_of
from recollect.racing import evidence, run
from recollect.racing.heats import heats
from recollect.racing.terms import Terms, with_models
from recollect.tasks.series import model as forecaster
from recollect.training import evaluation
from recollect.training import run as training

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
    outside.BROKEN.clear()


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
    assert evaluation.evaluate(out, split="valid")["metric"]["value"] >= 0
    assert max(evaluation.verify(out).values()) < 1e-10
    del layers.LAYERS["own"]
    with pytest.raises(RunError, match=r"\(or a layer that RECOLLECT_LAYERS names\) out of .*found 'own'"):
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
    with pytest.raises(ContractError, match="expected a model out of .*found 'own'"):
        training.configure(tasks.find("ratings"), {}, model="own")
    with pytest.raises(ContractError, match="'GRU', which is a cell of theirs; use --model attend --cell gru"):
        training.configure(tasks.find("translation"), {}, model="GRU")
    assert training.configure(tasks.find("captions"), {}, model="Attention").model["name"] == "attend"


def test_an_added_layer_enters_a_race_and_has_its_card(tmp_path, monkeypatch):
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    monkeypatch.setenv(outside.VARIABLE, str(path))
    outside.register(layers.add)
    assert not outside.BROKEN
    settings = {"length": "8", "load": "2", "vocab": "12", "batch": "4", "eval_rows": "20", "lr": "1e-3"}
    heat = replace(with_models(heats()["recall"], ["rnn", "mine"]), params=1_500, steps=4, settings=settings)
    rows = run.run([heat], Terms(search=0), tmp_path / "out", title="a race", command="recollect race")
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
    outside.register(layers.add)
    with pytest.raises(OutsideError, match=f"RECOLLECT_LAYERS: {message}"):
        build("mine", dim=4)


BAD_CODE = {
    "def x(:\n": "mine.py, line 1: SyntaxError: invalid syntax",
    "x = 1\ny = 1 / 0\n": "mine.py, line 2: ZeroDivisionError: division by zero",
    "import nowhere_to_be_found\n": "mine.py, line 1: ModuleNotFoundError",
    "\n\nraise SystemExit(3)\n": "mine.py, line 3: expected code that returns, found an exit with the code 3",
    "x = '\xff'\n": "mine.py, line 1: SyntaxError: .*'utf-8' codec can't decode",
    "x = 1\0\n": "mine.py.*: .* null bytes",
    "def f():\n    return f()\nf()\n": "mine.py, line 2: RecursionError",
    "raise ValueError('a\\nb')\n": "mine.py, line 1: ValueError: a b$",
    "class Own(BaseException): pass\nraise Own('x')\n": "mine.py, line 2: Own: x",
    "Config = dict\n": "mine.py: layers: expected a subclass of contract.Config for 'mine'",
}


@pytest.mark.parametrize("code", BAD_CODE)
def test_a_file_that_cannot_be_used_is_an_error_only_where_its_layer_is_asked_for(code, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_bytes(code.encode("latin-1"))
    (tmp_path / "other.py").write_text(FILE)
    monkeypatch.setenv(outside.VARIABLE, os.pathsep.join([str(tmp_path / "mine.py"), str(tmp_path / "other.py")]))
    outside.register(layers.add)
    assert build("other", dim=4).width == 4
    wanted = f"^RECOLLECT_LAYERS: {BAD_CODE[code]}"
    for ask in (kind_of, lambda model: training.configure(tasks.find("text"), {}, model=model)):
        with pytest.raises(OutsideError, match=wanted) as caught:
            ask("mine")
        assert "\n" not in str(caught.value)


def test_a_file_with_the_name_of_a_layer_or_of_another_file_leaves_those_as_they_are(tmp_path, monkeypatch):
    (tmp_path / "more").mkdir()
    files = [tmp_path / name for name in ("lstm.py", "mine.py", "more/mine.py")]
    for file in files:
        file.write_text(FILE)
    monkeypatch.setenv(outside.VARIABLE, os.pathsep.join(map(str, files)))
    outside.register(layers.add)
    assert "'lstm', which is taken" in str(outside.BROKEN["lstm"])
    assert "expected files of different names, found a second mine.py" in str(outside.BROKEN["mine"])
    assert type(build("lstm", dim=4)).__name__ == "LSTM"
    assert build("mine", dim=4, gain=2.0).width == 4


RAISING = (
    FILE
    + """
    def build(self):
        return Own(self)


class Own(rnn.RNN):
    def forward(self, x, state):
        return x @ x.new_zeros(x.shape[-1] + 1, 2), state
"""
)


def test_an_error_in_a_layer_of_ones_own_is_told_with_its_line(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(RAISING)
    monkeypatch.setenv(outside.VARIABLE, str(tmp_path / "mine.py"))
    outside.register(layers.add)
    layer = build("mine", dim=4)
    with pytest.raises(RuntimeError) as caught:
        layer(torch.zeros(1, 2, 4), layer.initial_state(1))
    line = RAISING.splitlines().index("        return x @ x.new_zeros(x.shape[-1] + 1, 2), state") + 1
    found = describe_outside(caught.value)
    assert found is not None
    assert found.startswith(f"mine.py, line {line}: RuntimeError: mat1 and mat2")
    with pytest.raises(RuntimeError) as ours:
        torch.zeros(2, 3) @ torch.zeros(2, 3)
    assert describe_outside(ours.value) is None


def test_what_a_file_prints_is_kept_out_of_stdout(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text("print('hello')\n" + FILE)
    monkeypatch.setenv(outside.VARIABLE, str(tmp_path / "mine.py"))
    outside.register(layers.add)
    assert capsys.readouterr() == ("", "hello\n")


@pytest.mark.parametrize("task", ["text", "labels", "series", "translation", "captions", "copy"])
def test_an_own_layer_is_in_every_suggestion_and_names_are_forgiving(task):
    layers.add("own-idea", Own)
    kind = tasks.find(task)
    with pytest.raises(ContractError, match="own-idea, found 'own-ide'; did you mean 'own-idea'"):
        training.configure(kind, {}, model="own-ide")
    assert training.configure(kind, {}, model="Own_Idea").model["name"] == "own-idea"
    assert training.configure(kind, {}, model=kind.default.upper()).model["name"] == kind.default
