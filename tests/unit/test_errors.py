"""What the contract does not allow is refused in one line that says what was expected and what was found."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import nn

from laws.cases import describe, every_layer
from oracles import source
from recollect.core import ragged
from recollect.core import state as states
from recollect.core.contract import ContractError, Encoder, Layer
from recollect.layers import (
    ENCODERS,
    LAYERS,
    attention,
    build,
    build_encoder,
    combine,
    cross_attention,
    gru,
    lstm,
    position,
    transformer,
)


@contextmanager
def refused(*parts: str) -> Iterator[None]:
    """The block raises a ContractError of one line that holds all `parts`."""
    with pytest.raises(ContractError) as caught:
        yield
    message = str(caught.value)
    assert "\n" not in message, f"more than one line: {message}"
    for part in parts:
        assert part in message, f"{part!r} is not in: {message}"


def prepare(config: Any, batch: int = 2, steps: int = 4) -> tuple[Layer[Any], torch.Tensor, Any]:
    layer = config.build().double().eval()
    example = config.example(batch, steps, dtype=torch.float64)
    return layer, example.x, layer.initial_state(batch, memory=example.memory, like=example.x)


# What is given as x


@every_layer
def test_no_steps_are_refused(config: Any) -> None:
    layer, x, state = prepare(config)
    with refused("expected at least one step", f"found x of shape (2, 0, {config.dim})"):
        layer(x[:, :0], state)


@every_layer
def test_x_of_another_width_is_refused(config: Any) -> None:
    layer, x, state = prepare(config)
    with refused(f"expected x of shape (batch, steps, {config.dim})", f"found (2, 4, {config.dim + 1})"):
        layer(torch.cat([x, x[..., :1]], dim=-1), state)


@every_layer
def test_x_of_another_rank_is_refused(config: Any) -> None:
    layer, x, state = prepare(config)
    with refused(f"expected x of shape (batch, steps, {config.dim})", f"found (2, {config.dim})"):
        layer(x[:, 0], state)
    with refused(f"expected x of shape (batch, steps, {config.dim})", f"found (1, 2, 4, {config.dim})"):
        layer(x[None], state)


@every_layer
def test_whole_numbers_as_x_are_refused(config: Any) -> None:
    layer, x, state = prepare(config)
    with refused("expected floating-point x", "found torch.int64"):
        layer(x.long(), state)


def multiplies(config: Any) -> bool:
    """Whether x meets a matrix: positions are cast to x, norms may promote, what has no weights takes any dtype."""
    return type(config).__module__ != position.__name__ and any(p.dim() > 1 for p in config.build().parameters())


WEIGHTED = [
    pytest.param(config, id=describe(name, config))
    for name, kind in LAYERS.items()
    for config in kind.variants()
    if multiplies(config)
]


@pytest.mark.filterwarnings("ignore:Mismatch dtype")  # torch's RMSNorm says so before anything fails
@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("config", WEIGHTED)
def test_x_of_another_dtype_than_the_weights_is_refused(config: Any, steps: int) -> None:
    layer = config.build().double().eval()
    example = config.example(2, steps, dtype=torch.float64)
    x = example.x.float()
    state = layer.initial_state(2, memory=example.memory, like=x)
    with refused("expected x of torch.float64 as the layer's weights", "found torch.float32"):
        layer(x, state)


# What is given as a state


REMEMBERING = [
    pytest.param(config, id=describe(name, config))
    for name, kind in LAYERS.items()
    for config in kind.variants()
    if states.leaves(prepare(config)[2])
]


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("config", REMEMBERING)
def test_a_state_of_another_number_of_rows_is_refused(config: Any, steps: int) -> None:
    layer, x, _ = prepare(config, 2, steps)
    _, _, state = prepare(config, 3, steps)
    with refused("expected a state of 2 rows", "found 3 rows"):
        layer(x, state)
    _, _, state = prepare(config, 1, steps)  # which would broadcast in silence
    with refused("expected a state of 2 rows", "found 1 rows"):
        layer(x, state)


@pytest.mark.parametrize("name", sorted(set(LAYERS) - {"residual", "stack", "transformer-block"}))
def test_no_state_is_refused(name: str) -> None:
    layer, x, _ = prepare(LAYERS[name].variants()[0])
    with refused("expected a state of type recollect.", "found builtins.NoneType", "initial_state"):
        layer(x, None)


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize(
    ("name", "other"),
    [("rnn", "gru"), ("gru", "rnn"), ("lstm", "gru"), ("conv", "window"), ("attention", "linear-attention")],
)
def test_the_state_of_another_kind_of_layer_is_refused(name: str, other: str, steps: int) -> None:
    layer, stranger = build(name, dim=4), build(other, dim=4)
    kinds = [f"recollect.layers.{kind.replace('-', '_')}.State" for kind in (name, other)]
    with refused(f"expected a state of type {kinds[0]}", f"found {kinds[1]}"):
        layer(torch.randn(2, steps, 4), stranger.initial_state(2))


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize(
    ("name", "options", "others", "found"),
    [
        ("lstm", {}, {"width": 3}, "h of shape (2, 1, 3) where (2, 1, 4) fits"),
        ("lstm", {}, {"width": 9}, "h of shape (2, 1, 9) where (2, 1, 4) fits"),
        ("gru", {}, {"width": 5}, "h of shape (2, 1, 5) where (2, 1, 4) fits"),
        ("gru", {}, {"width": 1}, "h of shape (2, 1, 1) where (2, 1, 4) fits"),
        ("linear-attention", {"heads": 2}, {}, "sums of shape (2, 1, 4, 4) where (2, 2, 2, 2) fits"),
        ("ttt-linear", {"heads": 2}, {}, "model.weights.0 of shape (2, 1, 4, 4) where (2, 2, 2, 2) fits"),
    ],
    ids=str,
)
def test_the_state_of_a_layer_of_another_width_is_refused(
    name: str, options: dict[str, Any], others: dict[str, Any], found: str, steps: int
) -> None:
    for dtype in (torch.float32, torch.float64):  # which torch runs through different kernels
        layer, stranger = (build(name, dim=4, **settings).to(dtype) for settings in (options, others))
        with refused("expected a state made by this layer", f"found {found}"):
            layer(torch.randn(2, steps, 4, dtype=dtype), stranger.initial_state(2))


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize(
    ("name", "options", "other", "others"),
    [
        ("lstm", {"num_layers": 2}, "lstm", {}),
        ("lstm", {}, "lstm", {"num_layers": 2}),
        ("gru", {"num_layers": 2}, "gru", {}),
        ("rnn", {"num_layers": 2}, "rnn", {}),
        ("conv", {"kernel": 3}, "conv", {"kernel": 2}),
        ("conv", {"kernel": 3}, "conv", {"kernel": 5}),
        ("window", {"tau": 4}, "window", {"tau": 2}),
        ("ttt-linear", {}, "ttt-mlp", {}),
        ("ttt-mlp", {}, "ttt-linear", {}),
    ],
    ids=str,
)
def test_the_state_of_a_layer_of_another_depth_or_reach_is_refused(
    name: str, options: dict[str, Any], other: str, others: dict[str, Any], steps: int
) -> None:
    for dtype in (torch.float32, torch.float64):
        layer, stranger = build(name, dim=4, **options).to(dtype), build(other, dim=4, **others).to(dtype)
        with refused("expected", "found"):
            layer(torch.randn(2, steps, 4, dtype=dtype), stranger.initial_state(2))


def test_the_state_of_a_layer_with_other_heads_is_refused() -> None:
    layer, stranger = build("attention", dim=4, heads=2), build("attention", dim=4)
    x = torch.randn(2, 3, 4)
    _, state = stranger(x, stranger.initial_state(2))
    with refused("expected a state made by this layer", "found keys of shape (2, 3, 1, 4)"):
        layer(x, state)


def test_the_state_of_another_stack_is_refused() -> None:
    gru_first, lstm_first = (
        combine.StackConfig(dim=4, layers=layers).build()
        for layers in ((gru.Config(dim=4), lstm.Config(dim=4)), (lstm.Config(dim=4), gru.Config(dim=4)))
    )
    x = torch.randn(2, 3, 4)
    with refused("expected a state of type recollect.layers.gru.State", "found recollect.layers.lstm.State"):
        gru_first(x, lstm_first.initial_state(2))


def test_the_state_of_a_stack_of_another_height_is_refused() -> None:
    low, high = (combine.StackConfig(dim=4, layers=(gru.Config(dim=4),) * count).build() for count in (1, 2))
    x = torch.randn(2, 3, 4)
    with refused("expected", "found"):
        high(x, low.initial_state(2))
    with refused("expected", "found"):
        low(x, high.initial_state(2))


# Lengths

WRONG_LENGTHS = [
    pytest.param([6, 2], "to 5 (the steps of x)", "found 6 in row 0", id="longer than x"),
    pytest.param([2, -1], "to 5 (the steps of x)", "found -1 in row 1", id="negative"),
    pytest.param([1, 2, 3], "expected 2 whole numbers, one a row", "(3,)", id="too many"),
    pytest.param([[1, 2]], "expected 2 whole numbers, one a row", "(1, 2)", id="of another rank"),
    pytest.param(torch.tensor([1.0, 2.0]), "expected 2 whole numbers, one a row", "torch.float32", id="not whole"),
]


@pytest.mark.parametrize(("lengths", "expected", "found"), WRONG_LENGTHS)
@pytest.mark.parametrize("name", ["lstm", "attention", "conv", "ttt-linear"])
def test_wrong_lengths_are_refused_by_ragged_runs(name: str, lengths: Any, expected: str, found: str) -> None:
    with refused("lengths: expected", expected, found):
        ragged.run(build(name, dim=4), torch.randn(2, 5, 4), lengths)


@pytest.mark.parametrize(("lengths", "expected", "found"), WRONG_LENGTHS)
@pytest.mark.parametrize("name", ENCODERS)
def test_wrong_lengths_are_refused_by_encoders(name: str, lengths: Any, expected: str, found: str) -> None:
    config = ENCODERS[name].variants()[0]
    with refused("lengths: expected", expected, found):
        config.build()(torch.randn(2, 5, config.dim), lengths)


@pytest.mark.parametrize("name", ENCODERS)
def test_empty_rows_are_refused_by_encoders(name: str) -> None:
    config = ENCODERS[name].variants()[0]
    with refused("lengths: expected 1 to 5 (the steps of x)", "found 0 in row 1"):
        config.build()(torch.randn(2, 5, config.dim), [3, 0])


@pytest.mark.parametrize(
    ("shape", "dtype", "expected", "found"),
    [
        pytest.param((2, 5, 3), torch.float32, "expected x of shape (batch, steps, 4)", "(2, 5, 3)", id="width"),
        pytest.param((2, 4), torch.float32, "expected x of shape (batch, steps, 4)", "(2, 4)", id="rank"),
        pytest.param((2, 0, 4), torch.float32, "expected at least one step", "(2, 0, 4)", id="no steps"),
        pytest.param((2, 5, 4), torch.int64, "expected floating-point x", "torch.int64", id="whole numbers"),
    ],
)
@pytest.mark.parametrize("name", ["lstm", "attention", "linear-attention", "conv"])
def test_wrong_x_is_refused_by_ragged_runs(name: str, shape: Any, dtype: Any, expected: str, found: str) -> None:
    with refused(expected, found):
        ragged.run(build(name, dim=4), torch.ones(shape, dtype=dtype), [min(2, shape[1])] * 2)


@pytest.mark.parametrize("name", ["lstm", "attention", "linear-attention", "conv"])
def test_a_wrong_state_is_refused_by_ragged_runs(name: str) -> None:
    layer, stranger = build(name, dim=4), build("rnn", dim=4)
    with refused("expected a state of 2 rows", "found 3 rows"):
        ragged.run(layer, torch.randn(2, 5, 4), [5, 2], layer.initial_state(3))
    with refused("expected a state of type", "found recollect.layers.rnn.State"):
        ragged.run(layer, torch.randn(2, 5, 4), [5, 2], stranger.initial_state(2))


# Encoders


def encoder_of(name: str) -> tuple[Encoder, int]:
    config = ENCODERS[name].variants()[0]
    return config.build().double(), config.dim


@pytest.mark.parametrize("name", ENCODERS)
def test_wrong_shapes_are_refused_by_encoders(name: str) -> None:
    encoder, dim = encoder_of(name)
    for shape in ((2, 5, dim + 1), (5, dim), (2, 0, dim)):
        with refused(f"expected x of shape (batch, steps ≥ 1, {dim})", f"found {shape}"):
            encoder(torch.randn(shape).double())


@pytest.mark.parametrize("name", ENCODERS)
def test_whole_numbers_are_refused_by_encoders(name: str) -> None:
    encoder, dim = encoder_of(name)
    with refused("expected floating-point x", "found torch.int64"):
        encoder(torch.ones(2, 5, dim, dtype=torch.int64))


@pytest.mark.parametrize("name", ENCODERS)
def test_x_of_another_dtype_than_the_weights_is_refused_by_encoders(name: str) -> None:
    encoder, dim = encoder_of(name)
    with refused("expected x of torch.float64", "found torch.float32"):
        encoder(torch.randn(2, 5, dim))


# Settings


@pytest.mark.parametrize("name", ["attention", "cross-attention", "linear-attention", "ttt-linear", "ttt-mlp"])
def test_heads_that_do_not_divide_the_width_are_refused(name: str) -> None:
    with refused("expected heads to divide dim 8", "found 3 heads"):
        build(name, dim=8, heads=3)


@pytest.mark.parametrize("name", ["attention", "transformer"])
def test_heads_that_do_not_divide_the_width_of_an_encoder_are_refused(name: str) -> None:
    with refused("expected heads to divide dim 8", "found 3 heads"):
        build_encoder(name, dim=8, heads=3)


def test_shared_heads_that_do_not_divide_the_heads_are_refused() -> None:
    with refused("expected kv_heads to divide heads 4", "found 3 kv_heads"):
        build("attention", dim=8, heads=4, kv_heads=3)


@pytest.mark.parametrize("build_it", [build, build_encoder])
def test_rotary_positions_of_an_odd_head_are_refused(build_it: Any) -> None:
    with refused("rotary", "even", "found 3"):
        build_it("attention", dim=6, heads=2, positions="rotary")


def test_rotary_places_of_an_odd_head_are_refused() -> None:
    with refused("rotary", "even", "found 3"):
        build("ttt-linear", dim=6, heads=2, rotary=True)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("lstn", "lstm"), ("atention", "attention"), ("ttt_mlp", "ttt-mlp"), ("softalign", "soft-align")],
)
def test_an_unknown_layer_gets_a_suggestion(wrong: str, right: str) -> None:
    with refused("expected a layer out of window, rnn, lstm", f"found {wrong!r}", f"did you mean {right!r}?"):
        build(wrong, dim=4)


def test_a_layer_like_no_other_gets_the_list_and_no_suggestion() -> None:
    with refused("expected a layer out of", ", ".join(LAYERS), "found 'zzz'"):
        build("zzz", dim=4)
    with pytest.raises(ContractError) as caught:
        build("zzz", dim=4)
    assert "did you mean" not in str(caught.value)


def test_an_unknown_encoder_gets_a_suggestion() -> None:
    with refused("encoder out of forward, bidirectional", "found 'bidirektional'", "did you mean 'bidirectional'?"):
        build_encoder("bidirektional", dim=4, layer=gru.Config(dim=4))


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [("lstm", "num_layer", "num_layers"), ("attention", "head", "heads"), ("gru", "resets", "reset")],
)
def test_an_unknown_setting_gets_a_suggestion(name: str, wrong: str, right: str) -> None:
    with refused(f"expected a setting of {name} out of dim, ", f"found {wrong!r}", f"did you mean {right!r}?"):
        build(name, dim=4, **{wrong: 2})


@pytest.mark.parametrize(
    ("name", "setting", "value", "expected"),
    [
        ("attention", "score", "adidtive", "one of 'scaled', 'dot', 'additive', 'general'"),
        ("attention", "positions", "relative", "one of 'none', 'sinusoid', 'learned', 'rotary', 'alibi'"),
        ("attention", "alignment", "soft", "one of 'softmax', 'hard', 'local'"),
        ("rnn", "nonlinearity", "sigmoid", "one of 'tanh', 'relu'"),
        ("gru", "reset", "never", "one of 'after', 'before'"),
        ("soft-align", "order", "first", "one of 'align-first', 'cell-first'"),
        ("window", "map", "conv", "one of 'linear', 'mlp'"),
        ("lstm", "num_layers", 0, "a whole number of at least 1"),
        ("lstm", "num_layers", 1.5, "a whole number of at least 1"),
        ("lstm", "num_layers", True, "a whole number of at least 1"),
        ("lstm", "width", "four", "a whole number of at least 1"),
        ("lstm", "bias", 1, "True or False"),
        ("lstm", "dropout", 1.0, "a share from 0 to below 1"),
        ("lstm", "dropout", -0.1, "a share from 0 to below 1"),
        ("lstm", "forget_bias", "one", "a number"),
        ("conv", "kernel", 0, "a whole number of at least 1"),
        ("attention", "window", 0, "a whole number of at least 1"),
        ("ttt-linear", "mini_batch", 0, "a whole number of at least 1"),
    ],
    ids=str,
)
def test_a_setting_outside_its_range_is_refused(name: str, setting: str, value: Any, expected: str) -> None:
    with refused(f"expected {setting} to be {expected}", f"found {value!r}"):
        build(name, dim=4, **{setting: value})


@pytest.mark.parametrize("dim", [0, -1, 4.0, "4", True])
def test_a_width_that_is_no_count_is_refused(dim: Any) -> None:
    with refused("expected dim to be a whole number of at least 1", f"found {dim!r}"):
        build("lstm", dim=dim)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        pytest.param(config, name, id=describe(name, config))
        for name, kind in LAYERS.items()
        for config in kind.variants()
    ],
)
def test_every_setting_of_a_layer_can_be_given_to_build(config: Any, name: str) -> None:
    layer = build(name, **{field.name: getattr(config, field.name) for field in fields(config)})
    assert sum(p.numel() for p in layer.parameters()) == sum(p.numel() for p in config.build().parameters())


def test_layers_that_do_not_fit_each_other_are_refused() -> None:
    with refused("expected layer 1 to take width 6", "found dim 4"):
        build("stack", dim=4, layers=(gru.Config(dim=4, width=6), lstm.Config(dim=4)))
    with refused("expected a layer from 4 to 4", "found one from 4 to 6"):
        build("residual", dim=4, layer=gru.Config(dim=4, width=6))


# Memories

READERS = {
    "cross-attention": cross_attention.Config(dim=4, memory_dim=3),
    "soft-align": LAYERS["soft-align"](dim=4, memory_dim=3),  # type: ignore[call-arg]
    "transformer-block": transformer.Config(dim=4, cross=cross_attention.Config(dim=4, memory_dim=3)),
    "stack": combine.StackConfig(dim=4, layers=(attention.Config(dim=4), cross_attention.Config(dim=4, memory_dim=3))),
}


@pytest.mark.parametrize("name", READERS)
def test_a_missing_memory_is_refused(name: str) -> None:
    with refused("expected a memory", "initial_state(batch, memory=encoder(x))"):
        READERS[name].build().initial_state(2)


@pytest.mark.parametrize("name", READERS)
def test_a_memory_of_another_width_is_refused(name: str) -> None:
    with refused("expected a memory of 2 rows and width 3", "found 2 rows and width 5"):
        READERS[name].build().double().initial_state(2, memory=source(2, 6, 5))


@pytest.mark.parametrize("name", READERS)
def test_a_memory_of_other_rows_is_refused(name: str) -> None:
    with refused("expected a memory of 2 rows and width 3", "found 1 rows and width 3"):
        READERS[name].build().double().initial_state(2, memory=source(1, 6, 3))


def test_a_memory_whose_marks_do_not_fit_its_values_is_refused() -> None:
    memory = source(2, 6, 3)
    memory = memory._replace(valid=memory.valid[:, :4])
    for config in READERS.values():
        with refused("expected", "found"):
            config.build().double().initial_state(2, memory=memory)


# Weights from torch


@pytest.mark.parametrize(
    "module", [nn.LSTM(4, 5), nn.LSTM(4, 4, 2), nn.LSTM(4, 4, bias=False)], ids=["width", "depth", "bias"]
)
def test_torch_weights_of_another_size_are_refused(module: nn.LSTM) -> None:
    with refused("load_torch: expected", "found"):
        build("lstm", dim=4).load_torch(module)
