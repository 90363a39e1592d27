"""Counts and discounts."""

import numpy as np
import pytest
import torch

from models.ngram.reference import follow, zipf
from recollect.models import ngram
from recollect.models.ngram import count as ngram_count


def test_discounts_follow_from_counts_of_counts():
    counts = torch.tensor([1] * 40 + [2] * 12 + [3] * 6 + [4] * 3 + [9])
    y = 40 / 64
    expected = [0, 1 - 2 * y * 12 / 40, 2 - 3 * y * 6 / 12, 3 - 4 * y * 3 / 6]
    assert ngram_count.discounts(counts).tolist() == pytest.approx(expected)
    assert ngram_count.discounts(counts[counts != 3]).tolist() == [0, *ngram_count.FALLBACK]
    # Far more threes than twos would give back more than nothing.
    assert ngram_count.discounts(torch.tensor([1] * 9 + [2] + [3] * 9 + [4])).tolist() == [0, *ngram_count.FALLBACK]


def test_entries_count_the_different_ngrams():
    text = zipf(0, 100, 6)
    model = ngram.Config(order=3, vocab=8).build().train_on(text)
    expected = [8, *(len({tuple(text[i : i + k]) for i in range(101 - k)}) for k in (2, 3))]
    assert [model.entries(k) for k in (1, 2, 3)] == expected
    assert model.entries() == sum(expected)


def test_a_read_only_memory_map_of_small_integers_trains(tmp_path):
    text = zipf(0, 100, 6)
    text.astype(np.uint16).tofile(tmp_path / "tokens")
    mapped = np.memmap(tmp_path / "tokens", dtype=np.uint16, mode="r")
    model, expected = (ngram.Config(order=3, vocab=6).build().train_on(t) for t in (mapped, text))
    assert torch.equal(follow(model, text), follow(expected, text))
