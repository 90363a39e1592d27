"""How stored n-grams are found: the hash table against a dictionary, and scores before and after there is one."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recollect.models import ngram
from recollect.models.ngram import table
from recollect.models.ngram.index import GOLDEN, Index
from recollect.models.ngram.table import Length

BELOW = st.integers(1, 55).flatmap(lambda bits: st.integers(1, 1 << bits))


def drawn(below, count, seed):
    """Up to `count` different keys below `below`, in order."""
    rng = np.random.default_rng(seed)
    return torch.from_numpy(np.unique(rng.integers(below, size=count)))


def agrees(index, keys, wanted):
    where = {key: i for i, key in enumerate(keys.tolist())}
    found = index.find(wanted.numpy()).tolist()
    assert [i if i < len(keys) else None for i in found] == [where.get(key) for key in wanted.tolist()]


def text_of(vocab, length, seed):
    rng = np.random.default_rng(seed)
    return (rng.pareto(1.0, length) * 3).astype(np.int64) % vocab


def scores(model, text):
    text = torch.as_tensor(text)[None]
    return model.nll(text[:, :-1], text[:, 1:])[0]


def indices(model):
    return [model.length(k)._index is not None for k in range(2, model.config.order + 1)]


# The hash table


@given(below=BELOW, count=st.integers(1, 300), seed=st.integers(0, 2**31))
def test_every_key_is_found_where_a_dictionary_has_it_and_no_other(below, count, seed):
    keys, strangers = drawn(below, count, seed), drawn(below, 200, seed + 1)
    index = Index.of(keys, below)
    assert index is not None
    agrees(index, keys, torch.cat([keys, strangers, torch.tensor([0, below - 1]), (keys + 1).clamp(max=below - 1)]))


@pytest.mark.parametrize("below", [1, 2, 64, 1000])
def test_all_keys_that_there_can_be(below):
    keys = torch.arange(below)
    index = Index.of(keys, below)
    assert index is not None
    agrees(index, keys, keys.flip(0))


def keys_with_hashes(hashes, size):
    """The keys below 2^size that have these hashes."""
    inverse = pow(GOLDEN, -1, 1 << size)
    return torch.tensor(sorted(h * inverse % (1 << size) for h in hashes))


@pytest.mark.parametrize("first", [0, (1 << 40) - 90])
def test_keys_that_all_belong_to_one_slot_are_found_too(first):
    # The last slot of the table runs over its end.
    keys = keys_with_hashes(range(first, first + 80), 40)
    index = Index.of(keys, 1 << 40)
    assert index is not None
    beside = keys_with_hashes([*range(max(0, first - 9), first + 90)], 40)
    agrees(index, keys, torch.cat([keys, beside, drawn(1 << 40, 100, 0)]))


def test_keys_too_large_for_the_table_are_searched_for():
    keys = keys_with_hashes(range(80), 62)
    assert Index.of(keys, 1 << 62) is None
    length = Length()
    length.hold(keys, torch.zeros(len(keys)))
    for _ in range(3):
        assert length.find(keys.flip(0), 1 << 62).tolist() == list(range(len(keys)))[::-1]
        assert (length.find(keys_with_hashes(range(80, 160), 62), 1 << 62) >= len(keys)).all()


# When it is made


@given(below=BELOW, count=st.integers(0, 300), seed=st.integers(0, 2**31))
def test_searching_in_order_and_the_table_agree(below, count, seed):
    keys, wanted = drawn(below, count, seed), drawn(below, 200, seed + 1)
    lengths = Length(), Length()
    for length in lengths:
        length.hold(keys, torch.zeros(len(keys)))
    wanted = torch.cat([wanted, keys]).flip(0)
    lengths[0]._asked = -(10**9)  # never worth it
    found = [length.find(wanted, below) for length in lengths]
    assert [length._index is not None for length in lengths] == [False, len(keys) > 0]
    a, b = (torch.where(at < len(keys), at, -1) for at in found)
    assert torch.equal(a, b)


def test_a_table_is_made_once_it_is_worth_it_and_changes_no_score(monkeypatch):
    text, asked = text_of(40, 4000, 0), text_of(40, 150, 1)
    model = ngram.Config(order=4, vocab=40).build().train_on(text)
    monkeypatch.setattr(table, "WORTH", 1e-9)
    before = scores(model, asked)
    assert indices(model) == [False] * 3
    monkeypatch.setattr(table, "WORTH", 4)
    made = []
    for _ in range(100):
        assert torch.equal(scores(model, asked), before)
        made.append(sum(indices(model)))
    assert made[0] < made[-1] == 3


def test_other_ngrams_need_another_table():
    text, other, asked = text_of(9, 500, 0), text_of(9, 700, 5), text_of(9, 600, 2)
    model, fresh = (ngram.Config(order=3, vocab=9).build().train_on(t) for t in (text, other))
    expected = scores(fresh, asked)
    assert not torch.equal(scores(model, asked), expected)
    assert all(indices(model))
    model.load_state_dict(fresh.state_dict())
    assert not any(indices(model))
    assert torch.equal(scores(model, asked), expected)
    assert all(indices(model))
    assert torch.equal(scores(model.train_on(other), asked), expected)


def test_a_table_is_not_written_with_the_model():
    model = ngram.Config(order=3, vocab=9).build().train_on(text_of(9, 500, 0))
    names = list(model.state_dict())
    scores(model, text_of(9, 600, 2))
    assert all(indices(model))
    assert list(model.state_dict()) == names


# Scores


@given(
    rows=st.integers(2, 6),
    steps=st.integers(1, 6),
    order=st.integers(1, 6),
    shifted=st.booleans(),
    seed=st.integers(0, 99),
)
def test_no_context_reaches_over_the_beginning_of_a_row(rows, steps, order, shifted, seed):
    # A text of two words, so that whatever stands at the end of the row before is a context that is stored.
    model = ngram.Config(order=order, vocab=2).build().train_on(text_of(2, 400, 0))
    torch.manual_seed(seed)
    text = torch.randint(2, (rows, 12))
    seen = torch.randint(0, 12 - steps, (rows,))
    started = [model(row[None, :t])[1] if t else model.initial_state(1) for row, t in zip(text, seen, strict=True)]
    parts = torch.stack([row[t : t + steps + 1] for row, t in zip(text, seen, strict=True)])
    x, targets = parts[:, :-1], parts[:, 1:] if shifted else torch.randint(2, (rows, steps))
    together, _ = model.nll(x, targets, ngram.State(*(torch.cat(t) for t in zip(*started, strict=True))))
    for row, state in enumerate(started):
        y, _ = model.double()(x[row : row + 1], state)
        torch.testing.assert_close(-y[0].gather(1, targets[row, :, None])[:, 0], together[row], rtol=0, atol=1e-12)
