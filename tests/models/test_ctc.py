"""CTC and the listener: laws, ragged rows, and the loss against sums over all paths."""

import itertools
import math

import pytest
import torch

from recollect.core import laws
from recollect.core.contract import ContractError
from recollect.models import ctc, listen
from recollect.models.body import KINDS
from recollect.models.size import parameters

LENGTHS = torch.tensor([9, 4, 6])


def build(encoder="gru", **settings):
    torch.manual_seed(0)
    given = {"inputs": 5, "outputs": 4, "width": 8, "layers": 2, "heads": 2, "encoder": encoder}
    return ctc.Config(**given | settings).build().double().eval()


def listener(model="attend", **settings):
    torch.manual_seed(0)
    given = {"source": 5, "target": 6, "model": model, "width": 8, "heads": 2, "dropout": 0.0}
    return listen.Config(**given | settings).build().double().eval()


def frames(rows=3, steps=9, seed=1):
    return torch.randn(rows, steps, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("encoder", KINDS)
def test_every_memory_from_left_to_right_obeys_the_laws(encoder):
    laws.check(build(encoder), frames())


@pytest.mark.parametrize("encoder", ["gru", "tcn", "transformer"])
def test_both_ways_give_each_row_what_it_gives_alone(encoder):
    model = build(encoder, both_ways=True)
    assert laws.encoder_row(model, frames(), LENGTHS.tolist()) < 1e-10


@pytest.mark.parametrize("both_ways", [False, True])
def test_the_loss_of_a_row_does_not_depend_on_its_neighbours_nor_on_the_padding(both_ways):
    model, x = build(both_ways=both_ways), frames()
    texts, sizes = torch.tensor([[0, 1, 1, 2], [2, 9, 9, 9], [1, 0, 9, 9]]), torch.tensor([4, 1, 2])
    for row, length in enumerate(LENGTHS.tolist()):
        x[row, length:] = math.nan
    together = ctc.text_losses(ctc.log_probabilities(model, x, LENGTHS), LENGTHS, texts, sizes)
    together.sum().backward()
    gradient = {name: own.grad.clone() for name, own in model.named_parameters()}
    model.zero_grad()
    for row, (length, size) in enumerate(zip(LENGTHS.tolist(), sizes.tolist(), strict=True)):
        one = ctc.log_probabilities(model, x[row : row + 1, :length], LENGTHS[row : row + 1])
        alone = ctc.text_losses(one, LENGTHS[row : row + 1], texts[row : row + 1, :size], sizes[row : row + 1])
        alone.sum().backward()
        assert alone.item() == pytest.approx(together[row].item(), rel=1e-10)
    for name, own in model.named_parameters():
        assert torch.allclose(own.grad, gradient[name], rtol=1e-9, atol=1e-12), name


def test_the_loss_is_the_sum_over_all_paths():
    model, x = build(), frames(1, 5)
    logp = ctc.log_probabilities(model, x, torch.tensor([5]))
    total = 0.0
    for path in itertools.product(range(4), repeat=5):
        text = [label for label, _ in itertools.groupby(path) if label != 3]
        if text == [0, 0]:
            total += math.exp(sum(logp[0, t, label].item() for t, label in enumerate(path)))
    found = ctc.text_losses(logp, torch.tensor([5]), torch.tensor([[0, 0]]), torch.tensor([2]))
    assert found.item() == pytest.approx(-math.log(total), rel=1e-9)


def test_the_loss_and_its_gradient_are_the_same_bits_each_time():
    model, x = build().float(), frames().float()
    found = []
    for _ in range(3):
        model.zero_grad()
        logp = ctc.log_probabilities(model, x, LENGTHS)
        loss = ctc.text_losses(logp, LENGTHS, torch.tensor([[0, 1], [2, 0], [1, 0]]), torch.tensor([2, 1, 2])).sum()
        loss.backward()
        found.append([loss.detach(), *(own.grad.clone() for own in model.parameters())])
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))
    assert logp.dtype == torch.float32


def test_a_text_without_a_path_is_infinitely_unlikely():
    logp = torch.zeros(1, 3, 4).log_softmax(dim=-1)
    found = ctc.text_losses(logp, torch.tensor([3]), torch.tensor([[0, 0, 0]]), torch.tensor([3]))
    assert math.isinf(float(found))


def test_a_number_of_parameters_decides_the_width():
    for both_ways in (False, True):
        config = ctc.Config(inputs=5, outputs=4, encoder="gru", both_ways=both_ways).fitted(20_000)
        assert parameters(config.build()) == pytest.approx(20_000, rel=0.05)


def test_an_encoder_that_is_none_is_one_line():
    with pytest.raises(ContractError, match="found 'gruu'; did you mean 'gru'"):
        ctc.Config(inputs=5, outputs=4, encoder="gruu")


@pytest.mark.parametrize("model", ["fixed", "context", "attend", "conv", "transformer"])
def test_a_listener_reads_each_row_as_alone_whatever_is_in_the_padding(model):
    own, x = listener(model), frames()
    tokens = torch.tensor([[1, 2, 3], [3, 2, 1], [0, 0, 1]])
    for row, length in enumerate(LENGTHS.tolist()):
        x[row, length:] = math.nan
    together, _ = own(tokens, memory=own.encode(x, LENGTHS))
    for row, length in enumerate(LENGTHS.tolist()):
        alone, _ = own(tokens[row : row + 1], memory=own.encode(x[row : row + 1, :length]))
        assert torch.allclose(alone[0], together[row], atol=1e-10)
    together.square().sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in own.parameters() if p.grad is not None)
    assert bool(own.source_embedding.weight.grad.any()), "the sound counts"


def test_what_is_no_sound_is_one_line():
    with pytest.raises(ContractError, match="expected frames of shape"):
        listener().encode(torch.zeros(2, 3))
    with pytest.raises(ContractError, match="share"):
        listen.Config(source=5, target=5, share="all")
