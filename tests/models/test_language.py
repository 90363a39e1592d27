"""Language models of every kind: the laws of the contract, what dropout touches, parameters by hand."""

import math

import pytest
import torch

import tiny
from models.small import VOCAB, built, config, tokens
from recollect.core import laws
from recollect.core.contract import ContractError
from recollect.models import language
from recollect.models.size import parameters


@pytest.mark.parametrize("tie", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("block", ["plain", "residual"])
@pytest.mark.parametrize("model", tiny.KINDS)
def test_a_language_model_of_every_kind_keeps_the_laws(model, block, tie):
    found = laws.check(built(model, block=block, tie=tie), tokens())
    assert set(found) == {"chunk", "cause", "row", "ragged", "purity", "size", "file"}
    laws.buffered(built(model, block=block, tie=tie), tokens(), [3, 1, 1, 2])


@pytest.mark.parametrize("positions", ["none", "sinusoid", "learned", "rotary", "alibi"])
def test_every_kind_of_position_keeps_the_laws(positions):
    model = built("transformer", positions=positions)
    laws.check(model, tokens())
    laws.buffered(model, tokens(), [3, 1, 1, 2])


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("transformer", {"order": "post", "norm": "rms", "activation": "swiglu", "bias": True}),
        ("transformer", {"layer": {"window": 3}}),
        ("transformer", {"layer": {"kv_heads": 1}, "positions": "alibi"}),
        ("transformer", {"feed": False, "norm": "none"}),
        ("lstm", {"embed": 4}),
        ("lstm", {"embed": 4, "tie": False}),
        ("gru", {"norm": "batch", "block": "residual"}),
        ("mlp", {"hidden": 5, "layer": {"tau": 3}}),
        ("tcn", {"layer": {"kernel": 2}}),
        ("ttt-linear", {"layer": {"mini_batch": 3}}),
        ("linear-transformer", {"positions": "learned"}),
    ],
    ids=str,
)
def test_settings_keep_the_laws(model, settings):
    laws.check(built(model, **settings), tokens())


@pytest.mark.parametrize("model", tiny.KINDS)
def test_dropout_of_every_kind_is_off_outside_training(model):
    noisy = {"dropout": 0.5, "input_dropout": 0.4, "output_dropout": 0.3, "word_dropout": 0.3, "variational": True}
    if model in ("rnn", "lstm", "gru"):
        noisy["layer"] = {"weight_dropout": 0.5}
    plain, dropped = built(model), built(model, **noisy)
    # the same weights under the other model's names: dropout layers shift the numbers of the layers
    dropped.load_state_dict(dict(zip(dropped.state_dict(), plain.state_dict().values(), strict=True)))
    assert torch.equal(plain(tokens())[0], dropped(tokens())[0])
    laws.check(dropped, tokens())
    dropped.train()
    torch.manual_seed(1)
    first = dropped(tokens())[0]
    assert not torch.allclose(first, plain(tokens())[0])
    assert not torch.allclose(first, dropped(tokens())[0]), "each call leaves out something else"


def test_word_dropout_leaves_out_whole_words():
    model = built("rnn", word_dropout=0.5).train()
    found = model.embed(torch.arange(VOCAB).repeat(2, 40))
    assert found.shape == (2, 40 * VOCAB, 8)
    by_word = found.view(2, 40, VOCAB, 8)
    assert torch.equal(by_word, by_word[:1, :1].expand_as(by_word)), "the same words wherever they stand"
    for word, vector in enumerate(by_word[0, 0]):
        scaled = 2 * model.embedding.weight[word]
        assert torch.equal(vector, torch.zeros_like(vector)) or torch.allclose(vector, scaled)
    zeros = [not v.any() for _ in range(60) for v in model.embed(torch.arange(VOCAB)[None])[0]]
    assert sum(zeros) / len(zeros) == pytest.approx(0.5, abs=4 * math.sqrt(0.25 / len(zeros)))


def test_variational_dropout_keeps_one_mask_for_a_chunk():
    for variational in (True, False):
        model = built("mlp", layers=1, input_dropout=0.5, variational=variational).train()
        drop = model.body.layers[0]
        y, _ = drop(torch.ones(2, 30, 8, dtype=torch.float64), drop.initial_state(2))
        same = (y == y[:, :1]).all()
        assert bool(same) == variational
        assert set(y.unique().tolist()) == {0, 2}


@pytest.mark.parametrize("model", tiny.KINDS)
def test_the_loss_is_the_cross_entropy_of_the_logits(model):
    lm = built(model)
    x, y = tokens(3, 8)[:, :-1], tokens(3, 8)[:, 1:]
    logits, _ = lm(x)
    expected = -logits.log_softmax(-1).gather(-1, y[..., None])[..., 0]
    found, _ = lm.nll(x, y)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("model", tiny.KINDS)
def test_an_untrained_model_guesses(model):
    """Small starting weights: no token is far likelier than another."""
    torch.manual_seed(0)
    lm = language.Config(vocab=50, model=model, width=32).build().eval()
    x = torch.randint(50, (4, 20))
    losses, _ = lm.nll(x, x.roll(-1, 1))
    assert losses.mean().item() == pytest.approx(math.log(50), rel=0.15)


@pytest.mark.parametrize("x", [torch.zeros(2, 3), torch.zeros(2, 0).long(), torch.zeros(2, 3, 1).long()], ids=str)
def test_what_are_no_tokens_is_refused(x):
    with pytest.raises(ContractError, match="expected tokens of shape"):
        built("rnn")(x)


def test_tokens_outside_the_vocabulary_are_named():
    model = built("rnn")
    with pytest.raises(ContractError, match="expected tokens from 0 to 6, found 3 to 9"):
        model(torch.tensor([[3, 9]]), model.initial_state(1))


def test_a_state_of_another_model_is_refused():
    with pytest.raises(ContractError, match="expected a state"):
        built("rnn")(tokens(), built("lstm").initial_state(3))


def test_a_residual_model_keeps_one_width_and_a_tied_one_too():
    with pytest.raises(ContractError, match="residual blocks keep one width"):
        built("transformer", embed=4)
    with pytest.raises(ContractError, match="did you mean 'forget_bias'"):
        built("lstm", layer={"forget_bais": 1.0})


V, W, L = 11, 6, 3


def size(**settings):
    return parameters(language.Config(**{"vocab": V, "width": W, "layers": L} | settings).build())


def test_the_parameters_of_an_lstm_are_counted_by_hand():
    """Each layer: 4 gates with W and U of w × w, and two biases of w. Then the embedding and a bias of the output."""
    layer = 4 * (2 * W * W + 2 * W)
    assert size(model="lstm") == V * W + L * layer + V
    assert size(model="lstm", tie=False) == 2 * V * W + L * layer + V
    first, middle, last = (4 * ((i + o) * o + 2 * o) for i, o in ((4, W), (W, W), (W, 4)))
    assert size(model="lstm", embed=4) == V * 4 + first + middle + last + V, (
        "the last layer comes back to the embedding"
    )
    assert size(model="gru") == V * W + L * 3 * (2 * W * W + 2 * W) + V
    assert size(model="rnn") == V * W + L * (2 * W * W + 2 * W) + V


def test_the_parameters_of_a_transformer_are_counted_by_hand():
    """Each layer: q, k, v and out of w × w, up and down of w × 4w, two norms with scale and shift; a last norm."""
    layer = 4 * W * W + 2 * 4 * W * W + 2 * 2 * W
    assert size(model="transformer", heads=3) == V * W + L * layer + 2 * W + V
    assert size(model="transformer", heads=3, tie=False) == 2 * V * W + L * layer + 2 * W + V
    learned = size(model="transformer", heads=3, positions="learned", max_positions=9)
    assert learned == V * W + L * layer + 2 * W + V + 9 * W
    assert size(model="transformer", heads=3, order="post") == V * W + L * layer + V, "post-norm needs none at the end"
    swiglu = 4 * W * W + 3 * W * 10 + 2 * W
    assert size(model="transformer", heads=3, activation="swiglu", hidden=10, norm="rms") == V * W + L * swiglu + W + V


@pytest.mark.parametrize("model", tiny.KINDS)
def test_tied_weights_are_one_and_counted_once(model):
    tied, free = config(model).build(), config(model, tie=False).build()
    assert tied.head.weight is tied.embedding.weight
    assert free.head.weight is not free.embedding.weight
    assert parameters(free) - parameters(tied) == VOCAB * 8
    with torch.no_grad():
        tied.embedding.weight.zero_()
    assert not tied.head.weight.any()


@pytest.mark.parametrize("model", ["lstm", "transformer"])
def test_a_head_may_have_no_biases(model):
    biased, plain = built(model), built(model, head_bias=False)
    assert plain.head.bias is None
    assert parameters(biased) - parameters(plain) == VOCAB
    laws.check(plain, tokens())
    biased.load_state_dict(plain.state_dict(), strict=False)  # its biases are zero
    x, targets = tokens(), tokens().roll(1, 1)
    torch.testing.assert_close(plain.nll(x, targets)[0], biased.nll(x, targets)[0])
    torch.testing.assert_close(plain.nll(x, targets, reduction="mean")[0], biased.nll(x, targets)[0].mean())


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru", "transformer"])
@pytest.mark.parametrize("bias", [None, False, True])
def test_a_bias_that_is_named_reaches_the_layers(kind, bias):
    model = language.Config(vocab=7, model=kind, width=8, heads=2, layers=1, bias=bias).build()
    found = any("bias" in name for name, _ in model.body.named_parameters() if "norm" not in name.lower())
    assert found == (kind != "transformer" if bias is None else bias)
