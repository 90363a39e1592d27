"""Scores of translations, against sacreBLEU."""

import re
from typing import NamedTuple

import pytest
import sacrebleu
import torch
from torch import Tensor, nn

from recollect.core import ragged
from recollect.core.contract import Memory
from recollect.tasks.decoding import greedy_settings
from recollect.tasks.translation import bleu
from recollect.tasks.translation.settings import Config
from tasks.cases import VALID
from tasks.translation.cases import load, task


class Place(NamedTuple):
    script: Tensor  # B L V
    clock: Tensor  # B


class Scripted(nn.Module):
    """Writes for each source what it was told to, whatever it reads; it is never quite sure."""

    def __init__(self, data, texts):
        super().__init__()
        self.data = data
        self.rows = {
            tuple(data.source.encode(source).tolist()): [*data.target.encode(text).tolist(), data.target.end]
            for source, text in texts.items()
        }

    def encode(self, source, lengths):
        wanted = [self.rows[tuple(row[: n - 1].tolist())] for row, n in zip(source, lengths, strict=True)]
        script = torch.zeros(len(source), 40, self.data.target.size)
        for row, tokens in enumerate(wanted):
            script[row, torch.arange(40), torch.tensor((tokens * 40)[:40])] = 9.0
        return Memory(script, ragged.mask(lengths, source.shape[1]))

    def initial_state(self, batch, memory=None, like=None, capacity=None):
        return Place(memory.values.clone(), torch.zeros(batch, dtype=torch.int64))

    def forward(self, x, state=None, memory=None):
        state = self.initial_state(len(x), memory) if state is None else state
        at = state.clock[:, None] + torch.arange(x.shape[1])
        return state.script[torch.arange(len(x))[:, None], at], state._replace(clock=state.clock + x.shape[1])


WRITTEN = {  # what a scripted model says of VALID: some right, some wrong
    "a dog sees a fish": "un chien voit un poisson",
    "the cat": "le chat dort",
    "a cat sees the dog": "un chat voit un chien",
    "eats": "mange",
    "the fish eats": "Le chien mange",
}


def scored(data, written, **settings):
    return task(data, **settings).translated(Scripted(data, written), "valid", greedy_settings(Config()))


def test_scores_are_sacrebleus_on_detokenised_text(data):
    found = scored(data, WRITTEN)
    mine, wanted = [WRITTEN[source] for source, _ in VALID], [target for _, target in VALID]
    assert found["cased_bleu"] == pytest.approx(sacrebleu.corpus_bleu(mine, [wanted]).score)
    assert found["bleu"] == pytest.approx(sacrebleu.corpus_bleu(mine, [wanted], lowercase=True).score)
    assert found["chrf"] == pytest.approx(sacrebleu.corpus_chrf(mine, [wanted]).score)
    assert 0 < found["cased_bleu"] < found["bleu"] < 100, "case matters to one and not to the other"
    assert re.match(r"nrefs:1\|case:mixed\|eff:no\|tok:13a\|smooth:exp\|version:", found["cased_signature"])
    assert "case:lc" in found["bleu_signature"]
    assert "nc:6" in found["chrf_signature"]
    assert found["sentences"] == 5
    assert found["unfinished"] == 0


def test_exact_matches_are_counted_all_and_by_length(data):
    found = scored(data, WRITTEN)
    assert found["exact"] == 2 / 5
    assert found["exact_by_length"] == {"1": 1.0, "2": 0.0, "3": 0.0, "5": 0.5}


def test_a_perfect_translation_scores_a_hundred(data):
    found = scored(data, dict(VALID))
    assert found["exact"] == 1
    assert found["bleu"] == pytest.approx(100)
    assert found["chrf"] == pytest.approx(100)


def test_tokenised_text_is_compared_as_moses_left_it(tmp_path):
    rows = [("Ich sehe, mein Hund!", "I see, my dog!"), ("Die Katze meines Hundes.", "My dog's cat is here.")]
    rows += [("Meine Katze, mein Hund!", "My cat, my dog!")]
    data = load(tmp_path, train=rows, valid=rows, pair="de-en", moses=True, lower=True)
    written = dict(rows) | {"Meine Katze, mein Hund!": "My cat, the cat!"}
    found = scored(data, written)
    # written by hand: what moses gives, and what a reader would write
    tokenised = ["i see , my dog !", "my dog 's cat is here .", "my cat , <unk> cat !"]
    wanted = ["i see , my dog !", "my dog 's cat is here .", "my cat , my dog !"]
    plain = ["i see, my dog!", "my dog's cat is here.", "my cat, <unk> cat!"]
    expected = sacrebleu.corpus_bleu(tokenised, [wanted], tokenize="none", lowercase=True, force=True)
    assert found["bleu"] == pytest.approx(expected.score)
    assert "case:lc" in found["bleu_signature"]
    assert "tok:none" in found["bleu_signature"]
    cased = sacrebleu.corpus_bleu(plain, [[target for _, target in rows]])
    assert found["cased_bleu"] == pytest.approx(cased.score)
    assert "tok:13a" in found["cased_signature"]
    assert found["cased_bleu"] < found["bleu"] < 100
    assert found["exact"] == 2 / 3


def test_chinese_is_cut_by_sacrebleus_own_tokeniser(tmp_path):
    rows = [("I like tea.", "我喜欢喝茶。"), ("You like tea.", "你喜欢喝茶。"), ("I do not drink tea.", "我不喝茶。")]
    data = load(tmp_path, train=rows, valid=rows, pair="en-zh", tokenizer="chars")
    written = dict(rows) | {"You like tea.": "我喜欢喝茶。"}
    found = scored(data, written)
    mine, wanted = [written[source] for source, _ in rows], [target for _, target in rows]
    assert found["cased_bleu"] == pytest.approx(sacrebleu.corpus_bleu(mine, [wanted], tokenize="zh").score)
    assert found["cased_bleu"] != pytest.approx(sacrebleu.corpus_bleu(mine, [wanted]).score), "13a sees one word a line"
    assert "tok:zh" in found["cased_signature"]
    assert "tok:zh" in found["bleu_signature"]


@pytest.mark.parametrize(
    ("language", "name"), [("zh", "zh"), ("cmn", "zh"), ("ja", "char"), ("fr", "13a"), ("target", "13a")]
)
def test_the_tokeniser_goes_by_the_language(language, name):
    assert bleu.tokenizer_for(language) == name


@pytest.mark.parametrize(
    ("text", "words"),
    [("the cat", 2), ("  ", 0), ("l'eau  est-elle\tbleue ?", 4), ("我喜欢喝茶", 5), ("我用 Python 3", 4), ("ไทย", 3)],
)
def test_a_source_without_blanks_is_as_long_as_its_characters(text, words):
    assert bleu.length(text) == words


def test_scores_by_length_are_those_of_the_sentences_in_each_bucket():
    lengths = [1, 5, 6, 10, 11, 81, 500]
    wanted = [f"one two three four {n}" for n in range(len(lengths))]
    mine = [text if i % 2 else text.replace("two", "2") for i, text in enumerate(wanted)]
    found = bleu.by_length(mine, wanted, lengths, tokenizer="13a", lower=True)
    buckets = [(0, 5, [0, 1]), (5, 10, [2, 3]), (10, 15, [4]), (80, None, [5, 6])]
    for entry, (above, upto, inside) in zip(found, buckets, strict=True):
        assert (entry["above"], entry["upto"], entry["sentences"]) == (above, upto, len(inside))
        expected = sacrebleu.corpus_bleu([mine[i] for i in inside], [[wanted[i] for i in inside]], lowercase=True)
        assert entry["bleu"] == pytest.approx(expected.score)
    assert sum(entry["sentences"] for entry in found) == len(lengths)


def test_only_so_many_sentences_are_translated_as_were_asked_for(data):
    model = Scripted(data, WRITTEN)
    found = task(data).translated(model, "valid", greedy_settings(Config()), count=2)
    assert (found["sentences"], found["exact"]) == (2, 0.5)
    assert task(data).translated(model, "valid", greedy_settings(Config()), count=99)["sentences"] == 5


def test_a_text_that_never_ends_is_counted(data):
    model = Scripted(data, WRITTEN)
    model.rows[tuple(data.source.encode("eats").tolist())] = data.target.encode("mange").tolist()
    found = task(data, ratio=1.0, extra=2).translated(model, "valid", greedy_settings(Config(ratio=1.0, extra=3)))
    assert found["unfinished"] == 1
