"""A row of the bench: ratios, rounds, failures that are reported."""

import pytest
import torch

from benchmarks import measure


@pytest.fixture
def clock(monkeypatch):
    """Times that are told, not taken: each run has a list of seconds, used round by round."""
    told: dict[object, list[float]] = {}

    def seconds_of(run, repeats, device):
        run()
        return told[run].pop(0)

    monkeypatch.setattr(measure, "_warm_up", lambda run, device, seconds: (run() or 1, 0.0))
    monkeypatch.setattr(measure, "seconds_of", seconds_of)
    return told


def named(name):
    def run():
        return None

    run.__name__ = name
    return run


def test_the_ratio_is_to_the_best_mode_of_the_best_peer(clock):
    slow, fast, eager, graph = (named(n) for n in ("slow", "fast", "eager", "graph"))
    clock |= {slow: [9.0] * 3, fast: [2.0, 3.0, 4.0], eager: [8.0] * 3, graph: [4.0, 4.0, 5.0]}
    row = measure.compare(
        "r", {"as called": slow, "fast": fast}, {"eager": eager, "graph": graph}, device="cpu", rounds=3
    )
    assert row.ours["mode"] == "fast"
    assert row.ours["median"] == 3.0
    assert row.best_peer == "graph"
    assert row.ratio == 0.75  # the median of 2/4, 3/4, 4/5
    assert set(row.modes) == {"as called", "fast"}


def test_a_peer_that_fails_is_named_and_the_others_go_on(clock, broken):
    ours, peer = named("ours"), named("peer")
    clock |= {ours: [1.0] * 3, peer: [2.0] * 3}
    row = measure.compare(
        "r", ours, {"bad": broken, "good": peer}, device="cpu", rounds=3, absent={"kenlm": "not installed"}
    )
    assert row.absent == {"kenlm": "not installed", "bad": "failed: RuntimeError: no such kernel second line"}
    assert (row.best_peer, row.ratio, row.error) == ("good", 0.5, None)


def test_a_slow_peer_is_timed_once(clock, monkeypatch):
    ours, peer = named("ours"), named("peer")
    clock |= {ours: [1.0, 2.0, 3.0], peer: []}
    monkeypatch.setattr(measure, "_warm_up", lambda run, device, seconds: (1, 8.0 if run is peer else 1.0))
    row = measure.compare("r", ours, {"peer": peer}, device="cpu", rounds=3)
    assert (row.ours["median"], row.ours["rounds"]) == (2.0, 3)
    assert (row.peers["peer"]["median"], row.peers["peer"]["rounds"], row.ratio) == (8.0, 1, 0.125)


def test_a_peer_that_fails_on_the_way_is_no_longer_run(clock):
    ours, peer = named("ours"), named("peer")
    clock |= {ours: [1.0] * 3, peer: [2.0]}  # the second time it has none
    row = measure.compare("r", ours, {"peer": peer}, device="cpu", rounds=3)
    assert row.peers == {}
    assert row.ratio is None
    assert row.absent["peer"].startswith("failed: IndexError")


def test_where_ours_fails_the_row_says_so(clock, broken):
    peer = named("peer")
    clock |= {peer: [2.0] * 3}
    row = measure.compare("r", broken, {"peer": peer}, device="cpu", rounds=3)
    assert row.error == "RuntimeError: no such kernel second line"
    assert (row.ours, row.ratio) == ({}, None)


def test_inputs_are_made_anew_for_every_round_outside_the_clock(clock):
    x, seen = torch.zeros(4), []

    def ours():
        seen.append(x.clone())

    clock |= {ours: [1.0] * 3}
    measure.compare("r", ours, {}, device="cpu", rounds=3, fresh=lambda: x.normal_())
    assert len(seen) == 4  # one to warm up
    assert len({tuple(one.tolist()) for one in seen}) == 4


def test_all_sides_take_turns_at_going_first(clock):
    order = []

    def side(name):
        def run():
            order.append(name)

        return run

    a, b = side("a"), side("b")
    clock |= {a: [1.0] * 4, b: [1.0] * 4}
    measure.compare("r", a, {"b": b}, device="cpu", rounds=4)
    assert order[2:] == ["a", "b", "b", "a", "a", "b", "b", "a"]


def test_the_share_of_the_floor_is_the_floor_over_our_time(clock):
    ours = named("ours")
    clock |= {ours: [4.0] * 3}
    row = measure.compare("r", ours, {}, device="cpu", rounds=3, floor={"seconds": 1.0, "bound": "bytes"})
    assert row.floor_share == 0.25


def test_spread_is_from_the_tenth_to_the_ninetieth_percentile():
    summary = measure._summary([float(n) for n in range(11)])
    assert summary == {"median": 5.0, "low": 1.0, "high": 9.0, "rounds": 11}
    assert measure._summary([2.0]) == {"median": 2.0, "low": 2.0, "high": 2.0, "rounds": 1}


def test_sides_rest_between_their_turns_on_a_cpu(monkeypatch):
    done = []
    monkeypatch.setattr(measure, "rest", lambda device: done.append(device))
    monkeypatch.setattr(measure, "seconds_of", lambda run, repeats, device: done.append(run()) or 1.0)
    measure.compare("r", {"a": lambda: "a"}, {"b": lambda: "b"}, device="cpu", rounds=2)
    assert done[-8:] == ["cpu", "a", "cpu", "b", "cpu", "b", "cpu", "a"]


def test_an_attempt_gives_a_row_whatever_happens(broken):
    row = measure.attempt("r", "cpu", broken)
    assert (row.row, row.error, row.ours) == ("r", "RuntimeError: no such kernel second line", {})


def test_a_peer_that_computes_something_else_is_left_out_unless_all_do(broken):
    def check(result):
        assert result == 2, f"found {result}"
        return "twos"

    good, said, absent = measure.agreeing({"right": lambda: 2, "wrong": lambda: 3, "broken": broken}, check)
    assert list(good) == ["right"]
    assert said == "twos"
    assert absent["wrong"].startswith("failed: AssertionError: found 3")
    assert absent["broken"] == "failed: RuntimeError: no such kernel second line"
    with pytest.raises(AssertionError, match="found 3"):
        measure.agreeing({"wrong": lambda: 3}, check)
    assert measure.agreeing({}, check) == ({}, "", {})


def test_calls_are_timed_until_a_round_is_long_enough(monkeypatch):
    calls = []
    monkeypatch.setattr(measure, "seconds_of", lambda run, repeats, device: calls.append(repeats) or 0.001)
    assert measure._warm_up(lambda: None, "cpu", 0.05) == (50, 0.001)
    assert calls == [1, 16]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_graph_is_captured_and_what_waits_is_refused_and_leaves_no_trace():
    x = torch.ones(4, device="cuda")
    replay = measure.captured(lambda: x * 2)
    x.fill_(3)
    assert torch.equal(replay(), torch.full((4,), 6.0, device="cuda"))
    found, failed = measure.graphs({"good": lambda: x + 1, "waits": lambda: x.sum().item()}, "cuda")
    assert list(found) == ["good in a CUDA graph"]
    assert list(failed) == ["waits in a CUDA graph"]
    assert torch.randn(4, device="cuda").isfinite().all()
