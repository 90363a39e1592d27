"""The n-gram model against the textbook's formulas, and the contract."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from models.ngram.reference import SEEDS, Textbook, follow, last, trained, zipf
from recollect.core import laws
from recollect.core import state as states
from recollect.core.contract import ContractError
from recollect.models import ngram
from recollect.models.ngram import count as ngram_count

CHUNKS = st.lists(st.integers(1, 6), min_size=2, max_size=6)


BOOKS = [(1, 5, 60), (2, 30, 900), (3, 4, 300), (4, 12, 500), (5, 3, 40)]  # order, vocabulary, length


def test_a_text_small_enough_to_work_by_hand():
    model = ngram.Config(order=2, vocab=2).build().train_on(np.array([0, 1, 0]))
    # Before 0 stood 1 and the beginning, before 1 stood 0: 2 and 1 of 3, less 1 and ½; the ½ left is shared.
    p0, p1 = 1 / 3 + 0.5 / 2, 0.5 / 3 + 0.5 / 2
    y, _ = model.double()(torch.tensor([[0, 1]]))
    expected = torch.tensor([[0.5 * p0, 0.5 + 0.5 * p1], [0.5 + 0.5 * p0, 0.5 * p1]], dtype=torch.float64)
    torch.testing.assert_close(y[0].exp(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("order", "vocab", "length"), BOOKS)
def test_every_probability_is_the_textbooks(order, vocab, length):
    text = zipf(order, length, vocab)
    model, book = ngram.Config(order=order, vocab=vocab).build().train_on(text).double(), Textbook(text, order, vocab)
    contexts = [tuple(text[i : i + order - 1]) for i in range(0, length - order, 7)]
    rng = np.random.default_rng(0)
    contexts += [tuple(rng.integers(vocab, size=rng.integers(1, 2 * order)).tolist()) for _ in range(60)]
    for context in filter(None, contexts):
        y, _ = model(torch.tensor([context]))
        expected = [book.probability(word, last(context, order - 1)) for word in range(vocab)]
        assert y[0, -1].exp().tolist() == pytest.approx(expected, abs=1e-10, rel=1e-10)


def test_the_books_compared_with_use_both_computed_and_fallback_discounts():
    used = [d for order, vocab, length in BOOKS for d in Textbook(zipf(order, length, vocab), order, vocab).discounts]
    assert used.count(ngram_count.FALLBACK) >= 2
    assert len(set(used)) >= 4


@given(order=st.integers(1, 6), vocab=st.integers(1, 9), length=st.integers(2, 120), seed=SEEDS)
def test_scores_are_the_textbooks(order, vocab, length, seed):
    text = zipf(seed, length, vocab)
    model = ngram.Config(order=order, vocab=vocab).build().train_on(text[: length // 2])
    book = Textbook(text[: length // 2], order, vocab)
    expected = [-math.log(book.probability(text[i], last(text[:i], order - 1))) for i in range(1, length)]
    assert follow(model, text).tolist() == pytest.approx(expected, abs=1e-10)


def test_a_vocabulary_of_a_million_and_order_eight_do_not_overflow():
    vocab = 2**20
    text = vocab - 1 - zipf(0, 200, 5)
    model, book = ngram.Config(order=8, vocab=vocab).build().train_on(text), Textbook(text, 8, vocab)
    expected = [-math.log(book.probability(text[i], last(text[:i], 7))) for i in range(1, 80)]
    assert follow(model, text[:80]).tolist() == pytest.approx(expected, abs=1e-10)
    y, _ = model(torch.as_tensor(text[None, :3]))
    assert y[0, -1].double().exp().sum().item() == pytest.approx(1, abs=1e-6)


@given(order=st.integers(1, 5), vocab=st.integers(1, 40), seed=SEEDS)
def test_every_distribution_sums_to_one_and_leaves_nothing_out(order, vocab, seed):
    model = trained(order, vocab, 200, seed)
    y, _ = model(torch.randint(vocab, (3, 11)))
    assert y.dtype == torch.float32
    assert y.isfinite().all()
    torch.testing.assert_close(y.double().exp().sum(-1), torch.ones(3, 11).double(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("order", [1, 2, 5])
@pytest.mark.parametrize("text", [[], [2], [1, 1, 1, 1, 1, 1, 1], [0, 1], [2, 1, 0]], ids=len)
def test_degenerate_texts_still_give_distributions(order, text):
    model = ngram.Config(order=order, vocab=3).build().train_on(np.array(text, dtype=np.int32))
    book = Textbook(text, order, 3)
    for seen in itertools.product(range(3), repeat=2):
        y, _ = model.double()(torch.tensor([seen]))
        assert y[0, -1].exp().sum().item() == pytest.approx(1, abs=1e-12)
        expected = [book.probability(word, last(seen, order - 1)) for word in range(3)]
        assert y[0, -1].exp().tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("order", [1, 3])
def test_a_vocabulary_of_one_is_certain(order, tmp_path):
    model = ngram.Config(order=order, vocab=1).build().train_on(np.zeros(9, dtype=np.int64))
    assert follow(model, [0, 0, 0, 0]).tolist() == pytest.approx([0, 0, 0], abs=1e-12)
    model.to_arpa(tmp_path / "one.arpa", ["a"])
    assert follow(ngram.Ngram.from_arpa(tmp_path / "one.arpa", ["a"]), [0, 0]).tolist() == pytest.approx([0], abs=1e-9)


def test_an_untrained_model_is_uniform_and_training_forgets_what_was_learned():
    model = ngram.Config(order=3, vocab=4).build()
    assert follow(model, [0, 1, 2]).tolist() == pytest.approx([math.log(4)] * 2)
    model.train_on(zipf(1, 50, 4)).train_on(zipf(2, 80, 4))
    fresh = ngram.Config(order=3, vocab=4).build().train_on(zipf(2, 80, 4))
    assert all(torch.equal(a, b) for a, b in zip(model.buffers(), fresh.buffers(), strict=True))


@given(chunks=CHUNKS, rows=st.integers(1, 4), order=st.integers(1, 5), seed=SEEDS)
def test_the_laws_hold(chunks, rows, order, seed):
    model = trained(order=order, seed=seed % 5).double()
    x = torch.randint(7, (rows, sum(chunks)))
    laws.chunk(model, x, chunks)
    laws.chunk(model, x[:, 1:], [x.shape[1] - 1], warm=x[:, :1])
    laws.cause(model, x, chunks[0])
    laws.row(model, x)
    laws.purity(model, x)
    laws.size(model, x)
    laws.file(model, x)


def test_all_laws_in_one_call_hold():
    laws.check(trained().double(), torch.randint(7, (3, 8)))


@given(chunks=CHUNKS, rows=st.integers(1, 4), order=st.integers(1, 5), shifted=st.booleans(), seed=SEEDS)
def test_scoring_in_chunks_is_scoring_at_once_and_reads_the_distribution(chunks, rows, order, shifted, seed):
    model = trained(order=order, seed=seed % 5).double()
    torch.manual_seed(seed)
    text = torch.randint(7, (rows, sum(chunks) + 1))
    x = text[:, :-1]
    targets = text[:, 1:] if shifted else torch.randint(7, x.shape)
    whole, final = model.nll(x, targets)
    state, parts = model.initial_state(rows), []
    for part, target in zip(x.split(chunks, dim=1), targets.split(chunks, dim=1), strict=True):
        before = [tensor.clone() for tensor in states.leaves(state)]
        nats, after = model.nll(part, target, state)
        assert all(torch.equal(a, b) for a, b in zip(before, states.leaves(state), strict=True))
        parts.append(nats)
        state = after
    assert torch.equal(torch.cat(parts, dim=1), whole)
    assert all(torch.equal(a, b) for a, b in zip(states.leaves(state), states.leaves(final), strict=True))
    y, state = model(x)
    torch.testing.assert_close(-y.gather(2, targets[..., None])[..., 0], whole, rtol=1e-12, atol=1e-12)
    assert all(torch.equal(a, b) for a, b in zip(states.leaves(state), states.leaves(final), strict=True))


def test_rows_at_different_positions_share_a_batch():
    model = trained(order=4)
    text = torch.as_tensor(zipf(9, 12, 7))[None]
    started = [model(text[:, :t])[1] if t else model.initial_state(1) for t in (0, 1, 2, 7)]
    x, targets = text[:, 7:11].expand(4, -1), text[:, 8:].expand(4, -1)
    together, final = model.nll(x, targets, states.join(started))
    assert final.clock.tolist() == [4, 5, 6, 11]
    for row, state in enumerate(started):
        assert torch.equal(together[row], model.nll(x[:1], targets[:1], state)[0][0])
    assert together[0, 0] != together[3, 0]


@given(lengths=st.lists(st.integers(0, 6), min_size=3, max_size=3), order=st.integers(1, 4))
def test_rows_of_unequal_length_give_what_each_gives_alone(lengths, order):
    model = trained(order=order)
    x = torch.randint(7, (3, 6))
    for row, length in enumerate(lengths):
        x[row, length:] = -100
    y, final = model.ragged(x, lengths)
    for row, length in enumerate(lengths):
        assert not y[row, length:].any()
        alone = model.initial_state(1)
        if length:
            expected, alone = model(x[row : row + 1, :length])
            assert torch.equal(y[row, :length], expected[0])
        assert torch.equal(final.window[row], alone.window[0])
        assert final.clock[row] == length


def test_a_model_goes_through_a_file_whatever_the_number_of_ngrams(tmp_path):
    model, text = trained(order=4), zipf(5, 60, 7)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    loaded = model.config.build()
    loaded.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert loaded.entries() == model.entries() > 7
    assert torch.equal(follow(loaded, text), follow(model, text))


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("lengths.1.keys", lambda t: t.flip(0), "do not ascend"),
        ("lengths.2.keys", lambda t: t + 10**6, "contexts do not exist"),
        ("lengths.1.log_probability", lambda t: t[:-1], "probabilities"),
        ("lengths.1.log_backoff", lambda t: t[:0], "back-off weights"),
        ("lengths.0.keys", lambda t: t + 1, "not 0 to 6"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(name, change, problem):
    tensors = trained().state_dict()
    tensors[name] = change(tensors[name])
    with pytest.raises(ContractError, match=problem):
        trained().config.build().load_state_dict(tensors)


def test_wrong_inputs_are_told_in_one_line():
    model = trained()
    x = torch.zeros(2, 3, dtype=torch.int64)
    for wrong, problem in [
        (lambda: model(x + 7), "x from 0 to 6, found 7"),
        (lambda: model(x - 1), "x from 0 to 6, found -1"),
        (lambda: model(x.float()), "whole numbers"),
        (lambda: model(x[0]), "shape"),
        (lambda: model(x[:, :0]), "shape"),
        (lambda: model(x, model.initial_state(3)), "state"),
        (lambda: model(x, trained(order=4).initial_state(2)), "state"),
        (lambda: model.nll(x, x[:, 1:]), "targets"),
        (lambda: model.nll(x, x + 7), "targets from 0 to 6"),
        (lambda: model.train_on(np.array([0.0])), "whole numbers"),
        (lambda: model.train_on(np.array([[0, 1]])), "one row"),
        (lambda: model.train_on(np.array([0, 7])), "tokens from 0 to 6"),
        (lambda: model.to_arpa("x", ["a"]), "7 words"),
        (lambda: ngram.Config(order=0, vocab=3), "order"),
    ]:
        with pytest.raises(ContractError, match=problem) as caught:
            wrong()
        assert "\n" not in str(caught.value)
