"""A layer from outside as decoder, as encoder, and as both."""

from dataclasses import dataclass

import pytest
import torch

from recollect import layers
from recollect.core import laws
from recollect.core.contract import ContractError
from recollect.layers import rnn
from recollect.models import seq2seq
from recollect.tasks.captions import model as captioner


@dataclass(frozen=True, kw_only=True)
class Own(rnn.Config):
    gain: float = 1.0


@pytest.fixture(autouse=True)
def _registry():
    before = dict(layers.LAYERS)
    layers.add("own", Own)
    yield
    layers.LAYERS.clear()
    layers.LAYERS.update(before)


SIZES = {"source": 9, "target": 7, "width": 8, "heads": 2, "dropout": 0.0}
SIDES = {
    "both": {"model": "own", "layers": 2, "layer": {"gain": 2.0}},
    "both, of another width than the embedding": {"model": "own", "embed": 4, "both_ways": False, "encoder_layers": 2},
    "decoder": {"model": "own", "encoder": "gru"},
    "encoder, of a recurrent decoder": {"model": "attend", "encoder": "own"},
    "encoder, of a decoder that knows one vector": {"model": "fixed", "encoder": "own", "layers": 2},
    "encoder, of a transformer": {"model": "transformer", "encoder": "own", "both_ways": False},
    "encoder of the registry": {"model": "conv", "encoder": "linear-attention"},
}


@pytest.mark.parametrize("side", SIDES)
def test_a_layer_from_outside_holds_the_laws_as_encoder_and_decoder(side):
    torch.manual_seed(0)
    model = seq2seq.Config(**SIZES | SIDES[side]).build().double().eval()
    memory = model.encode(torch.randint(9, (3, 6)), torch.tensor([6, 2, 4]))
    found = laws.list_laws(model, torch.randint(7, (3, 5)), memory)
    for name in ("chunk", "cause", "row", "purity"):
        assert found[name]() < 1e-10, name
    alone = model.encode(torch.randint(9, (1, 2)))
    assert alone.values.shape[:2] == (1, 2)
    named = {type(module).__name__ for module in model.modules()}
    assert "RNN" in named or side == "encoder of the registry"


def test_a_layer_from_outside_describes_pictures():
    config = captioner.Config(words=11, model="own", width=8, pixels=16, channels=8, blocks=1)
    model = config.build().eval()
    memory = model.encode(torch.rand(2, 3, 16, 16))
    logits, _ = model(torch.randint(11, (2, 4)), memory=memory)
    assert logits.shape == (2, 4, 11)
    assert torch.isfinite(logits).all()
    assert model.explain(model.initial_state(2, memory), torch.zeros(2, dtype=torch.int64))["source"].shape[0] == 2


@pytest.mark.parametrize("model", ["attend", "own", "context"])
def test_a_layer_from_outside_reads_the_grid_of_a_picture(model):
    torch.manual_seed(0)
    config = captioner.Config(
        words=11, model=model, encoder="own", width=8, pixels=16, channels=8, blocks=1, dropout=0.0
    )
    made = config.build().eval()
    images = torch.rand(2, 3, 16, 16)
    memory = made.encode(images)
    assert (memory.values.shape, memory.shape) == ((2, 64, 16), (8, 8))
    with torch.no_grad():
        expected = made.reader(made.eye(images).values).values
    assert torch.allclose(memory.values, expected, atol=1e-6)
    assert not torch.allclose(made.encode(images.flip(-1)).values[:, -1], memory.values[:, -1]), "read from both ends"
    assert made(torch.randint(11, (2, 4)), memory=memory)[0].shape == (2, 4, 11)
    assert made.encoder_flops(2, 16) > made.eye.flops(2, 16)


def test_a_layer_that_cannot_read_a_picture_is_one_line():
    with pytest.raises(ContractError, match="found 'owm'; did you mean 'own'"):
        captioner.Config(words=11, encoder="owm")


def test_the_width_of_a_model_with_a_layer_from_outside_is_solved_for():
    config = seq2seq.Config(**SIZES | {"model": "own"}).sized(5_000)
    found = sum(each.numel() for each in config.build().parameters())
    assert abs(found - 5_000) < 800


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "own", "layer": {"gian": 1.0}}, "setting of own out of .*gain"),
        ({"model": "attend", "layer": {"gain": 1.0}}, "expected settings of a layer with a layer's name as the model"),
        ({"model": "owm"}, "found 'owm'"),
        ({"encoder": "owm"}, "found 'owm'; did you mean 'own'"),
        ({"encoder": "soft-align"}, "which reads a source"),
        ({"model": "dropout"}, "expected a layer whose Config has a width"),
    ],
)
def test_what_is_no_layer_or_no_setting_of_it_is_one_line(settings, message):
    with pytest.raises(ContractError, match=message):
        seq2seq.Config(**SIZES | settings)
