"""The bench measures what it says: ratios, floors, failures that are reported, and the page made from its files."""

import json
from pathlib import Path

import pytest
import torch
from benchmarks import __main__ as bench
from benchmarks import floors, measure, speed_page

ROOT = Path(__file__).resolve().parents[2]


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


def broken():
    raise RuntimeError("no such kernel\nsecond line")


# A row


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


def test_a_peer_that_fails_is_named_and_the_others_go_on(clock):
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


def test_where_ours_fails_the_row_says_so(clock):
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


def test_an_attempt_gives_a_row_whatever_happens():
    row = measure.attempt("r", "cpu", broken)
    assert (row.row, row.error, row.ours) == ("r", "RuntimeError: no such kernel second line", {})


def test_a_peer_that_computes_something_else_is_left_out_unless_all_do():
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


# Floors


@pytest.fixture
def limits(monkeypatch):
    monkeypatch.setattr(floors, "peak", lambda device, dtype: 1e12)
    monkeypatch.setattr(floors, "bandwidth", lambda device, size: 1e9 if size > 1e6 else 1e10)


def test_the_floor_is_the_largest_bound(limits):
    assert floors.floor("cpu", flops=2e12, bytes=1e8) == {
        "seconds": 2.0,
        "bound": "FLOPs, float32 matrix product",
        "flops": 2e12,
        "bytes": 1e8,
    }
    assert floors.floor("cpu", flops=1e9, bytes=1e8)["seconds"] == pytest.approx(0.1)
    # what is read many times is read at the speed of a cache that holds it
    assert floors.floor("cpu", bytes=1e5, times=1000)["seconds"] == pytest.approx(0.01)


def test_steps_on_a_gpu_meet_in_a_cluster_where_the_weights_fit_there(limits):
    near, far = (floors.floor("cuda", steps=1000, recurrent=size) for size in (2e6, 5e6))
    assert near["seconds"] == pytest.approx(250e-6)
    assert far["seconds"] == pytest.approx(980e-6)
    assert near["bound"] == "1,000 barriers of a cluster"
    assert floors.floor("cpu", steps=1000, recurrent=2e6, flops=1.0)["bound"].startswith("FLOPs")


def test_what_the_machine_does_is_measured():
    assert floors.bandwidth("cpu", 2**20) > 1e8
    assert floors.bandwidth("cpu", 2**20) == floors.bandwidth("cpu", 2**19)  # less is not told apart
    assert floors.peak("cpu", torch.float32) > 1e8


# The command


@pytest.fixture
def rows(monkeypatch):
    def good(device):
        """A row."""
        yield measure.Row(
            "good one",
            device,
            {"median": 1.0, "low": 0.9, "high": 1.2},
            {"p": {"median": 2.0, "low": 2.0, "high": 2.0}},
        )

    def bad(device):
        """Another."""
        yield measure.Row(
            "bad one", device, {"median": 1e-3, "low": 1e-3, "high": 1e-3}, absent={"kenlm": "not installed"}
        )
        broken()

    monkeypatch.setattr(bench, "ROWS", {"bad": bad, "good": good})


def run(monkeypatch, *words):
    monkeypatch.setattr("sys.argv", ["bench", *words])
    return bench.main()


def test_a_row_that_fails_is_reported_and_the_others_are_written(rows, monkeypatch, tmp_path, capsys):
    assert run(monkeypatch, "--json", str(tmp_path)) == 1
    bad, good = (json.loads((tmp_path / f"bench-{name}-cpu.json").read_text()) for name in ("bad", "good"))
    assert [row["error"] for row in bad["rows"]] == [None, "RuntimeError: no such kernel second line"]
    assert bad["command"] == "./recollect bench bad --device cpu"
    (row,) = good["rows"]
    needed = {"row", "device", "ours", "peers", "ratio", "floor", "versions", "machine", "absent", "checked", "unit"}
    assert set(row) >= needed
    assert row["ratio"] == 0.5
    assert row["versions"]["torch"] == torch.__version__
    out = capsys.readouterr().out
    assert "bad one: kenlm is absent: not installed" in out
    assert "RuntimeError: no such kernel second line" in out
    assert "0.50" in out


def test_only_some_rows_are_measured_anew_and_the_others_stay(monkeypatch, tmp_path):
    times = iter((1.0, 2.0, 3.0))

    def made(title):
        median = next(times)
        return measure.Row(title, "cpu", {"median": median, "low": median, "high": median})

    def rows(device):
        for title in ("a step", "a sequence"):
            yield measure.attempt(title, device, lambda title=title: made(title))

    monkeypatch.setattr(bench, "ROWS", {"some": rows})
    monkeypatch.setattr(measure, "only", "")
    monkeypatch.setattr(measure, "commit", lambda: "old")
    assert run(monkeypatch, "--json", str(tmp_path)) == 0
    monkeypatch.setattr(measure, "commit", lambda: "new")
    assert run(monkeypatch, "--json", str(tmp_path), "--only", "sequence") == 0
    found = json.loads((tmp_path / "bench-some-cpu.json").read_text())
    assert found["commit"] == "new"
    assert [(row["row"], row["ours"]["median"], row.get("commit")) for row in found["rows"]] == [
        ("a step", 1.0, "old"),
        ("a sequence", 3.0, None),
    ]
    told = speed_page.source(found)
    assert "commit new. Not measured anew, from commit old: a step." in " ".join(told.split())


def test_rows_are_listed_and_unknown_ones_refused(rows, monkeypatch, capsys):
    assert run(monkeypatch, "--list") == 0
    assert capsys.readouterr().out.split("\n")[:2] == ["bad          Another.", "good         A row."]
    with pytest.raises(SystemExit):
        run(monkeypatch, "god")
    assert "expected rows out of bad, good, found god" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_one_clear_line(rows, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run(monkeypatch, "--device", "cuda")
    assert "expected a CUDA device, found none; use --device cpu" in capsys.readouterr().err


def test_a_device_that_breaks_is_left_to_a_new_process(rows, monkeypatch, tmp_path, capsys):
    started = []
    monkeypatch.setattr(bench, "is_sound", lambda device: False)
    monkeypatch.setattr(bench.os, "execv", lambda program, words: started.append(words))
    run(monkeypatch, "bad", "good", "--json", str(tmp_path))
    assert started[0][1:] == ["-m", "benchmarks", "good", "--device", "cpu", "--json", str(tmp_path)]


def test_every_row_has_a_line_and_a_title_on_the_page():
    for name, rows in bench.ROWS.items():
        assert rows.__doc__, name
        assert name in speed_page.TITLES


# The page


def test_the_page_of_speed_is_made_from_the_rows():
    expected = speed_page.page(ROOT / "results")
    assert (ROOT / "docs" / "speed.md").read_text(encoding="utf-8") == expected, "run python -m benchmarks.speed_page"


def test_the_page_shows_what_is_absent_and_what_failed(rows, monkeypatch, tmp_path):
    run(monkeypatch, "--json", str(tmp_path))
    text = speed_page.page(tmp_path)
    assert "| good one | 1 s ±15 % | p | 2 s ±0 % | 0.50 |" in text
    assert "- bad: failed (`RuntimeError: no such kernel second line`)" in text
    assert "- kenlm: `not installed` (bad one)" in text
    assert "of 1 rows with a peer, ours is faster in 1, level (within 5 %) in 0, slower in 0" in text


def test_where_both_sides_are_ours_nothing_is_won(tmp_path):
    times = {"median": 1.0, "low": 1.0, "high": 1.0}
    for name, ratio in {"decoding": 0.1, "step": 2.0}.items():
        row = measure.Row(name, "cpu", dict(times), {"p": times | {"ratio": ratio}})
        measure.write(f"{name}-cpu", [row], "c", tmp_path)
    assert (
        "- CPU: of 1 rows with a peer, ours is faster in 0, level (within 5 %) in 0, slower in 1."
        in speed_page.page(tmp_path)
    )


def test_curves_become_a_table_of_exponents():
    ours = {"median": 0.5, "low": 0.4, "high": 0.6}
    row = measure.Row(
        "scaling x",
        "cpu",
        ours,
        series={"length": [256, 512], "seconds": [0.1, 0.5], "bytes": [2**20, 2**21]},
        fit={"time": 1.5, "memory": 1.0},
    )
    table = speed_page.growth([vars(row)])
    assert "| scaling x | 512 | 500 ms | 2.0 MiB | length^1.50 | length^1.00 |  |" in table


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(2.5, "2.5 s"), (0.1234, "123 ms"), (0.0012345, "1.23 ms"), (74.13e-6, "74.1 µs"), (3e-7, "0.3 µs")],
)
def test_times_have_three_digits_and_a_unit(seconds, said):
    assert speed_page.duration(seconds) == said


@pytest.mark.parametrize(
    ("part", "said"),
    [(0.0, "0 %"), (0.004, "0.4 %"), (0.0099, "1 %"), (0.096, "10 %"), (0.5, "50 %"), (1.08, "108 %")],
)
def test_shares_are_whole_percents_from_one_on(part, said):
    assert speed_page.percent(part) == said


def test_rates_are_amounts_over_time():
    assert speed_page.figure({"median": 0.5}, "tokens", 4096) == "8,192 tokens/s"
    assert speed_page.figure({"median": 2.0}, "sentences", 5) == "2.50 sentences/s"
