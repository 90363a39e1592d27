"""Whole experiments at tiny sizes, from data to charts, and the settings of both forms of those that train."""

import json
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

from recollect import claims, tasks
from recollect.claims import (
    bottleneck,
    bptt,
    capacity,
    fading,
    forgetting,
    norms,
    path,
    recency,
    reverse,
    score,
    warm_up,
)
from recollect.claims.claim import Effort, Verdict
from recollect.claims.laboratory import training
from recollect.claims.laboratory.copying import Copying
from recollect.models import language
from recollect.training import run as runs


def module(name):
    """The file of a claim."""
    return import_module(f"recollect.claims.{name.replace('-', '_')}")


MEMORY = {"steps": 2, "batch": 4, "eval_rows": 10}
TEXT = {"steps": 2, "batch": 2, "context": 8, "eval_tokens": 60}
PAIRS = MEMORY | {"length": 8, "load": 2, "vocab": 16}
LEARNING: dict[str, Any] = {  # in place of QUICK
    "gates": {
        "lengths": (6,),
        "rates": {"rnn": (1e-2, 1e-3), "lstm": (1e-2,), "gru": (1e-2,)},
        "run": MEMORY | {"width": 4},
    },
    "capacity": {
        "widths": {capacity.NARROW: 4, capacity.WIDE: 8},
        "loads": (1, 2, 3),
        "copy": MEMORY | {"distance": 3, "lr": 1e-3, "all_steps": False},
        "recall": PAIRS | {"lr": 1e-3},
        "attention": {
            "copy": {"width": 8, "heads": 1, "layers": 1, "positions": "learned"},
            "recall": {"width": 8, "heads": 2, "layers": 2},
        },
    },
    "clip": {
        "explode": TEXT | {"width": 4},
        "rates": (0.1, 1e9),
        "vanish": MEMORY | {"width": 4, "lr": 1e-3},
        "gaps": (0, 9),
    },
    "bptt": {
        "run": TEXT | {"width": 4, "segment": 2},
        "margin": 0.05,
        "batches": 20,
        "lags": {2: 2, 8: 2},
        "carry": {"width": 4, "context": 16, "batch": 2, "segment": 4, "rate": 1e-2},
    },
    "heads": MEMORY | {"width": 8, "length": 14, "lr": 1e-3},
    "warm-up": {"run": TEXT, "model": {"layers": 2, "width": 8, "heads": 2}, "rates": (1e-3, 1e-2)},
    "depth": {"depths": (1, 2), "params": 6000, "rates": (1e-3, 2e-3), "run": TEXT | {"heads": 2}},
    "sharing": {"rows": 8, "length": 4, "width": 4, "narrow": 2, "steps": 2, "batch": 4},
    "stores": {
        "run": PAIRS,
        "rates": {"rnn": 1e-3, "ttt": 1e-3, "attention": 1e-3},
        "width": 8,
        "heads": {"ttt": 2, "attention": 2},
        "rnn": 8,
        "window": 3,
    },
    "ttt-batch": TEXT | {"width": 8, "layers": 1, "heads": 2, "lr": 1e-3},
    "recall": {
        "run": PAIRS | {"layers": 2, "lr": 1e-3},
        "models": {"transformer": {"width": 8, "heads": 2}, "linear-transformer": {"width": 8, "heads": 1}},
    },
    "parity": {"run": {"batch": 4, "eval_rows": 10, "length": 4, "width": 4}, "steps": {"cells": 2, "blocks": 2}},
    "eigenvalue-sign": {"run": MEMORY | {"length": 4, "width": 8, "heads": 2, "layers": 1, "lr": 1e-3}},
    "overwrite": {
        "rounds": 2,
        "run": MEMORY
        | {"length": 12, "load": 2, "vocab": 16, "width": 8, "heads": 1, "layers": 1, "taps": 2, "lr": 1e-3},
    },
    "long-gap": {
        "alone": {"steps": 2, "eval_rows": 10},
        "gaps": (0, 8),
        "widening": {"steps": 2, "widen": 2, "distance": 8, "eval_rows": 10, "lr": 1e-3},
    },
    "long-rnn": MEMORY | {"distance": 12, "widen": 2, "width": 4, "lr": 1e-3},
}

SMALL: dict[str, Any] = {"steps": 4, "width": 8}
PAIR = Copying(shortest=3, longest=4, train=200, test=10)
RATINGS = {"users": 40, "items": 30, "ratings": 600}
TINY: dict[str, dict[str, Any]] = {  # constants of each file
    **{name: {"QUICK": terms} for name, terms in LEARNING.items()},
    "bottleneck": {"QUICK": replace(bottleneck.QUICK, copying=replace(PAIR, shortest=1), **SMALL)},
    "recency": {
        "QUICK": replace(recency.QUICK, copying=recency.Ends(shortest=3, longest=6, train=200, test=60), **SMALL)
    },
    "fading": {
        "QUICK": replace(
            fading.QUICK, copying=fading.Waiting(shortest=3, longest=3, idle=7, train=200, test=120), **SMALL
        )
    },
    "reverse": {"QUICK": replace(reverse.QUICK, copying=PAIR, every=2, **SMALL), "LONG": (4, 4)},
    "score": {
        "QUICK": replace(score.QUICK, copying=PAIR, every=2, **SMALL),
        "TIMED": ({"rows": 1, "steps": 8, "dim": 8, "heads": 2}, {}),
    },
    "k-step": {"STEPS": 5},
    "forgetting": {
        "QUICK": forgetting.QUICK
        | {"letters": 2000, "test": 300, "run": {"context": 16, "batch": 2}, "steps": 2}
        | {"body": {"width": 8, "heads": 2, "layers": 1, "taps": 2}}
    },
    "stationary": {"STEPS": (3, 3)},
    "arrow": {"STEPS": (5, 5), "LENGTH": (3000, 3000), "TEST": 1000, "WORLDS": 50},
    "content": {"STEPS": (4, 4), "SENTENCES": (200, 200), "ROWS": 20},
    "complement": {"BUDGETS": ((2, 4), (2, 4)), "MODULES": (16, 16), "TOKENS": (500, 500), "WIDTH": (8, 8)},
    "films": {"QUICK": RATINGS, "STEPS": (5, 5), "TURNS": 10},
    "biases": {"QUICK": RATINGS, "STEPS": (5, 5), "BIASES": (0.2, 0.8)},
    "path": {
        "DRAWS": 2,
        "LENGTH": 8,
        "STEPS": (3, 3),
        "DISTANCE": (4, 4),
        "SETTINGS": path.SETTINGS | {"width": 8, "batch": 4, "eval_rows": 8},
    },
    "norms": {"STEPS": (3, 3), "ROWS": {"train": 40, "valid": 12}, "SETTINGS": norms.SETTINGS | {"width": 8}},
}
TIMED = {"bptt", "ttt-batch", "score"}  # what they say depends on the clock


@pytest.fixture
def shrink(monkeypatch, tmp_path):
    """Gives a claim its tiny sizes, and a cache of its own."""
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path))

    def apply(name):
        for constant, value in TINY[name].items():
            monkeypatch.setattr(module(name), constant, value)

    return apply


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_a_tiny_experiment_runs_from_data_to_charts(name, shrink, tmp_path):
    shrink(name)
    found = claims.load(name).run(Effort(seeds=2))
    assert found.verdict in Verdict
    assert "nan" not in found.summary
    assert json.loads(json.dumps(found.figures))
    assert found.charts
    for chart in found.charts:
        content = json.loads(json.dumps(chart.to_json(), allow_nan=False))
        assert all(len(line["x"]) == len(line["y"]) > 0 for line in content.get("lines", ()))
    assert not list(tmp_path.iterdir()) or name in LEARNING  # what a claim makes for itself is gone afterwards
    if name in LEARNING and name not in TIMED:
        again = claims.load(name).run(Effort(seeds=2))
        assert (again.verdict, again.summary) == (found.verdict, found.summary)


@pytest.mark.slow
def test_path_compares_all_distances_but_none_at_all(shrink):
    shrink("path")
    found = path.run(Effort(seeds=1))
    assert set(found.figures["after"]) == set(path.MODELS)
    assert len(found.charts[1].lines[0].y) == 5  # distances 1 to 5: a silence of 4 and the symbol
    assert found.figures["before"]["rnn"] < found.figures["before"]["attention"]


@pytest.mark.slow
def test_norms_tells_use_from_training_for_batch_norm_alone(shrink):
    shrink("norms")
    found = norms.run(Effort(seeds=2))
    assert found.figures["laws_broken"]["batch"] == {"row": True, "cause": True}
    assert found.figures["laws_broken"]["layer"] == {"row": False, "cause": False}
    assert found.figures["use_less_training"]["layer"] == pytest.approx([0.0, 0.0], abs=1e-5)
    assert min(map(abs, found.figures["use_less_training"]["batch"])) > 1e-5
    assert len(found.figures["nats"]["batch"]) == 2


def pretend(task, model, *, steps, seed, device="cpu", params=None, split="valid", **settings):
    """A training that goes as far as its settings, which the task must know and put together."""
    kind = tasks.find(task) if isinstance(task, str) else task
    texts = {name: str(value) for name, value in (settings | {"steps": steps, "seed": seed}).items()}
    run = runs.configure(kind, texts, model=model)
    data, points = run.data, []
    width = run.model.get("width", 0)
    if kind.name == "text":
        config = language.Config(vocab=100, **{"model" if k == "name" else k: v for k, v in run.model.items()})
        width = (language.width_for(config, params) if params else config).width
    else:
        kind.resolve(run, data, params)
        points = [{data.dial: value, "accuracy": 0.5, "last": 0.5} for value in data.points()]
    figures = {"metric": {"value": 0.5}, "accuracy": 0.5, "loss": 0.5, "points": points, "params": 1, "state_bytes": 1}
    figures |= {"seconds": 1.0, "baselines": {"uniform": 1.0, "unigram": 1.0}}
    return training.Trained(
        figures=figures,
        curve=[{"valid": 0.5, "norm": 1.0, "seconds": 1.0}],
        model=SimpleNamespace(config=SimpleNamespace(width=width)),
        task=SimpleNamespace(data=data),
        artifacts=None,
    )


@pytest.mark.parametrize("full", [False, True], ids=["quick", "full"])
@pytest.mark.parametrize("name", [name for name in LEARNING if name != "sharing"])
def test_the_settings_of_both_forms_go_together(name, full, monkeypatch):
    """Nothing is learnt here: with the same figures for everything no claim can hold."""
    for home in (training, module(name)):
        monkeypatch.setattr(home, "train", pretend, raising=False)
    monkeypatch.setattr(bptt, "saved_bytes", lambda *_: 1)
    monkeypatch.setattr(bptt, "fit", lambda task, build, **_: build())
    monkeypatch.setattr(bptt, "judge_estimators", lambda *_: {})
    monkeypatch.setattr(warm_up, "gradients", lambda *_: [1.0, 1.0])
    found = claims.load(name).run(Effort(full=full, seeds=1))
    assert found.verdict is not Verdict.HOLDS
