"""The Transformer's blocks against torch.nn, and what they are made of against formulas."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from oracles import assert_all_close, assert_close, gradients, inputs, randomise, source
from recollect.layers import build, build_encoder
from recollect.layers.cross_attention import Config as CrossConfig
from recollect.layers.mlp import Config as FeedConfig
from recollect.layers.norm import Config as NormConfig

OPTIONS = [
    pytest.param(order, activation, id=f"{order}-{activation}")
    for order in ("pre", "post")
    for activation in ("relu", "gelu")
]
AHEAD = torch.ones(6, 6, dtype=torch.bool).triu(1)


def copy_weights(ours: nn.Module, theirs: nn.Module) -> None:
    weights = {name: weight for name, weight in theirs.state_dict().items() if name in ours.state_dict()}
    assert len(weights) == len(theirs.state_dict())
    ours.load_state_dict(weights, strict=False)


def load_feed(feed: Any, oracle: Any) -> None:
    copy_weights(feed.up, oracle.linear1)
    copy_weights(feed.down, oracle.linear2)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("form", ["chunk", "unroll"])
@pytest.mark.parametrize(("order", "activation"), OPTIONS)
def test_a_causal_block_equals_torch_with_a_causal_mask(order: str, activation: str, form: str, bias: bool) -> None:
    oracle = nn.TransformerEncoderLayer(
        8, 2, 12, dropout=0.0, activation=activation, batch_first=True, norm_first=order == "pre", bias=bias
    ).double()
    randomise(oracle)
    layer = build(
        "transformer-block", dim=8, heads=2, hidden=12, activation=activation, order=order, bias=bias
    ).double()
    look, feed = layer.layers
    look.layer.load_torch(oracle.self_attn)
    load_feed(feed.layer, oracle)
    copy_weights(look.norm.norm, oracle.norm1)
    copy_weights(feed.norm.norm, oracle.norm2)
    x = inputs(2, 6, 8)
    expected = oracle(x, src_mask=AHEAD)
    y, _ = (layer if form == "chunk" else layer.unroll)(x, layer.initial_state(2))
    assert_close(y, expected, "outputs")
    ours = [x, look.layer.heads.out.weight, feed.layer.up.weight, feed.layer.down.weight]
    ours += [look.norm.norm.weight, feed.norm.norm.weight]
    theirs = [x, oracle.self_attn.out_proj.weight, oracle.linear1.weight, oracle.linear2.weight]
    theirs += [oracle.norm1.weight, oracle.norm2.weight]
    assert_all_close(gradients([y], ours), gradients([expected], theirs), "gradient")


@pytest.mark.parametrize("lengths", [None, [6, 2, 4]])
@pytest.mark.parametrize(("order", "activation"), OPTIONS)
def test_an_encoder_of_one_layer_equals_torch(order: str, activation: str, lengths: list[int] | None) -> None:
    pre = order == "pre"
    block = nn.TransformerEncoderLayer(
        8, 2, 12, dropout=0.0, activation=activation, batch_first=True, norm_first=pre
    ).double()
    norm = nn.LayerNorm(8).double() if pre else None  # a pre-norm stack ends with a norm of its own
    oracle = nn.TransformerEncoder(block, 1, norm=norm, enable_nested_tensor=False)
    randomise(oracle)
    encoder = build_encoder(
        "transformer", dim=8, heads=2, hidden=12, activation=activation, order=order, positions="none"
    ).double()
    load_encoder(encoder, oracle)
    x = inputs(3, 6, 8)
    padding = torch.arange(6) >= torch.tensor(lengths or [6, 6, 6])[:, None]
    expected = oracle(x, src_key_padding_mask=padding).masked_fill(padding[..., None], 0)
    values = encoder(x, lengths).values
    assert_close(values, expected, "values")
    assert_all_close(gradients([values], [x]), gradients([expected], [x]), "gradient of x")


def load_encoder(encoder: Any, oracle: nn.TransformerEncoder) -> None:
    for block, theirs in zip(encoder.blocks, oracle.layers, strict=True):
        block.attention.heads.load_torch(theirs.self_attn)
        load_feed(block.feed, theirs)
        copy_weights(block.norms[0].norm, theirs.norm1)
        copy_weights(block.norms[1].norm, theirs.norm2)
    if oracle.norm is not None:
        copy_weights(encoder.norm.norm, oracle.norm)


@pytest.mark.parametrize("order", ["pre", "post"])
def test_an_encoder_of_three_layers_equals_torch(order: str) -> None:
    block = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True, norm_first=order == "pre")
    oracle = nn.TransformerEncoder(
        block, 3, norm=nn.LayerNorm(8) if order == "pre" else None, enable_nested_tensor=False
    ).double()
    randomise(oracle)  # torch makes its layers as copies of one
    encoder = build_encoder(
        "transformer", dim=8, heads=2, hidden=12, num_layers=3, order=order, positions="none"
    ).double()
    load_encoder(encoder, oracle)
    x = inputs(2, 6, 8)
    assert_close(encoder(x).values, oracle(x))


def test_sinusoids_are_added_once_at_the_bottom_of_an_encoder() -> None:
    plain = build_encoder("transformer", dim=8, heads=2, num_layers=2, positions="none").double()
    encoder = build_encoder("transformer", dim=8, heads=2, num_layers=2).double()
    encoder.load_state_dict(plain.state_dict())
    position = build("position", dim=8)
    x = torch.randn(2, 6, 8).double()
    placed, _ = position(x, position.initial_state(2))
    assert_close(encoder(x).values, plain(placed).values)


@pytest.mark.parametrize("form", ["chunk", "unroll"])
@pytest.mark.parametrize(("order", "activation"), OPTIONS)
def test_a_decoder_block_equals_torch(order: str, activation: str, form: str) -> None:
    oracle = nn.TransformerDecoderLayer(
        8, 2, 12, dropout=0.0, activation=activation, batch_first=True, norm_first=order == "pre"
    ).double()
    randomise(oracle)
    layer = build(
        "transformer-block",
        dim=8,
        heads=2,
        hidden=12,
        activation=activation,
        order=order,
        cross=CrossConfig(dim=8, heads=2, bias=True),
    ).double()
    look, cross, feed = layer.layers
    look.layer.load_torch(oracle.self_attn)
    cross.layer.heads.load_torch(oracle.multihead_attn)
    load_feed(feed.layer, oracle)
    for ours, theirs in zip((look, cross, feed), (oracle.norm1, oracle.norm2, oracle.norm3), strict=True):
        copy_weights(ours.norm.norm, theirs)
    x, memory = inputs(3, 6, 8), source(3, 5, 8, [5, 1, 3])
    expected = oracle(x, memory.values, tgt_mask=AHEAD, memory_key_padding_mask=~memory.valid)
    y, _ = (layer if form == "chunk" else layer.unroll)(x, layer.initial_state(3, memory=memory))
    assert_close(y, expected, "outputs")
    ours = [x, memory.values, cross.layer.heads.out.weight, feed.layer.up.weight, cross.norm.norm.weight]
    theirs = [x, memory.values, oracle.multihead_attn.out_proj.weight, oracle.linear1.weight, oracle.norm2.weight]
    assert_all_close(gradients([y], ours), gradients([expected], theirs), "gradient")


def test_dropout_of_a_block_acts_in_training_only() -> None:
    layer = build("transformer-block", dim=8, heads=2, dropout=0.5).double()
    plain = build("transformer-block", dim=8, heads=2).double()
    plain.load_state_dict(layer.state_dict())
    x = torch.randn(2, 6, 8).double()
    expected, _ = plain(x, plain.initial_state(2))
    assert (layer.train()(x, layer.initial_state(2))[0] - expected).abs().max() > 1e-3
    assert_close(layer.eval()(x, layer.initial_state(2))[0], expected)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "swiglu"])
def test_a_feed_forward_network_equals_its_formula(activation: str, bias: bool) -> None:
    layer = FeedConfig(dim=4, hidden=7, activation=activation, bias=bias).build().double()
    x = inputs(2, 5, 4)

    def product(linear: nn.Linear, x: Tensor) -> Tensor:
        y = torch.einsum("bti,oi->bto", x, linear.weight)
        return y + linear.bias if bias else y

    up = product(layer.up, x)
    if activation == "relu":
        hidden = up.clamp(min=0)
    elif activation == "gelu":
        hidden = up * 0.5 * (1 + torch.erf(up / 2**0.5))
    elif activation == "gelu_tanh":  # Hendrycks and Gimpel 2016
        hidden = 0.5 * up * (1 + torch.tanh((2 / math.pi) ** 0.5 * (up + 0.044715 * up**3)))
    else:
        gate = product(layer.gate, x)
        hidden = gate / (1 + torch.exp(-gate)) * up
    y, _ = layer(x, layer.initial_state(2))
    expected = product(layer.down, hidden)
    assert_close(y, expected)
    wrt = [x, *layer.parameters()]
    assert_all_close(gradients([y], wrt), gradients([expected], wrt), "gradient")


def test_a_feed_forward_network_is_four_times_wider_inside_unless_told() -> None:
    assert build("feed-forward", dim=5).up.out_features == 20
    assert build("feed-forward", dim=5, hidden=3).up.out_features == 3


@pytest.mark.parametrize("kind", ["layer", "rms", "batch", "none"])
def test_each_norm_equals_torch(kind: str) -> None:
    layer = NormConfig(dim=5, kind=kind).build().double()
    randomise(layer)
    oracle = {
        "layer": nn.LayerNorm(5),
        "rms": nn.RMSNorm(5, eps=1e-6),
        "batch": nn.BatchNorm1d(5),
        "none": nn.Identity(),
    }[kind].double()
    oracle.load_state_dict(layer.norm.state_dict())
    x = inputs(3, 4, 5)
    for mode in (True, False):  # BatchNorm differs between training and evaluation, and trains on the way
        layer.train(mode)
        oracle.train(mode)
        y, _ = layer(x, layer.initial_state(3))
        expected = oracle(x.mT).mT if kind == "batch" else oracle(x)
        assert_close(y, expected, f"training: {mode}")
        wrt = [x, *layer.parameters()]
        assert_all_close(gradients([y], wrt), gradients([expected], [x, *oracle.parameters()]), "gradient")


@pytest.mark.parametrize("kind", ["layer", "rms", "batch"])
def test_each_norm_equals_its_formula(kind: str) -> None:
    layer = NormConfig(dim=5, kind=kind).build().double().train()
    randomise(layer)
    x = torch.randn(3, 4, 5).double()
    weight, bias = layer.norm.weight, getattr(layer.norm, "bias", None)
    if kind == "rms":
        expected = x / (x.square().mean(dim=-1, keepdim=True) + 1e-6).sqrt() * weight
    else:
        over = (0, 1) if kind == "batch" else (2,)
        mean = x.mean(dim=over, keepdim=True)
        variance = (x - mean).square().mean(dim=over, keepdim=True)
        expected = (x - mean) / (variance + 1e-5).sqrt() * weight + bias
    assert_close(layer(x, layer.initial_state(3))[0], expected)


@pytest.mark.parametrize("order", ["pre", "post"])
def test_a_residual_is_a_shortcut_around_its_layer(order: str) -> None:
    layer = build("residual", dim=4, layer=FeedConfig(dim=4), order=order).double()
    randomise(layer)
    x = torch.randn(2, 3, 4).double()
    inner, norm = layer.layer.apply_to, layer.norm.apply_to
    expected = x + inner(norm(x)) if order == "pre" else norm(x + inner(x))
    assert_close(layer(x, layer.initial_state(2))[0], expected)


@pytest.mark.parametrize("variational", [False, True])
def test_the_dropout_layer_drops_in_training_only_and_scales_the_rest(variational: bool) -> None:
    layer = build("dropout", dim=8, dropout=0.25, variational=variational).double()
    x = torch.randn(4, 6, 8).double()
    assert torch.equal(layer.eval()(x, layer.initial_state(4))[0], x)
    ratio = (layer.train()(x, layer.initial_state(4))[0] / x).round(decimals=9)
    assert set(ratio.unique().tolist()) == {0.0, round(1 / 0.75, 9)}
    same = (ratio == ratio[:, :1]).all()
    assert bool(same) == variational, "one mask for all steps, or one for each"
    assert (ratio[0] != ratio[1]).any(), "each row has its own mask"
