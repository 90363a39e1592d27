"""Sentences written in fixed places are those that the search finds with one prefix."""

import gc
import math
import weakref

import pytest
import torch

from recollect.core.contract import ContractError, Memory
from recollect.decode import beam, captured, captured_greedy
from recollect.models import seq2seq

BEGIN, END, PAD, VOCAB = 1, 2, 0, 9
KINDS = [
    {"model": "fixed", "cell": "lstm"},
    {"model": "context"},
    {"model": "attend"},
    {"model": "attend", "cell": "lstm", "layers": 2, "align": "cell-first", "score": "general"},
    {"model": "conv", "layers": 2},
    {"model": "transformer", "layers": 2, "heads": 2},
    {"model": "transformer", "heads": 2, "order": "post", "positions": "learned", "max_positions": 40},
]
every_kind = pytest.mark.parametrize("settings", KINDS, ids=str)


def build(**settings):
    torch.manual_seed(3)
    model = seq2seq.Config(source=VOCAB, target=VOCAB, width=8, dropout=0.0, **settings).build().double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(3)
        model.head.bias[END] += 1.5  # so that some texts end by themselves
    return model


@torch.no_grad()
def encode(model, lengths, seed=0):
    source = torch.randint(3, VOCAB, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(seed))
    return model.encode(source, torch.tensor(lengths))


def search(model, memory, banned=(PAD, BEGIN), extra=6):
    config = beam.Config(beam=1, length_penalty=0, ratio=1.0, extra=extra)
    found = beam.search(model, memory, begin=BEGIN, end=END, config=config, banned=banned)
    return [(h.tokens, h.logprob, h.finished) for (h,) in found]


def write(model, memory, banned=(PAD, BEGIN), extra=6):
    limits = [length + extra for length in memory.valid.sum(dim=1).tolist()]
    return captured_greedy.search(model, memory, begin=BEGIN, end=END, banned=banned, limits=limits)


def same(found, expected):
    assert [(text.tokens, text.finished) for text in found] == [(tokens, over) for tokens, _, over in expected]
    assert [text.logprob for text in found] == pytest.approx([logprob for _, logprob, _ in expected], rel=1e-9)


@every_kind
def test_the_same_texts_as_the_search_finds(settings):
    model = build(**settings)
    ends = []
    for lengths in ([5], [3, 9, 1, 4, 7], [17, 2, 20]):
        for seed in range(3):
            memory = encode(model, lengths, seed)
            expected = search(model, memory)
            same(write(model, memory), expected)
            same(write(model, memory, extra=0), search(model, memory, extra=0))
            ends += [(finished, len(tokens)) for tokens, _, finished in expected]
    assert len({length for _, length in ends}) > 2, "some end sooner than others"
    assert any(finished for finished, _ in ends)


def test_one_size_of_batch_serves_sources_near_it_and_new_weights_in_old_places():
    model = build(model="attend")
    first, second = encode(model, [5, 3]), encode(model, [9, 10], seed=1)
    same(write(model, first), search(model, first))
    same(write(model, second), search(model, second))
    assert len(captured._graphs[model]) == 1
    with torch.no_grad():
        model.head.weight.mul_(-1)
    same(write(model, first), search(model, first))
    assert len(captured._graphs[model]) == 1
    model.head.weight = torch.nn.Parameter(-model.head.weight.detach())
    same(write(model, first), search(model, first))
    assert len(captured._graphs[model]) == 2


def test_few_writers_are_kept_and_none_keeps_its_model(monkeypatch):
    monkeypatch.setattr(captured, "GRAPHS", 2)
    model = build(model="context")
    for rows in (1, 2, 3, 4):
        write(model, encode(model, [4] * rows))
    assert len(captured._graphs[model]) == 2
    alive = weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(("count", "grain", "expected"), [(1, 1, 1), (8, 1, 8), (9, 1, 10), (100, 1, 112), (5, 16, 16)])
def test_sizes_are_few(count, grain, expected):
    assert captured.round_up(count, grain) == expected
    sizes = {captured.round_up(n, 1) for n in range(1, 1025)}
    assert len(sizes) <= 8 + 4 * 7
    assert all(n <= captured.round_up(n, 1) <= 1.25 * n for n in range(1, 1025))


def test_what_may_not_be_written_is_not_and_nothing_is_an_empty_text():
    model = build(model="attend")
    memory = encode(model, [5, 3])
    for banned in ((PAD, BEGIN, 5, 6), tuple(n for n in range(VOCAB) if n != END)):
        same(write(model, memory, banned), search(model, memory, banned))
    with torch.no_grad():
        model.head.bias.fill_(0)
        model.head.bias[3:] = -math.inf
        model.head.bias[END] = -math.inf
    assert [(text.tokens, text.finished) for text in write(model, memory)] == [([], False)] * 2
    assert [(tokens, finished) for tokens, _, finished in search(model, memory)] == [([], False)] * 2


def test_numbers_that_are_none_and_tokens_beyond_the_vocabulary_are_told():
    model = build(model="context")
    memory = encode(model, [5, 3])
    with pytest.raises(ContractError, match=f"below {VOCAB}"):
        write(model, memory, banned=(PAD, VOCAB))
    with torch.no_grad():
        model.head.bias[4] = math.nan
    with pytest.raises(ContractError, match="found NaN by step"):
        write(model, memory)


def test_a_grid_of_places_is_left_as_it_is():
    memory = Memory(torch.randn(3, 6, 2), torch.ones(3, 6, dtype=torch.bool))
    wide = captured.pad_memory(memory, 5, 16)
    assert wide.values.shape == (5, 16, 2)
    assert wide.valid.sum(dim=1).tolist() == [6] * 5
    assert torch.equal(wide.values[3], wide.values[4])
    assert torch.equal(wide.values[:3, :6], memory.values)


def test_a_search_is_greedy_only_if_nothing_else_was_asked():
    assert beam.Config(beam=1, length_penalty=0).greedy
    for other in ({"length_penalty": 0.6}, {"beam": 2}, {"coverage": 0.1}, {"temperature": 1.0}):
        assert not beam.Config(**{"beam": 1, "length_penalty": 0} | other).greedy


def test_what_comes_after_the_end_of_a_sentence_counts_for_nothing():
    """A sentence that has ended is written on beside those that have not; here all that it then gets is NaN."""
    model = build(model="attend", share="none")
    memory = encode(model, [5, 3, 4, 2, 5, 1, 4, 3], seed=1)
    expected = search(model, memory)
    assert {over for _, _, over in expected} == {True, False}, "some must end before others"
    with torch.no_grad():
        model.embedding.weight[END] = math.nan
    same(write(model, memory), expected)
