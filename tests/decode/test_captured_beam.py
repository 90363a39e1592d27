"""Beam search in fixed places finds what the search finds: texts, scores, order."""

import math

import pytest
import torch

from decode.test_captured_greedy import BEGIN, END, PAD, VOCAB, build, encode, every_kind
from recollect.core.contract import ContractError
from recollect.decode import beam, captured, captured_beam

CONFIGS = [
    beam.Config(beam=3, ratio=1.0, extra=6),
    beam.Config(beam=3, nbest=3, ratio=1.0, extra=2, length_penalty=0.0),
    beam.Config(beam=4, nbest=2, ratio=0.5, extra=1, length_penalty=1.4),
    beam.Config(beam=1, ratio=1.0, extra=6),
]
every_config = pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.nbest} of {c.beam}")


def search(model, memory, config, banned=(PAD, BEGIN)):
    return beam.search(model, memory, begin=BEGIN, end=END, config=config, banned=banned)


def write(model, memory, config, banned=(PAD, BEGIN)):
    limits = [config.limit(length) for length in memory.valid.sum(dim=1).tolist()]
    return captured_beam.search(model, memory, begin=BEGIN, end=END, banned=banned, limits=limits, config=config)


def same(found, expected):
    assert [[(h.tokens, h.finished) for h in texts] for texts in found] == [
        [(h.tokens, h.finished) for h in texts] for texts in expected
    ]
    for mine, theirs in zip(found, expected, strict=True):
        assert [h.score for h in mine] == pytest.approx([h.score for h in theirs], rel=1e-9)
        assert [h.logprob for h in mine] == pytest.approx([h.logprob for h in theirs], rel=1e-9)


@every_kind
@every_config
def test_the_same_texts_as_the_search_finds(settings, config):
    model = build(**settings)
    seen = set()
    for lengths in ([5], [3, 9, 1, 4, 7], [17, 2, 20]):
        with torch.no_grad():
            model.head.bias[END] -= 2.0
        memory = encode(model, lengths, seed=len(lengths))
        expected = search(model, memory, config)
        same(write(model, memory, config), expected)
        seen |= {(h.finished, len(h.tokens)) for texts in expected for h in texts}
    assert len(seen) > 2, "some end sooner than others"


@every_config
def test_texts_that_end_and_texts_that_are_cut(config):
    """With an end that is likely all lists are of finished texts, with one that is not all are cut."""
    model, kinds = build(model="attend"), set()
    for wish in (-30.0, 0.0, 4.0):
        with torch.no_grad():
            model.head.bias[END] = wish
        memory = encode(model, [6, 2, 9])
        expected = search(model, memory, config)
        same(write(model, memory, config), expected)
        kinds |= {h.finished for texts in expected for h in texts}
    assert kinds == {True, False}
    assert len(captured._graphs[model]) == 1, "new weights in old places need no new graph"


def test_a_lattice_serves_again_and_nothing_of_the_last_batch_is_left():
    model, config = build(model="transformer", heads=2), CONFIGS[1]
    batches = [encode(model, lengths, seed=seed) for seed, lengths in enumerate(([9, 8, 9], [1, 2, 1], [7, 9, 5]))]
    for memory in (*batches, *reversed(batches)):
        same(write(model, memory, config), search(model, memory, config))
    assert len(captured._graphs[model]) == 1


def test_everything_may_be_forbidden():
    model, config = build(model="context"), CONFIGS[0]
    memory = encode(model, [3, 5])
    banned = [token for token in range(VOCAB) if token != END]
    same(write(model, memory, config, banned), search(model, memory, config, banned))
    with torch.no_grad():
        model.head.bias[END] = -math.inf
    (only, other) = write(model, memory, config, banned)
    assert [h.tokens for h in (*only, *other)] == [[], []]
    assert not any(h.finished for h in (*only, *other))


def test_too_few_tokens_are_left_to_the_search():
    model = build(model="context")
    assert write(model, encode(model, [3]), beam.Config(beam=5)) is None  # 2 · 5 of 9


def test_numbers_that_are_none_are_named():
    model, config = build(model="context"), CONFIGS[0]
    memory = encode(model, [3, 5])
    with torch.no_grad():
        model.head.bias[4] = math.nan
    with pytest.raises(ContractError, match="found NaN by step"):
        write(model, memory, config)


def test_what_is_asked_beyond_it_is_left_to_the_search(monkeypatch):
    monkeypatch.setattr(captured, "can_capture", lambda model, memory: True)
    assert captured_beam.can_search(None, None, beam.Config(beam=3))
    assert not captured_beam.can_search(None, None, beam.Config(beam=3, coverage=0.1))
    assert not captured_beam.can_search(None, None, beam.Config(beam=1, temperature=1.0))


def test_the_search_takes_it_where_it_suits(monkeypatch):
    model, config, used = build(model="attend"), CONFIGS[1], []
    memory = encode(model, [4, 6])
    expected = search(model, memory, config)
    monkeypatch.setattr(captured_beam, "can_search", lambda *_: True)
    monkeypatch.setattr(
        captured_beam, "search", lambda *args, own=captured_beam.search, **how: used.append(1) or own(*args, **how)
    )
    same(search(model, memory, config), expected)
    assert used
    given = beam.search(model, memory, begin=BEGIN, end=END, config=config, banned=(PAD, BEGIN), alignments=True)
    assert len(used) == 1, "alignments are the search's"
    same(given, expected)
