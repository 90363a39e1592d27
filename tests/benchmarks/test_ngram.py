"""The n-gram row of the bench at a small size, beside a plain reader of ARPA text in the place of kenlm."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import ngram
from models.ngram.reference import PlainReader

NAMES = ["<unk>", "\n", "a", "b", "c\\d", "é"]


def small():
    rng = np.random.default_rng(0)
    return ngram.Words("small", NAMES, rng.integers(6, size=400), rng.integers(6, size=90))


class PlainKenlm(PlainReader):
    """kenlm's calls of a plain reader: log10 as in the file, + `off`."""

    off = 0.0

    def __init__(self, path, config):
        super().__init__(path)

    def full_scores(self, text, bos, eos):
        assert not bos
        assert not eos
        words = text.split(" ")
        for i, word in enumerate(words):
            context = tuple(words[max(0, i - self.order + 1) : i])
            yield self.log10(word, context) + self.off, len(context) + 1, False

    def score(self, text, bos, eos):
        return sum(score for score, *_ in self.full_scores(text, bos, eos))


pytestmark = pytest.mark.usefixtures("no_clock")


def stand_in(monkeypatch, off=0.0):
    model = type("Model", (PlainKenlm,), {"off": off})
    complain = SimpleNamespace(NONE=None)
    monkeypatch.setitem(
        sys.modules, "kenlm", SimpleNamespace(Model=model, Config=SimpleNamespace, ARPALoadComplain=complain)
    )


@pytest.mark.slow
def test_training_and_scoring_are_measured_beside_what_scores_the_same(monkeypatch):
    stand_in(monkeypatch)
    training, tokens, string = ngram.ngram("cpu", small)
    assert [row.error for row in (training, tokens, string)] == [None] * 3
    assert (training.amount, tokens.amount, string.amount) == (400, 90, 90)
    assert training.absent["kenlm"].startswith("not installed")
    for row in (tokens, string):
        assert set(row.peers) == {"kenlm Model.score", "kenlm Model.full_scores"}
        assert row.checked.startswith("log p of each of 89 tokens as kenlm's")


def test_another_score_fails_the_rows_and_not_training(monkeypatch):
    stand_in(monkeypatch, off=1e-3)
    training, *scoring = ngram.ngram("cpu", small)
    assert training.error is None
    assert len(scoring) == 2
    assert all("to 1e-4, found 0.0023 apart" in (row.error or "") for row in scoring)


@pytest.mark.slow
def test_without_kenlm_its_absence_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "kenlm", None)
    _, *scoring = ngram.ngram("cpu", small)
    assert [row.absent for row in scoring] == [{"kenlm": "not installed"}] * 2
    assert all(row.ours and not row.peers for row in scoring)


def test_a_shuffled_text_has_the_same_tokens_and_its_string_gives_them_back():
    text = ngram.Text(small(), "cpu")
    before = text.tokens.clone()
    text.shuffle()
    assert not np.array_equal(text.tokens, before)
    assert np.array_equal(text.tokens.sort()[0], before.sort()[0])
    shuffled = text.tokens.clone()
    assert np.array_equal(text.read().tokens, shuffled)
