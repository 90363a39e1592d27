"""Layers by name: settings and names that are refused."""

from dataclasses import fields
from typing import Any

import pytest
from torch import nn

from laws.cases import describe
from oracles import refused
from recollect.core.contract import ContractError
from recollect.layers import LAYERS, build, build_encoder, gru, lstm

DIVIDED = ("expected heads to divide dim 8", "found 3 heads")
SHARED = ("expected kv_heads to divide heads 4", "found 3 kv_heads")
ODD = ("rotary", "even", "found 3")


@pytest.mark.parametrize(
    ("make", "name", "settings", "message"),
    [
        *((build, name, {"dim": 8, "heads": 3}, DIVIDED) for name in ("attention", "cross-attention")),
        *((build, name, {"dim": 8, "heads": 3}, DIVIDED) for name in ("linear-attention", "ttt-linear", "ttt-mlp")),
        *((build_encoder, name, {"dim": 8, "heads": 3}, DIVIDED) for name in ("attention", "transformer")),
        (build, "attention", {"dim": 8, "heads": 4, "kv_heads": 3}, SHARED),
        *((make, "attention", {"dim": 6, "heads": 2, "positions": "rotary"}, ODD) for make in (build, build_encoder)),
        (build, "ttt-linear", {"dim": 6, "heads": 2, "rotary": True}, ODD),
    ],
)
def test_heads_that_do_not_fit_are_refused(make: Any, name: str, settings: dict[str, Any], message: Any) -> None:
    with refused(*message):
        make(name, **settings)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("lstn", "lstm"), ("atention", "attention"), ("tttmpl", "ttt-mlp"), ("softalign", "soft-align")],
)
def test_an_unknown_layer_gets_a_suggestion(wrong: str, right: str) -> None:
    with refused("expected a layer out of window, rnn, lstm", f"found {wrong!r}", f"did you mean {right!r}?"):
        build(wrong, dim=4)


def test_a_layer_like_no_other_gets_the_list_and_no_suggestion() -> None:
    with pytest.raises(ContractError, match=f"expected a layer out of {', '.join(LAYERS)}, found 'zzz'$"):
        build("zzz", dim=4)


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
        *(("lstm", "dim", dim, "a whole number of at least 1") for dim in (0, -1, 4.0, "4", True)),
    ],
    ids=str,
)
def test_a_setting_outside_its_range_is_refused(name: str, setting: str, value: Any, expected: str) -> None:
    with refused(f"expected {setting} to be {expected}", f"found {value!r}"):
        build(name, **{"dim": 4, setting: value})


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


@pytest.mark.parametrize(
    "module", [nn.LSTM(4, 5), nn.LSTM(4, 4, 2), nn.LSTM(4, 4, bias=False)], ids=["width", "depth", "bias"]
)
def test_torch_weights_of_another_size_are_refused(module: nn.LSTM) -> None:
    with refused("load_torch: expected", "found"):
        build("lstm", dim=4).load_torch(module)
