"""CTC against sums over all paths, torch's own loss, and itself in chunks."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recollect.core.contract import ContractError
from recollect.decode import ctc

CASES = [(1, 2), (2, 3), (4, 3), (5, 3), (6, 2), (4, 4)]  # steps, labels with the blank
every_case = pytest.mark.parametrize(("steps", "labels"), CASES)


def draw(steps, labels, seed=0, sharp=2.0):
    logits = np.random.default_rng(seed).normal(0, sharp, (steps, labels))
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def paths(logp):
    """Every path with its probability."""
    for path in itertools.product(range(logp.shape[1]), repeat=len(logp)):
        yield path, math.exp(sum(logp[t, label] for t, label in enumerate(path)))


def text_of(path, blank):
    joined = [label for label, _ in itertools.groupby(path)]
    return tuple(label for label in joined if label != blank)


def texts(logp):
    """The probability of every text: the sum over its paths."""
    found = {}
    for path, probability in paths(logp):
        text = text_of(path, logp.shape[1] - 1)
        found[text] = found.get(text, 0.0) + probability
    return found


@every_case
def test_the_likelihood_of_a_text_is_the_sum_over_its_paths(steps, labels):
    logp = draw(steps, labels)
    found = texts(logp)
    assert sum(found.values()) == pytest.approx(1)
    for text, probability in found.items():
        assert math.exp(ctc.log_likelihood(logp, text)) == pytest.approx(probability, rel=1e-12)
    assert ctc.log_likelihood(logp, [0] * (steps + 1)) == -math.inf


@every_case
def test_the_loss_of_torch_is_the_same_sum(steps, labels):
    logp = draw(steps, labels, seed=1)
    for text, probability in texts(logp).items():
        loss = torch.nn.functional.ctc_loss(
            torch.from_numpy(logp)[:, None], torch.tensor([text or (0,)]), torch.tensor([steps]),
            torch.tensor([len(text)]), blank=labels - 1, reduction="none",
        )  # fmt: skip
        assert float(loss) == pytest.approx(-math.log(probability), rel=1e-9, abs=1e-12)


@every_case
def test_a_beam_that_holds_every_prefix_finds_the_likeliest_texts_exactly(steps, labels):
    for seed in range(5):
        logp = draw(steps, labels, seed)
        wanted = sorted(texts(logp).items(), key=lambda item: -item[1])[:4]
        found = ctc.search(logp, beam=10_000, nbest=4)
        assert [tuple(text.tokens) for text in found] == [text for text, _ in wanted]
        assert [math.exp(text.logprob) for text in found] == pytest.approx([value for _, value in wanted], rel=1e-10)


def test_a_narrow_beam_finds_no_more_than_there_is_and_a_wider_one_no_less():
    for seed in range(20):
        logp = draw(8, 4, seed, sharp=1.0)
        found = [ctc.search(logp, beam=beam)[0] for beam in (1, 2, 4, 64, 4096)]
        for text in found:
            assert text.logprob <= ctc.log_likelihood(logp, text.tokens) + 1e-12
        assert found[-1].logprob == pytest.approx(ctc.log_likelihood(logp, found[-1].tokens))


def test_the_sum_over_paths_is_not_the_likeliest_path():
    """Two steps of blank .6 and label .4: the likeliest path is empty (.36), the likeliest text is the label (.64)."""
    logp = np.log([[0.4, 0.6], [0.4, 0.6]])
    assert ctc.best_path(logp).tokens == []
    assert ctc.search(logp, beam=4)[0].tokens == [0]
    assert math.exp(ctc.search(logp, beam=4)[0].logprob) == pytest.approx(0.64)


def test_what_is_banned_is_never_written():
    logp = draw(9, 5)
    assert not {1, 3} & set(ctc.search(logp, beam=8, banned=[1, 3])[0].tokens)
    assert not {1, 3} & set(ctc.best_path(logp, banned=[1, 3]).tokens)
    assert {1, 3} & set(ctc.best_path(logp).tokens)


@every_case
def test_the_best_path_is_the_likeliest_of_all(steps, labels):
    logp = draw(steps, labels)
    path, probability = max(paths(logp), key=lambda item: item[1])
    found = ctc.best_path(logp)
    assert tuple(found.tokens) == text_of(path, labels - 1)
    assert math.exp(found.logprob) == pytest.approx(probability)


@every_case
def test_an_alignment_is_the_likeliest_path_of_its_text(steps, labels):
    logp, blank = draw(steps, labels, seed=2), labels - 1
    best = {}
    for path, probability in paths(logp):
        text = text_of(path, blank)
        best[text] = max(best.get(text, (0.0, ())), (probability, path))
    for text, (_, path) in best.items():
        wanted, number = [], -1
        for t, label in enumerate(path):
            if label != blank and (t == 0 or label != path[t - 1]):
                wanted.append([t, t + 1])
                number += 1
            elif label != blank:
                wanted[number][1] = t + 1
        assert [list(span) for span in ctc.align(logp, text)] == wanted


@every_case
def test_occupancy_is_the_share_of_the_paths_that_are_at_a_label(steps, labels):
    logp, blank = draw(steps, labels, seed=3), labels - 1
    shares = {}
    for path, probability in paths(logp):
        text = text_of(path, blank)
        table = shares.setdefault(text, np.zeros((len(text), steps)))
        number = -1
        for t, label in enumerate(path):
            number += label != blank and (t == 0 or label != path[t - 1])
            if label != blank:
                table[number, t] += probability
    for text, table in shares.items():
        if text:
            wanted = table / math.exp(ctc.log_likelihood(logp, text))
            assert ctc.occupancy(logp, text) == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@given(st.integers(0, 1000), st.lists(st.integers(1, 6), min_size=1, max_size=8))
def test_chunks_give_the_text_of_the_whole(seed, chunks):
    logp = draw(sum(chunks), 3, seed)
    heard, found, at = None, [], 0
    for size in chunks:
        more, heard = ctc.read_chunk(logp[at : at + size], heard)
        found, at = found + more, at + size
    assert found == ctc.best_path(logp).tokens


def test_a_text_too_long_for_its_steps_is_one_line():
    for ask in (ctc.align, ctc.occupancy):
        with pytest.raises(ContractError, match="expected a text that 3 steps can hold, found one of 3 labels"):
            ask(draw(3, 3), [0, 0, 1])


def test_numbers_that_are_none_are_one_line():
    logp = draw(3, 3)
    logp[1, 1] = np.nan
    with pytest.raises(ContractError, match="found NaN"):
        ctc.search(logp, beam=2)
    with pytest.raises(ContractError, match="expected log-probabilities of steps"):
        ctc.best_path(np.zeros((0, 3)))
