"""Attention weights against the layer's own equations."""

import math

import pytest
import torch

from measure.probes import build, subject
from recollect.core.contract import ContractError
from recollect.measure import attention


@pytest.mark.parametrize("window", [None, 3])
def test_attention_weights_stand_at_the_steps_they_look_at(window):
    """Against the weights of the layer's own equations, ring or no ring."""
    own = {} if window is None else {"layer": {"window": window}}
    model = build("transformer", layers=1, **own)
    given = subject(model, rows=1, steps=7)
    found = attention.weights(given)
    assert list(found) == ["layer 1 head 1", "layer 1 head 2"]
    block = model.body.layers[0]
    layer = block.layer
    x = block.norm.apply_to(model.embed(given.x))
    now = torch.arange(7)[None]
    q, (k, _) = layer.query(x, now)[0], layer.project_keys_values(x, now)
    for head in range(2):
        scores = q[:, head] @ k[0, :, head].T / math.sqrt(q.shape[-1])
        far = torch.arange(7)[:, None] - torch.arange(7)
        seen = (far >= 0) & (far < (window or 99))
        expected = scores.masked_fill(~seen, -math.inf).softmax(dim=-1)
        assert torch.allclose(found[f"layer 1 head {head + 1}"], expected.float(), atol=1e-6)


def test_a_model_without_attention_has_no_weights_and_a_layer_that_is_not_there_is_told():
    assert attention.weights(subject(build("lstm"))) == {}
    given = subject(build("transformer"))
    heads = attention.weights(given)
    assert len(heads) == 4
    assert len(attention.maps(given, heads, layer=2)) == 3, "two heads and their mean"
    with pytest.raises(ContractError, match="from 1 to 2, found 5"):
        attention.maps(given, heads, layer=5)
