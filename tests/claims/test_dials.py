"""The claims about the dials of a matrix memory: verdicts from constructed numbers, and the text that switches."""

import numpy as np
import pytest
import torch

from recollect.claims import delta_ttt, eigenvalue_sign, forgetting, overwrite
from recollect.claims.claim import Effort, Verdict

HOLDS, LIMITS, FAILS, UNDECIDED = Verdict.HOLDS, Verdict.LIMITS, Verdict.FAILS, Verdict.UNDECIDED
NOT_LEARNT = Verdict.NOT_LEARNT
GOOD, CHANCE, HALFWAY = [1.0, 0.98], [0.5, 0.52], [0.8, 0.8]


def test_the_delta_rule_is_training_after_every_input():
    found = delta_ttt.run(Effort())
    assert found.verdict is HOLDS
    assert set(found.figures["difference"]) == {"1", "2"}
    assert max(max(own.values()) for own in found.figures["difference"].values()) < 1e-12
    assert min(found.figures["one_change"].values()) > 0.01


def test_a_difference_anywhere_breaks_the_claim_about_training():
    small = {"outputs": 1e-15, "state": 1e-15, "gradients": 1e-15}
    assert delta_ttt.judge({"1": small, "2": small}) is HOLDS
    for part in small:
        assert delta_ttt.judge({"1": small, "2": small | {part: 1e-6}}) is FAILS


def test_keys_and_queries_have_length_one_in_each_head_of_both_layers():
    inner, plain = delta_ttt.pair(2.0)
    x = torch.nn.functional.normalize(torch.randn(3, 2, 6).double(), dim=-1).flatten(-2)
    for layer in (inner, plain):
        for project in (layer.q, layer.k):
            assert torch.allclose(project(x).unflatten(-1, (2, -1)).norm(dim=-1), torch.ones(3, 2).double())


def dials(delta, mamba2, easy=GOOD):
    """What each layer got, from {positive: …, signed: …} of both families."""
    families = zip(eigenvalue_sign.FAMILIES.items(), (delta, mamba2), strict=True)
    return {
        f"{family}, {dial}": (easy, value)
        for (family, names), values in families
        for dial, value in zip(names, values, strict=True)
    }


@pytest.mark.parametrize(
    ("delta", "mamba2", "verdict"),
    [
        ((CHANCE, GOOD), (CHANCE, GOOD), HOLDS),
        ((CHANCE, GOOD), (CHANCE, CHANCE), LIMITS),
        ((CHANCE, GOOD), (GOOD, GOOD), LIMITS),
        ((GOOD, GOOD), (GOOD, GOOD), FAILS),
        ((CHANCE, CHANCE), (CHANCE, CHANCE), FAILS),
        ((CHANCE, HALFWAY), (CHANCE, HALFWAY), UNDECIDED),
        ((CHANCE, HALFWAY), (CHANCE, CHANCE), UNDECIDED),
    ],
)
def test_eigenvalue_sign(delta, mamba2, verdict):
    found = dials(delta, mamba2)
    assert eigenvalue_sign.judge(found)[0] is verdict
    for name in found:
        told = eigenvalue_sign.judge(found | {name: (CHANCE, found[name][1])})
        assert told[0] is NOT_LEARNT
        assert name in told[1]


@pytest.mark.parametrize(
    ("add", "delta", "verdict"),
    [
        ([0.5, 0.6], [1.0, 0.95], HOLDS),
        ([0.5, 0.6], [0.85, 0.95], LIMITS),
        ([0.95, 0.97], [0.96, 0.97], FAILS),
        ([0.5, 0.9], [0.95, 0.95], UNDECIDED),
    ],
)
def test_overwrite(add, delta, verdict):
    again, once = {"add": add, "delta": delta}, {"add": [1.0, 1.0], "delta": [1.0, 1.0]}
    assert overwrite.judge(again, once)[0] is verdict
    assert overwrite.judge(again, once | {"add": [1.0, 0.8]})[0] is NOT_LEARNT


@pytest.mark.parametrize(
    ("none", "step", "stays", "verdict"),
    [
        ([1.5, 1.6], [1.2, 1.3], [0.8, 0.8], HOLDS),
        ([1.5, 1.6], [1.2, 1.3], [0.6, 0.6], LIMITS),
        ([1.2, 1.2], [1.2, 1.2], [0.8, 0.8], FAILS),
        ([1.2, 1.4], [1.1, 1.3], [0.8, 0.8], UNDECIDED),
    ],
)
def test_forgetting(none, step, stays, verdict):
    switching, lasting = {"none": none, "step": step}, {"none": [0.8, 0.8], "step": stays}
    assert forgetting.judge(switching, lasting)[0] is verdict
    assert forgetting.judge(switching, lasting | {"none": [0.8, 1.9]})[0] is NOT_LEARNT


def test_a_subject_gives_every_letter_one_successor_and_the_next_subject_others():
    each, count = 4000, len(forgetting.LETTERS)
    text = forgetting.write(2 * each, each, seed=0)
    circles = []
    for part in (text[:each], text[each:]):
        pairs = np.zeros((count, count))
        np.add.at(pairs, (part[:-1], part[1:]), 1)
        shares = pairs / pairs.sum(axis=1, keepdims=True)
        expected = forgetting.SURE + (1 - forgetting.SURE) / count
        assert shares.max(axis=1) == pytest.approx([expected] * count, abs=0.05)
        circles.append(shares.argmax(axis=1).tolist())
        seen, now = set(), 0
        while now not in seen:
            seen.add(now)
            now = circles[-1][now]
        assert len(seen) == count
    assert circles[0] != circles[1]
    assert (forgetting.write(500, 50, seed=1) == forgetting.write(500, 50, seed=1)).all()
