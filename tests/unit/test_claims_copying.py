"""Claims about translators that copy: their experiments, and how each verdict is reached."""

import json
import random
from typing import Any

import numpy as np
import pytest
import torch

from recollect.claims import _copying, _course, bottleneck, fading, load, recency, reverse, score
from recollect.claims.claim import Effort, Verdict
from recollect.models import seq2seq

IDS = ("bottleneck", "recency", "fading", "reverse", "score")
HOLDS, LIMITS, FAILS, UNDECIDED = Verdict.HOLDS, Verdict.LIMITS, Verdict.FAILS, Verdict.UNDECIDED


# ------------------------------------------------------------------------------------------------ verdicts


@pytest.mark.parametrize(
    ("fixed", "attend", "short", "verdict"),
    [
        ([0.03, 0.05], [0.0, 0.004], 0.1, HOLDS),
        ([0.03, 0.05], [0.01, 0.02], 0.1, LIMITS),
        ([0.01, 0.015], [0.0, 0.001], 0.1, LIMITS),
        ([0.01, 0.02], [0.03, 0.04], 0.1, FAILS),
        ([0.01, 0.03], [0.0, 0.02], 0.1, UNDECIDED),
        ([0.03, 0.05], [0.0, 0.004], 0.6, UNDECIDED),
    ],
)
def test_the_bottleneck_is_judged_by_its_slopes(fixed, attend, short, verdict):
    assert bottleneck.decide(fixed, attend, short) == verdict


KNOWN: dict[str, Any] = {"short": [1.0, 0.95], "right": [0.5, 0.6], "attend": [1.0, 0.99], "control": [0.0, -0.01]}


@pytest.mark.parametrize(
    ("gains", "known", "verdict"),
    [
        ([0.1, 0.2], {}, HOLDS),
        ([0.0, 0.05], {}, FAILS),
        ([-0.3, -0.2], {}, FAILS),
        ([0.0, 0.1], {}, UNDECIDED),
        ([0.1, 0.2], {"short": [1.0, 0.6]}, UNDECIDED),
        ([0.0, 0.0], {"right": [0.8, 0.95]}, UNDECIDED),
        ([0.0, 0.0], {"attend": [0.8, 1.0]}, UNDECIDED),
        ([0.1, 0.2], {"control": [0.1, 0.0]}, UNDECIDED),
        ([0.1, 0.2], {"control": [0.0, -0.1]}, UNDECIDED),
    ],
)
def test_recency_is_judged_by_the_ends_of_sources_that_do_not_fit(gains, known, verdict):
    assert recency.decide(gains, **KNOWN | known) == verdict


@pytest.mark.parametrize(
    ("fixed", "context", "attend", "first", "verdict"),
    [
        ([0.3, 0.4], [0.1, 0.2], [0.0, 0.0], 0.95, HOLDS),
        ([0.3, 0.4], [0.4, 0.5], [0.0, 0.0], 0.95, LIMITS),
        ([0.3, 0.4], [0.4, 0.5], [0.4, 0.4], 0.95, FAILS),
        ([0.0, 0.05], [-0.1, -0.1], [-0.1, -0.1], 0.95, FAILS),
        ([0.0, 0.3], [-0.1, -0.1], [-0.1, -0.1], 0.95, UNDECIDED),
        ([0.3, 0.4], [0.2, 0.35], [0.0, 0.0], 0.95, UNDECIDED),
        ([0.0, 0.0], [0.0, 0.0], [0.0, 0.0], 0.85, UNDECIDED),
    ],
)
def test_fading_is_judged_by_the_losses_of_all_three(fixed, context, attend, first, verdict):
    for late in fading.MODELS:  # whichever of them has not learnt the task
        right = {name: [0.99, first if name == late else 0.99] for name in fading.MODELS}
        assert fading.decide({"fixed": fixed, "context": context, "attend": attend}, right) == verdict


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
        ([0.0, 0.0], [0.0, 0.0], [0.7, 0.6], 0.6, UNDECIDED),
    ],
)
def test_reversal_is_judged_by_what_it_saves_with_and_without_attention(fixed, attend, room, end, verdict):
    for late in ("fixed", "attend"):
        ends = {"fixed": [0.1, 0.1], "attend": [0.0, 0.0]} | {late: [0.1, end]}
        assert reverse.decide({"fixed": fixed, "attend": attend}, room, ends) == verdict


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
        ({"additive": [0.0, 0.5]}, {}, 3.0, UNDECIDED),
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


class Stub:
    """A translator by rule: it writes the source (from the end the first word names), or always the same symbol."""

    def __init__(self, task, copying, heeds=True):
        self.target, self.copying, self.heeds = task.data.target, copying, heeds
        self.words = {int(task.data.source.encode(w)[0]): w for w in map(chr, range(97, 97 + copying.symbols))}

    def encode(self, source, lengths):
        return source

    def __call__(self, x, memory):
        logits = torch.zeros(*x.shape, self.target.size)
        first = int(self.copying.both_ways)
        back = int(self.target.encode(_copying.BACKWARD)[0]) if self.copying.both_ways else -1
        for row, source in enumerate(memory):
            words = [self.words[int(t)] for t in source if int(t) in self.words]
            if x.shape[1] > 1 and int(x[row, 1]) == back:
                words = words[::-1]
            for place in range(first, x.shape[1]):
                said = words[place - first] if self.heeds and place - first < len(words) else "a"
                logits[row, place, int(self.target.encode(said)[0])] = 50
        return logits, None


@pytest.mark.parametrize("both_ways", [False, True])
def test_who_copies_is_right_everywhere_and_who_does_not_read_is_not_moved(tmp_path, both_ways):
    copying = _copying.Copying(shortest=3, longest=5, both_ways=both_ways, train=20, test=40, symbols=4)
    task = copying.load(tmp_path, 256)
    found = _copying.write(Stub(task, copying), task, copying)
    assert sorted(found) == [3, 4, 5]
    for length, written in found.items():
        assert written.right.shape == (40, length)
        assert (written.right == 1).all()
        assert 0.5 < float(written.influence.mean()) < 0.95  # another source has the same symbol one time in four
        assert 5 < int(written.backward.sum()) < 35 if both_ways else not written.backward.any()
    deaf = _copying.write(Stub(task, copying, heeds=False), task, copying)
    for written in deaf.values():
        assert float(written.influence.max()) == 0
        assert 0.05 < float(written.right.mean()) < 0.5


def test_sentences_are_copied_from_either_end():
    copying = _copying.Copying(shortest=1, longest=1, both_ways=True)
    draw = random.Random(0)
    seen = set()
    for _ in range(50):
        source, target = (side.split() for side in copying._line(draw, 5).split("\t"))
        seen.add(target[0])
        assert target[1:] == (source[::-1] if target[0] == _copying.BACKWARD else source)
    assert seen == {_copying.FORWARD, _copying.BACKWARD}


def test_either_end_is_asked_for_and_written_from_there():
    draw = random.Random(0)
    seen = set()
    for _ in range(100):
        source, target = (side.split() for side in recency.Ends(shortest=3, longest=7)._line(draw, 7).split("\t"))
        assert target[1:] == (source[:3] if target[0] == _copying.FORWARD else source[:-4:-1])
        seen.add(target[0])
    assert seen == {_copying.FORWARD, _copying.BACKWARD}


class Recent:
    """A translator that knows only the last `span` symbols of the source."""

    def __init__(self, task, span):
        self.task, self.span = task, span

    def encode(self, source, lengths):
        return source

    def __call__(self, x, memory):
        source, target = self.task.data.source, self.task.data.target
        words = {int(source.encode(w)[0]): int(target.encode(w)[0]) for w in map(chr, range(97, 97 + 8))}
        back = int(target.encode(_copying.BACKWARD)[0])
        logits = torch.zeros(*x.shape, target.size)
        for row, tokens in enumerate(memory.tolist()):
            symbols = [words[token] for token in tokens if token in words]
            places = list(range(len(symbols)))[:: -1 if int(x[row, 1]) == back else 1]
            for i, place in enumerate(places[: recency.ASKED]):
                if place >= len(symbols) - self.span:
                    logits[row, 1 + i, symbols[place]] = 50
        return logits, None


def test_who_knows_the_end_is_right_there_alone(tmp_path):
    ends = recency.Ends(shortest=3, longest=7, train=50, test=60)
    task = ends.load(tmp_path, 256)
    found = recency.known(Recent(task, 3), task, 7)
    assert found.end == 1
    assert found.beginning < 0.5
    assert recency.known(Recent(task, 3), task, 3) == (1, 1)
    assert recency.known(Recent(task, 2), task, 7).end < 0.9


def test_who_waits_copies_what_was_read_after_any_other_words():
    waiting = fading.Waiting(shortest=3, longest=3, idle=5)
    draw = random.Random(0)
    counts = set()
    for _ in range(200):
        source, target = (side.split() for side in waiting._line(draw, 3).split("\t"))
        begin = target.index(_copying.FORWARD)
        counts.add(begin)
        assert target[begin + 1 :] == source
        assert set(target[:begin]) <= set(fading.OTHER_WORDS)
    assert counts == set(range(6))


class Forgetful:
    """A translator that knows the source until it has written `span` other words."""

    def __init__(self, task, waiting, span):
        self.task, self.waiting, self.span = task, waiting, span

    def encode(self, source, lengths):
        return source

    def __call__(self, x, memory):
        source, target = self.task.data.source, self.task.data.target
        begin = int(target.encode(_copying.FORWARD)[0])
        words = {int(source.encode(w)[0]): int(target.encode(w)[0]) for w in map(chr, range(97, 97 + 8))}
        logits = torch.zeros(*x.shape, target.size)
        for row, tokens in enumerate(x.tolist()):
            count = tokens.index(begin) - 1
            for place in range(self.waiting.longest if count <= self.span else 0):
                logits[row, count + 1 + place, words[int(memory[row, place])]] = 50
        return logits, None


def test_forgetting_is_seen_where_it_begins(tmp_path):
    waiting = fading.Waiting(shortest=3, longest=3, idle=6, train=50, test=150)
    task = waiting.load(tmp_path, 256)
    found = fading.after(Forgetful(task, waiting, 2), task, waiting)
    assert found[:3] == [1.0] * 3
    assert max(found[3:]) < 0.5
    assert len(found) == 7


@pytest.mark.parametrize("both_ways", [False, True])
def test_a_course_counts_wrong_symbols_of_long_sources_and_no_others(tmp_path, both_ways):
    copying = _copying.Copying(shortest=2, longest=5, both_ways=both_ways, train=20, test=30, symbols=4)
    task = copying.load(tmp_path, 256)
    watched = _course.Watched(task, copying, 4)
    assert int(watched.judged.sum()) == 30 * (4 + 5)
    assert watched.evaluate(Stub(task, copying), "valid") == {"wrong": 0.0}
    wrong = watched.evaluate(Stub(task, copying, heeds=False), "valid")["wrong"]
    said = {int(task.data.target.encode("a")[0])}
    symbols = watched.looked_at.y[watched.judged].tolist()
    assert wrong == pytest.approx(np.mean([symbol not in said for symbol in symbols]))
    assert watched.noted == [0.0, wrong]


def test_a_course_has_a_point_for_each_part_of_training_and_ends_where_training_does(tmp_path):
    copying = _copying.Copying(shortest=2, longest=3, train=200, test=20, symbols=4)
    task = copying.load(tmp_path, 64)
    settings = {"width": 8, "rate": 1e-2, "seed": 3}
    course = _course.follow(task, copying, "fixed", shortest=2, steps=12, every=4, **settings)
    assert course.steps == [4, 8, 12]
    model = _copying.train(task, "fixed", steps=12, **settings)
    alone = _course.Watched(task, copying, 2).evaluate(model, "valid")["wrong"]
    assert course.end == alone  # looking on the way changes nothing
    assert course.mean == pytest.approx(sum(course.errors) / 3)


@pytest.mark.parametrize("name", score.SCORES)
@pytest.mark.parametrize("full", [False, True], ids=["quick", "full"])
def test_every_score_fits_the_translator_of_both_forms(name, full):
    config = seq2seq.Config(source=10, target=10, model="attend", width=score.WIDTH[full], score=name, both_ways=False)
    assert config.build() is not None


def test_the_time_of_a_layer_is_measured_several_times():
    found = score.seconds("additive", "cpu", rows=1, steps=8, dim=8, heads=2)
    assert len(found) == score.REPEATS
    assert min(found) >= 0


# ------------------------------------------------------------------------------------------------ whole, but tiny

SMALL: dict[str, Any] = {"STEPS": (4, 4), "WIDTH": (8, 8)}
TINY: dict[str, dict[str, Any]] = {
    "bottleneck": SMALL | {"COPYING": {False: _copying.Copying(shortest=1, longest=4, train=200, test=10)}},
    "recency": SMALL | {"ENDS": {False: recency.Ends(shortest=3, longest=6, train=200, test=60)}},
    "fading": SMALL | {"WAITING": {False: fading.Waiting(shortest=3, longest=3, idle=7, train=200, test=120)}},
    "reverse": SMALL
    | {
        "COPYING": {False: _copying.Copying(shortest=3, longest=4, train=200, test=10)},
        "LONG": {False: 4},
        "EVERY": (2, 2),
    },
    "score": SMALL
    | {
        "COPYING": {False: _copying.Copying(shortest=3, longest=4, train=200, test=10)},
        "EVERY": (2, 2),
        "TIMED": ({"rows": 1, "steps": 8, "dim": 8, "heads": 2}, {}),
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", IDS)
def test_a_tiny_experiment_runs_from_data_to_charts(name, monkeypatch, tmp_path):
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path))
    module = globals()[name]
    for constant, value in TINY[name].items():
        monkeypatch.setattr(module, constant, value)
    found = load(name).run(Effort(seeds=2))
    assert found.verdict in Verdict
    assert "nan" not in found.summary
    assert json.loads(json.dumps(found.figures))
    for chart in found.charts:
        json.dumps(chart.to_json(), allow_nan=False)
    assert not list(tmp_path.iterdir())  # what a claim makes for itself is gone afterwards
