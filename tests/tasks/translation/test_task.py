"""Translation as a task: losses, batches and guesses against what a reader can work out."""

import math
from dataclasses import replace
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div

from recollect.core import ragged
from recollect.core.contract import Memory
from recollect.data.files import DataError
from recollect.models import seq2seq
from recollect.tasks.decoding import logits_of, token_losses
from recollect.tasks.translation import task as translation
from recollect.tasks.translation.pairs import batches_by_tokens
from recollect.tasks.translation.settings import Config
from recollect.tasks.translation.task import TranslationTask
from tasks.cases import TRAIN, VALID
from tasks.translation.cases import build, load, task

every_kind = pytest.mark.parametrize("kind", seq2seq.MODELS)


def alone(model, data, source, target):
    """−log p of each token of one target and its end, its source read alone: a loop over nothing but one pair."""
    memory = model.encode(torch.tensor([[*source, data.source.end]]))
    logits, _ = model(torch.tensor([[data.target.begin, *target]]), memory=memory)
    likely = (logits[0].exp() / logits[0].exp().sum(dim=-1, keepdim=True)).detach()
    return [-likely[t, token].log() for t, token in enumerate([*target, data.target.end])]


def rows_of(pairs):
    return [(pairs.source_of(i).tolist(), pairs.target_of(i).tolist()) for i in range(len(pairs))]


class Last(NamedTuple):
    x: Tensor  # B


class Chain(nn.Module):
    """A table: what comes next depends on the last token alone, never on the source."""

    def __init__(self, table):
        super().__init__()
        self.register_buffer("table", table)  # V V, logits
        self.read = []

    def encode(self, source, lengths):
        return Memory(torch.zeros(*source.shape, 1), ragged.mask(lengths, source.shape[1]))

    def initial_state(self, batch, memory=None, like=None, capacity=None):
        return Last(torch.zeros(batch))

    def forward(self, x, state=None, memory=None):
        self.read.append(x)
        return self.table[x], Last(x[:, -1])


def chain(data, *texts):
    """Always goes on as the texts do, where they say how."""
    torch.manual_seed(0)
    found = torch.randn(data.target.size, data.target.size, dtype=torch.float64)
    for text in texts:
        tokens = [data.target.begin, *data.target.encode(text).tolist(), data.target.end]
        for a, b in pairwise(tokens):
            found[a, b] = 5.0
    return Chain(found)


@every_kind
def test_the_loss_is_the_mean_over_the_real_tokens_of_each_pair_read_alone(data, kind):
    model, work = build(data, kind), task(data, smoothing=0.0, batch=200)
    batch = work.batch(data.train, np.array([0, 2, 10, 3]))
    assert (batch.y == data.target.pad).any(), "there is padding to ignore"
    assert (batch.lengths < batch.source.shape[1]).any()
    expected = [loss for i in (0, 2, 10, 3) for loss in alone(model, data, *rows_of(data.train)[i])]
    found = work.loss(model, batch)
    assert found.tokens == batch.tokens == len(expected) == 6 + 3 + 2 + 4
    assert found.value.item() == pytest.approx(float(sum(expected)) / len(expected), rel=1e-12)


@every_kind
def test_neither_padding_nor_other_rows_matter(data, kind):
    model, work = build(data, kind), task(data, smoothing=0.1)
    batch = work.batch(data.train, np.array([0, 2, 10]))
    junk = batch._replace(source=batch.source.clone(), x=batch.x.clone())
    junk.source[ragged.mask(batch.lengths, batch.source.shape[1]).logical_not()] = 5
    junk.x[batch.y == data.target.pad] = 4
    assert not torch.equal(junk.source, batch.source)
    assert not torch.equal(junk.x, batch.x)
    assert work.loss(model, junk).value.item() == pytest.approx(work.loss(model, batch).value.item(), rel=1e-12)
    memory = model.encode(batch.source, batch.lengths)
    together = token_losses(logits_of(model, batch.x, memory), batch.y, data.target.pad)
    for row, i in enumerate((0, 2, 10)):
        other = work.batch(data.train, np.array([i, 4]))
        logits = logits_of(model, other.x, model.encode(other.source, other.lengths))
        found = token_losses(logits, other.y, data.target.pad)[0]
        real = len(data.train.target_of(i)) + 1
        torch.testing.assert_close(together[row, :real], found[:real], rtol=1e-10, atol=1e-12)
        assert not together[row, real:].any()


def test_consistency_is_the_divergence_of_two_draws_of_dropout(data):
    model = build(data, dropout=0.4)
    plain, work = task(data), task(data, consistency=1.5)
    batch = next(iter(work.batches("train", 0)))
    model.train()
    torch.manual_seed(3)
    found = work.loss(model, batch)
    torch.manual_seed(3)
    both = type(batch)(*(torch.cat([part, part]) for part in batch[:4]), batch.tokens, batch.number)
    logits, _ = model(both.x, memory=model.encode(both.source, both.lengths))
    real = batch.y != data.target.pad
    p, q = (half[real].softmax(dim=-1) for half in logits.chunk(2))
    apart = (kl_div(q.log(), p, reduction="sum") + kl_div(p.log(), q, reduction="sum")) / 2 / real.sum()
    torch.manual_seed(3)
    torch.testing.assert_close(found.value, plain.loss(model, both).value + 1.5 * apart)
    assert float(apart.detach()) > 0
    assert found.tokens == batch.tokens
    model.eval()
    torch.testing.assert_close(work.loss(model, batch).value, plain.loss(model, batch).value)
    assert work.flops(model, 4, 5, 6) == 2 * plain.flops(model, 4, 5, 6)


def test_label_smoothing_is_torchs_on_the_real_tokens_and_only_in_training(data):
    model, work = build(data), task(data, smoothing=0.2)
    batch = work.batch(data.train, np.array([0, 2, 10]))
    logits, _ = model(batch.x, memory=model.encode(batch.source, batch.lengths))
    real = batch.y != data.target.pad
    expected = cross_entropy(logits[real], batch.y[real], label_smoothing=0.2)
    assert work.loss(model, batch).value.item() == pytest.approx(expected.item(), rel=1e-12)
    likely = logits[real].log_softmax(-1)
    by_hand = -0.8 * likely.gather(-1, batch.y[real][:, None]).mean() - 0.2 * likely.mean()
    assert expected.item() == pytest.approx(by_hand.item(), rel=1e-10)
    assert work.evaluate(model, "valid") == task(data, smoothing=0.0).evaluate(model, "valid")


def test_logits_in_half_precision_are_judged_in_single(data):
    model, work = chain(data, "le chat"), task(data, smoothing=0.0)
    batch = work.batch(data.train, np.array([0, 2]))
    model.table = model.table.bfloat16()
    expected = cross_entropy(
        model.table[batch.x].float().flatten(0, 1), batch.y.flatten(), ignore_index=data.target.pad
    )
    assert work.loss(model, batch).value.item() == pytest.approx(expected.item(), rel=1e-6)


@every_kind
@pytest.mark.parametrize("batch", [8, 1000])
def test_an_evaluation_is_the_mean_over_every_token_of_every_reference(data, kind, batch):
    model, found = build(data, kind), None
    expected = [alone(model, data, *row) for row in rows_of(data.valid)]
    found = task(data, batch=batch).evaluate(model, "valid")
    every = [float(loss) for losses in expected for loss in losses]
    assert found["tokens"] == len(every) == sum(len(target.split()) + 1 for _, target in VALID)
    assert found["nats_per_token"] == pytest.approx(sum(every) / len(every), rel=1e-10)
    assert found["perplexity"] == pytest.approx(math.exp(sum(every) / len(every)), rel=1e-10)
    longest = max(map(len, expected))
    by_hand = [[float(losses[t]) for losses in expected if len(losses) > t] for t in range(longest)]
    assert found["by_position"] == pytest.approx([sum(column) / len(column) for column in by_hand], rel=1e-10)
    assert len({len(column) for column in by_hand}) > 1, "fewer references reach the later places"


def test_losses_are_told_apart_up_to_a_place_and_all_of_them_count(data, monkeypatch):
    model = build(data)
    whole = task(data).evaluate(model, "valid")
    monkeypatch.setattr(translation, "POSITIONS", 3)
    short = task(data).evaluate(model, "valid")
    assert short["by_position"] == pytest.approx(whole["by_position"][:3])
    assert short["nats_per_token"] == whole["nats_per_token"]


def test_a_part_that_is_not_there_is_named_in_a_line(data):
    work = TranslationTask(Config(), replace(data, test=None))
    for split in ("test", "source", "notes", "valdi"):
        with pytest.raises(DataError, match=f"expected a {split} part, found none"):
            work.evaluate(build(data), split)


def test_guesses_without_learning_are_their_closed_forms(data):
    found = task(data).baselines("valid")
    size = data.target.size
    assert found["uniform"] == pytest.approx(math.log(size))
    tokens = [token for _, target in rows_of(data.train) for token in [*target, data.target.end]]
    share = {token: (tokens.count(token) + 1) / (len(tokens) + size) for token in range(size)}
    every = [-math.log(share[t]) for _, target in rows_of(data.valid) for t in [*target, data.target.end]]
    assert found["unigram"] == pytest.approx(sum(every) / len(every))


def seen(data, batch):
    return [data.target.decode(row) for row in batch.y.tolist()]


def test_batches_hold_every_pair_once_an_epoch_and_go_on_by_number(data):
    work = task(data, batch=24)
    count = len(batches_by_tokens(data.train, 24))
    assert count > 2
    found = list(islice(work.batches("train", 3), 2 * count))
    assert [batch.number for batch in found] == list(range(2 * count))
    for epoch in (found[:count], found[count:]):
        texts = [text for batch in epoch for text in seen(data, batch)]
        assert sorted(texts) == sorted(target for _, target in TRAIN)
    assert [seen(data, b) for b in found[:count]] != [seen(data, b) for b in found[count:]], "another order"
    for start in (1, count, count + 2):
        again = next(work.batches("train", 3, start=start))
        assert again.number == start
        assert all(torch.equal(a, b) for a, b in zip(again[:4], found[start][:4], strict=True))
    other = list(islice(work.batches("train", 4), count))
    assert [seen(data, b) for b in other] != [seen(data, b) for b in found[:count]], "another seed"


def test_padding_to_a_grain_changes_shapes_and_nothing_else(data):
    model, rows = build(data), np.array([2, 0, 3])
    plain, padded = (task(data, grain=grain).batch(data.train, rows) for grain in (1, 8))
    assert padded.source.shape[1] == padded.x.shape[1] == padded.y.shape[1] == 8
    found = [task(data).loss(model, batch).value for batch in (plain, padded)]
    assert torch.allclose(*found, rtol=1e-12)
    assert plain.tokens == padded.tokens


def test_a_batch_is_source_and_end_begin_and_target_target_and_end(data):
    batch = task(data).batch(data.train, np.array([2, 0]))
    (short, long), side = (rows_of(data.train)[i] for i in (2, 0)), data.target
    assert batch.source.tolist()[1] == [*long[0], data.source.end]
    assert batch.source.tolist()[0][: int(batch.lengths[0])] == [*short[0], data.source.end]
    assert batch.x.tolist() == [[side.begin, *short[1], *[side.pad] * 3], [side.begin, *long[1]]]
    assert batch.y.tolist() == [[*short[1], side.end, *[side.pad] * 3], [*long[1], side.end]]


def test_scheduled_sampling_puts_guesses_at_real_places_and_never_at_the_first(data):
    model = chain(data)
    batch = task(data).batch(data.train, np.arange(len(TRAIN)).repeat(40))
    work = task(data, sampling=0.3)
    torch.manual_seed(1)
    found = work.guessed(model, batch, model.encode(batch.source, batch.lengths))
    guess = torch.cat([batch.x[:, :1], model.table[batch.x].argmax(dim=-1)[:, :-1]], dim=1)
    assert ((found == batch.x) | (found == guess)).all(), "nothing but the reference and the guess"
    assert torch.equal(found[:, 0], batch.x[:, 0])
    padding = batch.x == data.target.pad
    assert padding.any()
    assert torch.equal(found[padding], batch.x[padding])
    swappable = ~padding & (guess != batch.x)
    swappable[:, 0] = False
    share, count = (found != batch.x)[swappable].double().mean().item(), int(swappable.sum())
    assert abs(share - 0.3) < 4 * math.sqrt(0.3 * 0.7 / count)


@pytest.mark.parametrize(("sampling", "training", "calls"), [(0.0, True, 1), (0.9, False, 1), (0.9, True, 2)])
def test_guesses_are_made_in_training_alone_and_only_when_asked_for(data, sampling, training, calls):
    model = chain(data).train(training)
    batch = task(data).batch(data.train, np.arange(len(TRAIN)))
    task(data, sampling=sampling).loss(model, batch)
    assert len(model.read) == calls
    assert torch.equal(model.read[0], batch.x)
    assert torch.equal(model.read[-1], batch.x) is (calls == 1)


def test_the_loss_is_still_on_the_reference_when_guesses_are_read(data):
    model, work = chain(data).train(), task(data, sampling=0.9, smoothing=0.0)
    batch = work.batch(data.train, np.arange(len(TRAIN)))
    found = work.loss(model, batch).value.item()
    real = batch.y != data.target.pad
    likely = model.table[model.read[-1]].log_softmax(-1).gather(-1, batch.y[..., None])[..., 0]
    assert found == pytest.approx(-likely[real].mean().item(), rel=1e-10)


@torch.no_grad()
def by_hand(model, data, pair):
    """−log p of the reference's tokens, given the model's own greedy text of the same length, step by step."""
    source, target = pair
    state = model.initial_state(
        1, memory=model.encode(torch.tensor([[*source, data.source.end]]), torch.tensor([len(source) + 1]))
    )
    token, losses = data.target.begin, []
    for wanted in [*target, data.target.end]:
        logits, state = model(torch.tensor([[token]]), state)
        losses.append(-float(logits[0, -1].log_softmax(-1)[wanted]))
        token = int(logits[0, -1].argmax())
    return losses


@pytest.mark.parametrize("kind", [*seq2seq.MODELS, "chain"])
def test_free_running_is_a_loop_that_reads_what_it_wrote(data, kind):
    model = chain(data, "un chien mange le poisson") if kind == "chain" else build(data, kind, seed=3)
    found = task(data).free_running(model, "valid", count=4)
    free = [loss for row in rows_of(data.valid)[:4] for loss in by_hand(model, data, row)]
    assert found["free"] == pytest.approx(sum(free) / len(free), rel=1e-9)
    if kind != "chain":
        forced = [float(loss) for row in rows_of(data.valid)[:4] for loss in alone(model, data, *row)]
        assert found["forced"] == pytest.approx(sum(forced) / len(forced), rel=1e-9)
    assert abs(found["free"] - found["forced"]) > 1e-3, "its own text leads it elsewhere"


def test_many_sentences_are_taken_in_parts_and_all_count(tmp_path):
    lines = [(f"a{i % 13} b{i % 5}" + " c" * (i % 4), f"x{i % 7} y{i % 3}" + " z" * (i % 5)) for i in range(130)]
    data = load(tmp_path, valid=lines, train=lines[:60])
    model = chain(data, "x1 y2 z")
    free = [loss for row in rows_of(data.valid) for loss in by_hand(model, data, row)]
    assert task(data).free_running(model, "valid")["free"] == pytest.approx(sum(free) / len(free), rel=1e-9)


def test_who_writes_the_reference_is_not_led_away(tmp_path):
    """Where greedy text is the reference, what was read is the same, and so are the losses, small but not zero."""
    rows = [("a b", "le chat voit"), ("b a c", "le chat voit"), ("c", "le chat voit")]
    data = load(tmp_path, train=rows, valid=rows)
    found = task(data).free_running(chain(data, "le chat voit"), "valid")
    assert found["free"] == found["forced"] > 0
    other = task(data).free_running(chain(data, "le voit"), "valid")
    assert other["free"] > other["forced"]
