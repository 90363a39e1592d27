"""A convolution before each layer of a residual body."""

import pytest
import torch

from recollect.core import laws
from recollect.core.contract import ContractError
from recollect.models import body, language
from recollect.models.size import parameters


@pytest.mark.parametrize("model", ["transformer", "linear-transformer", "ttt-linear"])
def test_a_body_with_taps_obeys_the_laws(model):
    torch.manual_seed(0)
    layer = {"mini_batch": 3} if model == "ttt-linear" else {}
    config = language.Config(vocab=9, model=model, width=8, heads=2, layers=2, taps=3, layer=layer)
    built = config.build().double().eval()
    laws.check(built, torch.randint(9, (3, 7)))
    assert parameters(built) == parameters(language.Config(**vars(config) | {"taps": None}).build()) + 2 * (
        8 * 3 + 8 + 2 * 8  # its weights and biases, and the norm before it
    )


def test_taps_mix_so_many_tokens_and_no_more():
    torch.manual_seed(0)
    config = language.Config(vocab=9, model="ttt-linear", width=8, heads=2, layers=1, taps=3, feed=False)
    near = config.build().double().eval().body.layers[0]
    x = torch.randn(1, 6, 8, dtype=torch.float64, requires_grad=True)
    near(x, near.initial_state(1))[0][0, 5].sum().backward()
    assert x.grad is not None
    assert (x.grad[0].abs().sum(dim=1) > 0).tolist() == [False, False, False, True, True, True]


def test_a_plain_stack_has_none():
    with pytest.raises(ContractError, match="expected residual blocks with taps=4, found a plain stack"):
        language.Config(vocab=9, model="lstm", taps=4)
    with pytest.raises(ContractError, match="taps"):
        language.Config(vocab=9, model="transformer", taps=0)


@pytest.mark.parametrize(
    ("given", "found"), [("LSTM", "lstm"), ("Attention", "attention"), ("Linear_Attention", "linear-attention")]
)
def test_models_and_layers_are_found_in_other_letters(given, found):
    assert (
        body.StackedModels.check_model.__func__(type("Task", (), {"models": ("lstm", "transformer")}), given) == found
    )
