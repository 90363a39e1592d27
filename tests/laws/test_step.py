"""The Step law: what decodes with a model agrees with its definition, in every precision of this machine."""

import copy
from types import SimpleNamespace

import pytest
import torch

import tiny
from decode.test_captured_greedy import BEGIN, END, PAD, encode, every_kind
from decode.test_captured_greedy import build as build_translator
from decode.test_engine import Placed
from decode.test_stream import VOCAB, build, every_model
from recollect.core import laws
from recollect.decode import verify
from recollect.decode.flat.model import BLOCK_STEPS, LAYER_STEPS, flatten
from recollect.models import language

X = torch.randint(VOCAB, (3, 20), generator=torch.Generator().manual_seed(0))
CONFIGS = [
    *(language.Config(vocab=VOCAB, model=kind, width=16, layers=2) for kind in tiny.KINDS),
    language.Config(vocab=VOCAB, model="transformer", width=16, positions="learned", max_positions=20),
    language.Config(vocab=VOCAB, model="lstm", width=16, positions="sinusoid"),
    language.Config(vocab=VOCAB, model="transformer", width=16, order="post"),
]


@every_model
@pytest.mark.parametrize("engine", [verify.Engine, Placed])
def test_an_engine_gives_the_logits_and_the_state_of_the_definition(name, engine, monkeypatch):
    monkeypatch.setattr(verify, "Engine", engine)
    model = build(name)
    laws.step(model, X, verify.run_engine(model), "float64")


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"{config.model}-{config.positions}-{config.order}")
def test_every_precision_of_the_engine_stays_within_its_tolerance(config):
    model = config.build().eval()
    errors = {name: law() for name, law in verify.generation_laws(copy.deepcopy(model).double(), model, X).items()}
    assert [name for name in errors if "cuda" not in name] == ["step"]
    assert all(error > 0 for error in errors.values()), "each was rounded, so each was run"


def test_every_step_that_is_declared_is_put_to_the_law():
    seen = {type(part) for config in CONFIGS if flatten(config.build().eval()) for part in config.build().modules()}
    assert set(LAYER_STEPS) | set(BLOCK_STEPS) <= seen


@every_kind
def test_a_search_finds_the_log_probabilities_of_the_definition(settings):
    definition = build_translator(**settings)
    model, memory = copy.deepcopy(definition).float(), encode(definition, [3, 9, 1, 4, 7])
    side = SimpleNamespace(begin=BEGIN, end=END, pad=PAD)
    errors = {name: law() for name, law in verify.search_laws(definition, model, memory, side, 9).items()}
    assert 0 < errors["step"] <= laws.STEP_TOLERANCE["float32"]
