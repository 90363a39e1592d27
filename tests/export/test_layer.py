"""Steps of layers in onnxruntime: as the layers compute them, from any state, and refused where they differ."""

import numpy as np
import pytest
import torch

import recollect
import tiny
from recollect import layers
from recollect.core import state as states
from recollect.core.errors import RecollectError
from recollect.export import layer as export_layer
from recollect.export import weights
from recollect.models import language

QUICK = {"rnn": {}, "conv": {}, "attention": {"heads": 2}}
OTHERS = {
    name: {"heads": 2, "mini_batch": 4} if name.startswith("ttt") else {}
    for name in (
        "window",
        "lstm",
        "gru",
        "mingru",
        "minlstm",
        "linear-attention",
        *tiny.MATRICES,
        "ttt-linear",
        "ttt-mlp",
    )
}


def cases():
    for name, settings in (QUICK | OTHERS).items():
        yield pytest.param(name, settings, marks=[pytest.mark.slow] if name in OTHERS else [], id=name)


@pytest.mark.parametrize(("name", "settings"), list(cases()))
def test_a_step_goes_on_from_any_state_as_the_layer_does(name, settings):
    torch.manual_seed(1)
    layer = recollect.build(name, dim=8, **settings).eval()
    step = recollect.open_step(layer, threads=1)
    x = torch.randn(3, 9, 8)
    with torch.no_grad():
        wanted, _ = layer(x, layer.initial_state(3))
        _, middle = layer(x[:, :4], layer.initial_state(3))
    state = step.state_of({field: tensor.numpy() for field, tensor in states.named(middle)})
    for t in range(4, 9):
        y, state = step(x[:, t].numpy(), state)
        np.testing.assert_allclose(y, wanted[:, t].numpy(), rtol=1e-4, atol=1e-5)


def test_every_layer_that_needs_no_source_is_among_the_cases():
    assert set(layers.LINEAGE) - {"soft-align", "cross-attention"} == set(QUICK | OTHERS)


def test_a_model_of_tokens_takes_an_example():
    model = language.Config(vocab=11, model="rnn", width=8, layers=1).build().eval()
    step = recollect.open_step(model, torch.tensor([3]), threads=1)
    logits, _ = step(np.array([5]), step.initial_state(1))
    with torch.no_grad():
        wanted, _ = model(torch.tensor([[5]]))
    np.testing.assert_allclose(logits, wanted[:, 0].numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(RecollectError, match=r"an example of one step .* use example=torch\.tensor\(\[0\]\)"):
        recollect.open_step(model)


def test_a_step_that_computes_something_else_is_refused(monkeypatch):
    layer, convert = recollect.build("rnn", dim=4), weights.convert

    def altered(data, precision):
        import onnx

        proto = onnx.load_from_string(convert(data, precision))
        for tensor in proto.graph.initializer:
            if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) > 1:
                tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor) + 0.01, tensor.name))
        return proto.SerializeToString()

    monkeypatch.setattr(export_layer.weights, "convert", altered)
    with pytest.raises(RecollectError, match=r"expected a step that differs from the layer in float64 by at most"):
        recollect.open_step(layer)


@pytest.mark.parametrize(
    ("layer", "options", "message"),
    [
        (torch.nn.Linear(2, 2), {}, "expected a layer or model with initial_state, found Linear"),
        (recollect.build("rnn", dim=2), {"precision": "int4"}, "expected a precision out of float32, float16, int8"),
    ],
)
def test_what_has_no_step_is_refused(layer, options, message):
    with pytest.raises(RecollectError, match=message):
        recollect.open_step(layer, **options)
