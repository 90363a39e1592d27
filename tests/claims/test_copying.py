"""Claims about translators that copy: their experiments, and how each verdict is reached."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from recollect.claims import bottleneck, fading, recency, reverse, score
from recollect.claims.claim import Verdict
from recollect.claims.laboratory import copying
from recollect.models import seq2seq

HOLDS, LIMITS, FAILS, UNDECIDED = Verdict.HOLDS, Verdict.LIMITS, Verdict.FAILS, Verdict.UNDECIDED
NOT_LEARNT = Verdict.NOT_LEARNT


# ------------------------------------------------------------------------------------------------ verdicts


@pytest.mark.parametrize(
    ("fixed", "attend", "short", "verdict"),
    [
        ([0.03, 0.05], [0.0, 0.004], 0.1, HOLDS),
        ([0.03, 0.05], [0.01, 0.02], 0.1, LIMITS),
        ([0.01, 0.015], [0.0, 0.001], 0.1, LIMITS),
        ([0.01, 0.02], [0.03, 0.04], 0.1, FAILS),
        ([0.01, 0.03], [0.0, 0.02], 0.1, UNDECIDED),
        ([0.03, 0.05], [0.0, 0.004], 0.6, NOT_LEARNT),
    ],
)
def test_the_bottleneck_is_judged_by_its_slopes(fixed, attend, short, verdict):
    assert bottleneck.judge(fixed, attend, short) == verdict


KNOWN: dict[str, Any] = {"short": [1.0, 0.95], "right": [0.5, 0.6], "attend": [1.0, 0.99], "control": [0.0, -0.01]}


@pytest.mark.parametrize(
    ("gains", "known", "verdict"),
    [
        ([0.1, 0.2], {}, HOLDS),
        ([0.0, 0.05], {}, FAILS),
        ([-0.3, -0.2], {}, FAILS),
        ([0.0, 0.1], {}, UNDECIDED),
        ([0.1, 0.2], {"short": [1.0, 0.6]}, NOT_LEARNT),
        ([0.0, 0.0], {"right": [0.8, 0.95]}, UNDECIDED),
        ([0.0, 0.0], {"attend": [0.8, 1.0]}, NOT_LEARNT),
        ([0.1, 0.2], {"control": [0.1, 0.0]}, UNDECIDED),
        ([0.1, 0.2], {"control": [0.0, -0.1]}, UNDECIDED),
    ],
)
def test_recency_is_judged_by_the_ends_of_sources_that_do_not_fit(gains, known, verdict):
    assert recency.judge(gains, **KNOWN | known) == verdict


@pytest.mark.parametrize(
    ("fixed", "context", "attend", "first", "verdict"),
    [
        ([0.3, 0.4], [0.1, 0.2], [0.0, 0.0], 0.95, HOLDS),
        ([0.3, 0.4], [0.4, 0.5], [0.0, 0.0], 0.95, LIMITS),
        ([0.3, 0.4], [0.4, 0.5], [0.4, 0.4], 0.95, FAILS),
        ([0.0, 0.05], [-0.1, -0.1], [-0.1, -0.1], 0.95, FAILS),
        ([0.0, 0.3], [-0.1, -0.1], [-0.1, -0.1], 0.95, UNDECIDED),
        ([0.3, 0.4], [0.2, 0.35], [0.0, 0.0], 0.95, UNDECIDED),
        ([0.0, 0.0], [0.0, 0.0], [0.0, 0.0], 0.85, NOT_LEARNT),
    ],
)
def test_fading_is_judged_by_the_losses_of_all_three(fixed, context, attend, first, verdict):
    for late in fading.MODELS:  # whichever of them has not learnt the task
        right = {name: [0.99, first if name == late else 0.99] for name in fading.MODELS}
        assert fading.judge({"fixed": fixed, "context": context, "attend": attend}, right) == verdict


@pytest.mark.parametrize(
    ("fixed", "attend", "room", "end", "verdict"),
    [
        ([0.1, 0.2], [0.0, 0.04], [0.2, 0.3], 0.1, HOLDS),
        ([0.1, 0.2], [0.05, 0.06], [0.2, 0.3], 0.1, LIMITS),
        ([0.0, 0.03], [0.0, 0.0], [0.2, 0.3], 0.1, FAILS),
        ([0.1, 0.2], [0.2, 0.3], [0.2, 0.3], 0.1, FAILS),
        ([0.0, 0.2], [0.0, 0.0], [0.2, 0.3], 0.1, UNDECIDED),
        ([0.1, 0.2], [0.05, 0.15], [0.2, 0.3], 0.1, UNDECIDED),
        ([0.1, 0.2], [0.0, 0.0], [0.05, 0.3], 0.1, UNDECIDED),
        ([0.0, 0.0], [0.0, 0.0], [0.7, 0.6], 0.6, NOT_LEARNT),
    ],
)
def test_reversal_is_judged_by_what_it_saves_with_and_without_attention(fixed, attend, room, end, verdict):
    for late in ("fixed", "attend"):
        ends = {"fixed": [0.1, 0.1], "attend": [0.0, 0.0]} | {late: [0.1, end]}
        assert reverse.judge({"fixed": fixed, "attend": attend}, room, ends) == verdict


def test_what_reversal_saves_is_the_plain_error_less_the_reversed():
    errors = {"fixed": [0.5, 0.25], "fixed, reversed": [0.25, 0.5]}
    assert reverse.gained(errors, "fixed") == [0.25, -0.25]


GOOD = [0.01, 0.02]


@pytest.mark.parametrize(
    ("ends", "means", "slow", "verdict"),
    [
        ({}, {}, 3.0, HOLDS),
        ({"dot": [0.01, 0.05]}, {}, 3.0, LIMITS),
        ({"dot": [0.05, 0.06]}, {}, 3.0, LIMITS),
        ({}, {"dot": [0.3, 0.4]}, 3.0, LIMITS),
        ({name: [0.08, 0.09] for name in ("scaled", "dot", "general")}, {}, 3.0, FAILS),
        ({}, {name: [0.4, 0.5] for name in ("scaled", "dot", "general")}, 3.0, FAILS),
        ({}, {}, 1.2, FAILS),
        ({"additive": [0.0, 0.5]}, {}, 3.0, NOT_LEARNT),
        ({name: [0.0, 0.5] for name in ("scaled", "dot", "general")}, {}, 3.0, UNDECIDED),
    ],
)
def test_scores_are_judged_by_time_and_by_errors_at_the_end_and_on_the_way(ends, means, slow, verdict):
    wrong = dict.fromkeys(score.SCORES, GOOD) | ends
    way = {name: [0.2, 0.22] for name in score.SCORES} | means
    times = {name: [1.0, 1.1, 0.9] for name in score.SCORES} | {score.MLP: [slow, slow, slow]}
    assert score.judge(wrong, way, times)[0] is verdict


def test_a_score_that_is_not_faster_is_left_out_of_those_that_are_better():
    times = {"scaled": [1.0], "dot": [1.0], "general": [2.5], "additive": [3.0]}
    verdict, limits = score.judge(dict.fromkeys(times, GOOD), dict.fromkeys(times, GOOD), times)
    assert verdict is LIMITS
    assert "general" in limits.split("not shown of")[1]


# ------------------------------------------------------------------------------------------------ copying


class Translator:
    """A translator by rule: `write` gives, for a source and the target so far, {place: symbol of the source}."""

    def __init__(self, task, write):
        self.source, self.target, self.write = task.data.source, task.data.target, write

    def encode(self, source, lengths):
        return source

    def __call__(self, x, memory):
        words = {int(self.source.encode(w)[0]): int(self.target.encode(w)[0]) for w in map(chr, range(97, 97 + 8))}
        logits = torch.zeros(*x.shape, self.target.size)
        for row, tokens in enumerate(memory.tolist()):
            symbols = [words[token] for token in tokens if token in words]
            for place, symbol in self.write(symbols, x[row].tolist()).items():
                logits[row, place, symbol] = 50
        return logits, None


def token(task, word):
    return int(task.data.target.encode(word)[0])


def copies(symbols, target):
    return dict(enumerate(symbols[: len(target)]))


def writes_a(task):
    return lambda symbols, target: dict.fromkeys(range(len(target)), token(task, "a"))


def test_who_copies_is_right_everywhere_and_who_does_not_read_is_not(tmp_path):
    sentences = copying.Copying(shortest=3, longest=5, train=20, test=40, symbols=4)
    task = sentences.load(tmp_path, 256)
    for length in sentences.lengths:
        batch = copying.choose(task, copying.source_lengths(task) == length)
        assert len(batch.y) == 40
        assert copying.right(Translator(task, copies), batch)[:, :length].all()
        assert bottleneck.wrong(Translator(task, copies), task, length) == 0
        assert 0.5 < bottleneck.wrong(Translator(task, writes_a(task)), task, length) < 0.95


def test_either_end_is_asked_for_and_written_from_there():
    draw = random.Random(0)
    seen = set()
    for _ in range(100):
        source, target = (side.split() for side in recency.Ends(shortest=3, longest=7).line(draw, 7).split("\t"))
        assert target[1:] == (source[:3] if target[0] == copying.FORWARD else source[:-4:-1])
        seen.add(target[0])
    assert seen == {copying.FORWARD, copying.BACKWARD}


def recent(task, span):
    """A translator that knows only the last `span` symbols of the source."""

    def write(symbols, target):
        places = list(range(len(symbols)))[:: -1 if target[1] == token(task, copying.BACKWARD) else 1]
        known = enumerate(places[: recency.ASKED], 1)
        return {i: symbols[place] for i, place in known if place >= len(symbols) - span}

    return Translator(task, write)


def test_who_knows_the_end_is_right_there_alone(tmp_path):
    ends = recency.Ends(shortest=3, longest=7, train=50, test=60)
    task = ends.load(tmp_path, 256)
    found = recency.known(recent(task, 3), task, 7)
    assert found.end == 1
    assert found.beginning < 0.5
    assert recency.known(recent(task, 3), task, 3) == (1, 1)
    assert recency.known(recent(task, 2), task, 7).end < 0.9


def test_who_waits_copies_what_was_read_after_any_other_words():
    waiting = fading.Waiting(shortest=3, longest=3, idle=5)
    draw = random.Random(0)
    counts = set()
    for _ in range(200):
        source, target = (side.split() for side in waiting.line(draw, 3).split("\t"))
        begin = target.index(copying.FORWARD)
        counts.add(begin)
        assert target[begin + 1 :] == source
        assert set(target[:begin]) <= set(fading.OTHER_WORDS)
    assert counts == set(range(6))


def forgetful(task, span):
    """A translator that knows the source until it has written `span` other words."""

    def write(symbols, target):
        count = target.index(token(task, copying.FORWARD)) - 1
        return dict(enumerate(symbols, count + 1)) if count <= span else {}

    return Translator(task, write)


def test_forgetting_is_seen_where_it_begins(tmp_path):
    waiting = fading.Waiting(shortest=3, longest=3, idle=6, train=50, test=150)
    task = waiting.load(tmp_path, 256)
    found = fading.after(forgetful(task, 2), task, waiting)
    assert found[:3] == [1.0] * 3
    assert max(found[3:]) < 0.5
    assert len(found) == 7


def test_a_course_counts_wrong_symbols_of_long_sources_and_no_others(tmp_path):
    sentences = copying.Copying(shortest=2, longest=5, train=20, test=30, symbols=4)
    task = sentences.load(tmp_path, 256)
    watched = copying.Watched(task, sentences, 4)
    assert int(watched.judged.sum()) == 30 * (4 + 5)
    assert watched.evaluate(Translator(task, copies), "valid") == {"wrong": 0.0}
    wrong = watched.evaluate(Translator(task, writes_a(task)), "valid")["wrong"]
    symbols = watched.sentences.y[watched.judged].tolist()
    assert wrong == pytest.approx(np.mean([symbol != token(task, "a") for symbol in symbols]))
    assert watched.noted == [0.0, wrong]


def test_a_course_has_a_point_for_each_part_of_training_and_ends_where_training_does(tmp_path):
    sentences = copying.Copying(shortest=2, longest=3, train=200, test=20, symbols=4)
    task = sentences.load(tmp_path, 64)
    form = copying.Form(copying=sentences, width=8, steps=12, every=4, tokens=64, rate=1e-2, seeds=1)
    course = copying.follow(task, form=form, shortest=2, model="fixed", seed=3)
    assert course.steps == [4, 8, 12]
    model = copying.train(task, replace(form, every=0), model="fixed", seed=3)
    alone = copying.Watched(task, sentences, 2).evaluate(model, "valid")["wrong"]
    assert course.end == alone  # looking on the way changes nothing
    assert course.mean == pytest.approx(sum(course.errors) / 3)


@pytest.mark.parametrize("name", score.SCORES)
@pytest.mark.parametrize("form", [score.QUICK, score.FULL], ids=["quick", "full"])
def test_every_score_fits_the_translator_of_both_forms(name, form):
    config = seq2seq.Config(source=10, target=10, model="attend", width=form.width, score=name, both_ways=False)
    assert config.build() is not None


def test_the_time_of_a_layer_is_measured_several_times():
    found = score.seconds("additive", "cpu", rows=1, steps=8, dim=8, heads=2)
    assert len(found) == score.REPEATS
    assert min(found) >= 0
