"""Layers as classes with keyword arguments, and with the arguments of torch.nn."""

import copy
import inspect
from dataclasses import fields

import pytest
import torch
from tools import layers as stub
from torch import nn

from laws.cases import describe
from oracles import refused
from recollect import layers
from recollect.core.contract import ContractError
from recollect.layers import ENCODERS, GRU, LAYERS, LSTM, RNN, Attention, Bidirectional, build, build_encoder, classes
from recollect.layers import lstm as lstm_file

CASES = [
    pytest.param(make, name, layer, config, id=f"{layer.__name__}-{describe(name, config)}")
    for make, kinds, configs in ((build, classes.LAYERS, LAYERS), (build_encoder, classes.ENCODERS, ENCODERS))
    for name, layer in kinds.items()
    for config in configs[name].variants()
]
RECURRENT = pytest.mark.parametrize("layer", [RNN, LSTM, GRU])
REFUSED = {
    "batch_first": (False, "expected batch_first=True", "x.transpose(0, 1)"),
    "bidirectional": (True, "expected bidirectional=False", 'build_encoder("bidirectional", dim=4'),
    "proj_size": (3, "expected proj_size=0", "nn.Linear(6, 3)"),
    "device": ("cpu", "expected device=None", ".to('cpu')"),
    "dtype": (torch.float64, "expected dtype=None", ".to(torch.float64)"),
}


@pytest.mark.parametrize(("make", "name", "layer", "config"), CASES)
def test_a_class_gives_the_layer_that_build_gives(make, name, layer, config):
    settings = {field.name: getattr(config, field.name) for field in fields(config)}
    torch.manual_seed(0)
    built = make(name, **settings)
    torch.manual_seed(0)
    made = layer(**settings)
    assert isinstance(made, layer)
    assert isinstance(built, layer) or name.startswith("ttt")
    assert type(made).forward is type(built).forward
    before, after = built.state_dict(), made.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(before[key], after[key]) for key in before)


def test_every_layer_of_the_package_has_a_class():
    own = {name for name, config in LAYERS.items() if config.__module__.startswith("recollect.")}
    assert set(classes.LAYERS) == own
    assert set(classes.ENCODERS) == set(ENCODERS)
    named = {layer.__name__: layer for layer in (*classes.LAYERS.values(), *classes.ENCODERS.values())}
    assert {name: getattr(layers, name) for name in named} == named
    assert set(named) <= set(layers.__all__)
    assert dir(layers) == sorted(layers.__all__)


def test_a_signature_has_the_settings_and_their_defaults():
    assert str(inspect.signature(Attention)).startswith("(*, dim: int, width: int | None = None, heads: int = 1,")
    assert list(inspect.signature(Bidirectional).parameters) == ["dim", "layer", "num_layers", "dropout"]


def test_the_stub_says_what_the_settings_are():
    assert stub.PATH.read_text(encoding="utf-8") == stub.document(), "python -m tools.layers writes it"


def test_a_subclass_is_made_from_keyword_arguments_too():
    class Own(LSTM):
        def __init__(self) -> None:
            super().__init__(dim=4, width=3)

    class Same(LSTM):
        pass

    assert (Own().dim, Own().width) == (4, 3)
    assert isinstance(Same(4, 3), Same)
    assert isinstance(copy.deepcopy(Same(4)), Same)
    with refused("expected a setting of Same out of dim, ", "found 'widht'", "did you mean 'width'?"):
        Same(dim=4, widht=3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Attention(8), "Attention: expected settings by name, such as dim=8, found 1 values without a name"),
        (lambda: LSTM(4, 6, 1, True), "LSTM: expected settings by name after input_size, hidden_size, num_layers"),
        (lambda: LSTM(4, input_size=4), "LSTM: expected input_size once"),
        (lambda: LSTM(dim=4, input_size=4), "LSTM: expected dim or input_size, which mean the same, found both"),
        (lambda: LSTM(), "LSTM: expected the settings dim, found none"),
        (lambda: build("lstm"), "lstm: expected the settings dim, found none"),
        (lambda: LSTM(dim=4, layers=2), "did you mean 'num_layers'"),
    ],
)
def test_arguments_that_do_not_fit_are_one_line(make, message):
    with pytest.raises(ContractError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------- as torch.nn has them


@RECURRENT
@pytest.mark.parametrize("num_layers", [1, 2])
def test_the_arguments_of_torch_give_the_layer_of_torch(layer, num_layers):
    torch.manual_seed(0)
    theirs = getattr(nn, layer.__name__)(4, 6, num_layers, batch_first=True)
    named = layer(input_size=4, hidden_size=6, num_layers=num_layers, batch_first=True, bidirectional=False)
    assert named.config == layer(4, 6, num_layers).config == layer(dim=4, width=6, num_layers=num_layers).config
    assert named.config == build(layer.__name__.lower(), input_size=4, hidden_size=6, num_layers=num_layers).config
    named.load_state_dict(theirs.state_dict())
    x = torch.randn(3, 7, 4)
    assert torch.allclose(named(x, named.initial_state(3))[0], theirs(x)[0], atol=1e-6)


@RECURRENT
@pytest.mark.parametrize("options", [{}, {"num_layers": 2}, {"bias": False, "dtype": torch.float64}], ids=str)
def test_a_module_of_torch_becomes_a_layer_that_computes_the_same(layer, options):
    theirs = getattr(nn, layer.__name__)(4, 6, **options).eval()  # steps first
    ours = layer.from_torch(theirs)
    assert not ours.training
    x = torch.randn(3, 7, 4, dtype=options.get("dtype"))
    y, _ = ours(x, ours.initial_state(3))
    assert torch.allclose(y, theirs(x.transpose(0, 1))[0].transpose(0, 1), atol=1e-6)
    with torch.no_grad():
        theirs.weight_ih_l0.zero_()
    assert ours.weight_ih_l0.abs().min() > 0, "the weights are a copy"


def test_a_relu_and_a_dropout_are_taken_from_torch_too():
    assert (
        RNN.from_torch(nn.RNN(4, 6, 2, nonlinearity="relu", dropout=0.5)).config
        == RNN(4, 6, 2, nonlinearity="relu", dropout=0.5).config
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LSTM.from_torch(nn.GRU(4, 6)), "expected a one-way LSTM, found GRU"),
        (lambda: LSTM.from_torch(nn.LSTM(4, 6, bidirectional=True)), "build the encoder `bidirectional` for that"),
        (lambda: LSTM.from_torch(nn.LSTM(4, 6, proj_size=2)), "without projections, found proj_size=2"),
    ],
)
def test_a_module_of_another_kind_is_refused(make, message):
    with pytest.raises(ContractError, match=message):
        make()


@RECURRENT
@pytest.mark.parametrize("argument", REFUSED)
def test_an_argument_that_is_not_offered_is_answered_by_what_to_use(layer, argument):
    value, expected, instead = REFUSED[argument]
    for make in (layer, lambda *own, **more: build(layer.__name__.lower(), input_size=4, hidden_size=6, **more)):
        with refused(expected, f"found {argument}={value}", instead):
            make(4, 6, **{argument: value})


def test_what_is_named_in_place_of_bidirectional_computes_what_torch_does():
    with pytest.raises(ContractError) as caught:
        LSTM(4, 6, bidirectional=True)
    code = str(caught.value).partition(" use ")[2]
    encoder = eval(code, {"build_encoder": build_encoder, "lstm": lstm_file})
    theirs = nn.LSTM(4, 6, bidirectional=True, batch_first=True)
    encoder.load_torch(theirs)
    x = torch.randn(2, 5, 4)
    assert torch.allclose(encoder(x).values, theirs(x)[0], atol=1e-6)
