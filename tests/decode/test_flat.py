"""A step spelled out computes what the model's own call computes."""

import pytest
import torch

from recollect.core import state as states
from recollect.decode.flat.blocks import attend_step, linear_add, norm_linear
from recollect.decode.flat.model import flatten
from recollect.layers import attention
from recollect.layers.position import angles
from recollect.models import language

VOCAB = 11

KNOWN = [
    {},
    {"positions": "none"},
    {"positions": "sinusoid"},
    {"positions": "learned", "max_positions": 12},
    {"norm": "rms", "activation": "swiglu"},
    {"norm": "none", "activation": "relu"},
    {"bias": True},
    {"bias": True, "activation": "swiglu", "tie": False},
    {"bias": True, "head_bias": False},
    {"layer": {"kv_heads": 1}},
    {"layer": {"kv_heads": 2, "head_dim": 6, "score": "dot"}},
    {"feed": False, "dropout": 0.3, "output_dropout": 0.2},
    {"heads": 1, "hidden": 5, "layers": 3},
    {"model": "linear-transformer"},
    {"model": "linear-transformer", "layer": {"feature": "identity", "normalise": False}, "norm": "rms", "bias": True},
    {"model": "ttt-linear", "layer": {"mini_batch": 3, "rotary": True}},
    {"model": "ttt-linear", "layer": {"mini_batch": None, "average": False, "learn_rate": False, "out_norm": False}},
    {
        "model": "ttt-linear",
        "layer": {"mini_batch": 1, "norm": False, "learn_start": False, "bias": False},
        "norm": "rms",
    },
    {"model": "ttt-mlp", "layer": {"mini_batch": 4, "expand": 2}, "positions": "sinusoid"},
    {"model": "linear-transformer", "positions": "learned", "max_positions": 12, "activation": "swiglu"},
]

UNKNOWN = [
    {"positions": "alibi"},
    {"order": "post"},
    {"norm": "batch"},
    {"block": "plain"},
    {"layer": {"window": 4}},
    {"layer": {"score": "additive"}},
    {"layer": {"score": "general"}},
    {"layer": {"alignment": "hard"}},
    {"layer": {"positions": "learned"}, "positions": "none"},
    {"model": "gru", "layer": {"reset": "before"}},
    {"model": "lstm", "block": "residual"},
    *({"model": model} for model in ("mlp", "tcn", "rnn", "lstm", "gru")),
]


def build(**settings):
    torch.manual_seed(1)
    given = {"model": "transformer", "width": 8, "heads": 2, "layers": 2} | settings
    model = language.Config(vocab=VOCAB, **given).build().double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.3)  # gains and biases that are not 1 and 0
    return model


@torch.inference_mode()
@pytest.mark.parametrize("level", [True, False], ids=["level", "ragged"])
@pytest.mark.parametrize("settings", KNOWN, ids=str)
def test_a_flat_step_is_the_models_own(settings, level):
    model = build(**settings)
    flat = flatten(model)
    assert flat is not None
    prompt = torch.randint(VOCAB, (3, 5))
    lengths = torch.tensor([5, 5, 5] if level else [5, 2, 4])
    _, own = model.ragged(prompt, lengths, model.initial_state(3, capacity=12))
    state = states.map(torch.clone, own)
    flat.start(state, 12)
    for _ in range(7):
        token = torch.randint(VOCAB, (3,))
        expected, own = model(token[:, None], own)
        assert torch.allclose(flat(token), expected[:, 0], rtol=1e-10, atol=1e-12)
    after = flat.finish()
    assert [name for name, _ in states.named(after)] == [name for name, _ in states.named(own)]
    for found, expected in zip(states.leaves(after), states.leaves(own), strict=True):
        assert torch.allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_a_subclass_may_compute_something_else_and_is_left_alone():
    model = build()
    layer = model.body.layers[0].layer
    assert flatten(model) is not None
    layer.__class__ = type("Other", (type(layer),), {})
    assert flatten(model) is None


@pytest.mark.parametrize("settings", UNKNOWN, ids=str)
def test_what_it_does_not_know_it_leaves_alone(settings):
    assert flatten(build(**settings)) is None


def test_a_model_in_training_or_under_observation_is_left_alone():
    assert flatten(build().train()) is None
    for watch in ("register_forward_hook", "register_forward_pre_hook"):
        model = build()
        getattr(model.body.layers[0].layer, watch)(lambda *given: None)
        assert flatten(model) is None


# ------------------------------------------------------------------------------------------------ what kernels compute


@torch.no_grad()
@pytest.mark.parametrize("positions", ["none", "rotary"])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_the_attention_of_a_step_is_the_layers_own(positions, groups):
    torch.manual_seed(0)
    config = attention.Config(dim=24, heads=4, kv_heads=groups, positions=positions, head_dim=6)
    layer = config.build().double()
    clock = torch.tensor([0, 7, 3])
    full = layer.initial_state(3, capacity=9)
    full = full._replace(keys=torch.randn_like(full.keys), values=torch.randn_like(full.values), clock=clock)
    x = torch.randn(3, 24).double()
    kept = states.map(torch.clone, full)
    expected, after = layer(x[:, None], full)
    qkv = torch.cat([part(x) for part in (layer.heads.q, layer.heads.k, layer.heads.v)], dim=1)
    angle = angles(torch.arange(9), 6)
    rotary = (angle.cos(), angle.sin()) if positions == "rotary" else None
    y = attend_step(qkv, kept.keys, kept.values, clock, 4, groups, rotary, 6**-0.5)
    assert torch.allclose(layer.heads.out(y), expected[:, 0], rtol=1e-12)
    assert torch.allclose(kept.keys, after.keys, rtol=1e-12)
    assert torch.equal(kept.values, after.values)


@pytest.mark.parametrize("kind", ["layer", "rms", "none"])
@pytest.mark.parametrize("activation", ["none", "gelu", "gelu_tanh", "relu"])
def test_a_norm_and_a_product_by_their_formulas(kind, activation):
    torch.manual_seed(0)
    x, gain, shift, bias = (torch.randn(*shape).double() for shape in ((3, 6), (6,), (6,), (4,)))
    weight, residual = torch.randn(4, 6).double(), torch.randn(3, 4).double()
    shift = shift if kind == "layer" else None
    spread = x - x.mean(dim=1, keepdim=True) if kind == "layer" else x
    normal = spread / (spread.square().mean(dim=1, keepdim=True) + 1e-5).sqrt() * gain
    normal = x if kind == "none" else normal + (0 if shift is None else shift)
    sums = (normal[:, None] * weight).sum(dim=2) + bias
    phi = 0.5 * (1 + torch.erf(sums / 2**0.5))
    near = 0.5 * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (sums + 0.044715 * sums**3)))
    expected = {"none": sums, "gelu": sums * phi, "gelu_tanh": sums * near, "relu": sums.clamp(min=0)}[activation]
    gain = None if kind == "none" else gain
    found = norm_linear(x, gain, shift, 1e-5, weight, bias, activation, kind)
    assert torch.allclose(found, expected, rtol=1e-10)
    plain = (x[:, None] * weight).sum(dim=2) + residual
    assert torch.allclose(linear_add(x, weight, None, residual), plain, rtol=1e-10)
    assert torch.allclose(linear_add(x, weight, bias, residual), plain + bias, rtol=1e-10)
