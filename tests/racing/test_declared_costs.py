"""Declared costs are laws: a layer that declares others than it has gains nothing by it."""

import json

import pytest
import torch

from racing.small import SMALL, raced, recall
from recollect import layers
from recollect.core import laws
from recollect.core.contract import Cost
from recollect.core.task import RunError
from recollect.layers import outside, rnn
from recollect.models import language
from recollect.racing.summary import load, summarize
from recollect.racing.terms import Terms
from recollect.tasks import find
from recollect.training import evaluation
from recollect.training import run as runs

FILE = '''"""An RNN that declares one FLOP a step.

STATE   h
UPDATE  that of an RNN
READ    h
GROWS   no
FAST    as the RNN
"""

from dataclasses import dataclass

from recollect.core.contract import Cost
from recollect.layers import rnn


@dataclass(frozen=True, kw_only=True)
class Config(rnn.Config):
    def build(self):
        return Cheat(self)


class Cheat(rnn.RNN):
    def cost(self, batch, steps, source=0):
        return Cost(batch * steps, super().cost(batch, steps, source).state_bytes)
'''


@pytest.fixture(autouse=True)
def _cheat(tmp_path, monkeypatch):
    before = dict(layers.LAYERS)
    (tmp_path / "cheat.py").write_text(FILE)
    monkeypatch.setenv(outside.VARIABLE, str(tmp_path / "cheat.py"))
    outside.register(layers.add)
    yield
    layers.LAYERS.clear()
    layers.LAYERS.update(before)
    outside.BROKEN.clear()


def test_a_race_on_equal_flops_refuses_a_layer_that_declares_one_flop_a_step(tmp_path):
    terms = Terms(search=0, equal="flops", budget=3e6)
    kept, refused = raced([recall("rnn", "cheat")], tmp_path / "out", terms)
    assert kept["flops"] >= 3e6
    assert refused["error"].startswith("flops: expected declared costs that are those counted, since they measure")
    assert "found Cheat (" in refused["error"]
    assert "32 FLOPs declared for 8 steps with 4 rows" in refused["error"]
    assert "mend cost() of that layer" in refused["error"]
    assert not (tmp_path / "out/runs/recall-cheat-0").exists()


def test_a_race_on_other_terms_marks_it_and_shows_none_of_its_figures(tmp_path):
    honest, marked = raced([recall("rnn", "cheat", settings=SMALL | {"lr": "1e-3"})], tmp_path)
    assert honest["unfair"] == []
    assert honest["flops"] > 0
    assert marked["unfair"] == ["cost"]
    assert (marked["flops"], marked["state_bytes"], marked["costs"]) == (None, None, [])
    assert marked["metric"] == honest["metric"], "the same weights, the same data"
    (heat,) = json.loads((tmp_path / "race.json").read_text())["heats"]
    assert any(note.startswith("cheat, its costs: Cheat (") for note in heat["notes"])
    columns, lines = summarize(*load(tmp_path))[0].table()
    found = dict(zip(columns, next(line for line in lines if line[1] == "cheat"), strict=True))
    assert (found["FLOPs"], found["bytes of state"], found["unfair"]) == ("–", "–", "cost")


def test_a_training_on_a_budget_of_flops_refuses_it_before_it_writes_anything(tmp_path):
    kind, texts = find("recall"), SMALL | {"flops": "1e6"}
    with pytest.raises(RunError, match=r"^flops: expected declared costs .*found Cheat"):
        runs.train(kind, runs.configure(kind, texts, model="cheat"), str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_verify_finds_it_by_its_name_inside_a_model_whose_head_outweighs_it(tmp_path):
    model = language.Config(model="cheat", vocab=20_000, width=8).build().double().eval()
    x = torch.randint(20_000, (1, 4))
    assert laws.cost(model, x) < 0.01
    with pytest.raises(laws.LawBroken, match=r"^Cost law broken by Cheat \(8 → 8\): 4 FLOPs declared .* 1,024 counted"):
        laws.cost_of_parts(model, x)
    kind = find("recall")
    runs.train(kind, runs.configure(kind, SMALL | {"steps": "1"}, model="cheat"), str(tmp_path / "run"), params=1_500)
    found = evaluation.verify(tmp_path / "run")
    assert isinstance(found["cost"], laws.LawBroken)


def test_bytes_of_state_are_held_to_those_that_are_stored():
    class Small(rnn.RNN):
        def cost(self, batch, steps, source=0):
            return Cost(super().cost(batch, steps, source).flops, 1)

    class Config(rnn.Config):
        def build(self):
            return Small(self)

    layers.add("small", Config)
    model = language.Config(model="small", vocab=5, width=8).build().double().eval()
    wanted = r"^Cost law broken by Small \(8 → 8\): 1 bytes of state declared after 4 steps with 2 rows, 128 counted"
    with pytest.raises(laws.LawBroken, match=wanted):
        laws.cost_of_parts(model, torch.randint(5, (2, 4)))
