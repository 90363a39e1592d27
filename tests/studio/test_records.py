"""Reading folders of runs as they grow: only what is new, whatever becomes of the files, and nothing from outside."""

import math
import os

import numpy as np
import pytest

from recollect.core.errors import RecollectError
from recollect.core.files import is_locked, locked
from recollect.core.settings import ContractError
from recollect.studio.records import chart, curves, places, thinning
from recollect.studio.records.curves import Curve, Curves
from recollect.studio.records.watch import Watch

from .folders import add_rows, make_run


def watch(*folders):
    return Watch(places.open_roots([str(folder) for folder in folders]), look=0, search=0)


# Curves


def test_a_second_look_reads_only_what_is_new(tmp_path, monkeypatch):
    run = make_run(tmp_path / "a", rows=50)
    curve = Curve(run / "metrics.jsonl")
    assert curve.update()
    assert len(curve) == 55
    add_rows(run, range(51, 54))
    parsed = []
    real = Curve._add_all
    monkeypatch.setattr(Curve, "_add_all", lambda self, lines: parsed.extend(filter(None, lines)) or real(self, lines))
    assert curve.update()
    assert len(parsed) == 3
    assert len(curve) == 58
    assert not curve.update()
    assert curve.restarts == 0


def test_half_a_line_waits_for_its_end(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": 3.0}\n{"step": 2, "lo')
    curve = Curve(path)
    curve.update()
    assert list(curve.columns["step"]) == [1]
    with path.open("a") as file:
        file.write('ss": 2.5}\n')
    curve.update()
    assert list(curve.columns["loss"]) == [3.0, 2.5]
    assert curve.skipped == 0


def test_a_replaced_file_is_read_from_its_beginning(tmp_path):
    run = make_run(tmp_path / "a", rows=30)
    curve = Curve(run / "metrics.jsonl")
    curve.update()
    text = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    other = tmp_path / "other"
    other.write_text("".join(text[:4]))
    os.replace(other, run / "metrics.jsonl")
    curve.update()
    assert len(curve) == 4
    assert curve.restarts == 1


def test_a_file_cut_and_grown_again_in_place_is_read_anew(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(f'{{"step": {n}, "loss": 1.5}}\n' for n in range(9)))
    curve = Curve(path)
    curve.update()
    path.write_text("".join(f'{{"step": {n}, "loss": 2.5}}\n' for n in range(20)))
    curve.update()
    assert list(curve.columns["loss"]) == [2.5] * 20


def test_a_file_that_goes_leaves_nothing(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": 1.0}\n')
    curve = Curve(path)
    curve.update()
    path.unlink()
    assert curve.update()
    assert len(curve) == 0


@pytest.mark.parametrize(
    "line",
    ["[1]", "{", "null", '{"step": "1"}', '{"step": NaN}', '{"loss": 1}', '{"step": 1' + "0" * 999 + "}", "[" * 999],
)
def test_odd_lines_are_passed_over(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"step": 1, "loss": 1.0}}\n{line}\n{{"step": 2, "loss": Infinity}}\n')
    curve = Curve(path)
    curve.update()
    assert list(curve.columns["step"]) == [1, 2]
    assert curve.skipped == 1


def test_a_long_look_is_cut_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(curves, "MOST_READ", 1_000)
    run = make_run(tmp_path / "a", rows=60)
    curve = Curve(run / "metrics.jsonl")
    looks = sum(curve.update() for _ in range(60))
    assert looks > 5
    assert len(curve) == 66


def test_a_very_long_run_is_halved_and_keeps_its_validation(tmp_path, monkeypatch):
    monkeypatch.setattr(curves, "MOST_ROWS", 100)
    run = make_run(tmp_path / "a", rows=150)
    curve = Curve(run / "metrics.jsonl")
    curve.update()
    assert len(curve) <= 100
    assert sum(not math.isnan(value) for value in curve.columns["valid"]) == 15


def test_curves_asked_for_longest_ago_go_first(tmp_path):
    paths = [make_run(tmp_path / name, rows=20) / "metrics.jsonl" for name in "abc"]
    kept = Curves(most=50 * len(curves.COLUMNS))
    for path in paths:
        kept.read(path)
    assert list(kept.kept) == paths[1:]


# Thinning


def test_peaks_and_ends_stay(tmp_path):
    x = np.arange(1.0, 20_001.0)
    y = np.sin(x / 900)
    y[[777, 12_345]] = 40.0, -40.0
    for log_x in (False, True):
        thin_x, thin_y = thinning.thin(x, y, 300, log_x=log_x)
        assert len(thin_x) <= 300
        assert {40.0, -40.0} <= set(thin_y)
        assert (thin_x[0], thin_x[-1]) == (1.0, 20_000.0)
        assert (np.diff(thin_x) > 0).all()


def test_short_curves_stay_as_they_are():
    x, y = thinning.select([3.0, 1.0, 2.0, math.nan, 4.0], [1.0, 2.0, math.inf, 0.0, -1.0], log_y=True)
    assert (x.tolist(), y.tolist()) == ([1.0, 3.0], [2.0, 1.0])
    assert thinning.thin(x, y, 10)[0] is x
    same = np.full(50, 7.0)
    assert len(thinning.thin(same, np.arange(50.0), 10)[0]) == 10


def test_smoothing_starts_at_the_first_value_and_halves_by_hand():
    found = thinning.smooth(np.array([4.0, 0.0, 0.0]), 0.5)
    assert found.tolist() == pytest.approx([4.0, 4 / 3, 4 / 7])
    assert thinning.smooth(np.array([4.0, 0.0]), 0.0).tolist() == [4.0, 0.0]


# The table


def test_changes_are_told_once(tmp_path):
    make_run(tmp_path / "runs" / "a", model="lstm")
    make_run(tmp_path / "runs" / "b", model="gru", finished=False)
    seen = watch(tmp_path / "runs")
    first = seen.changes("")
    assert first.all
    assert {run.id: (run.model, run.state, run.step) for run in first.runs} == {
        "runs/a": ("lstm", "finished", 200),
        "runs/b": ("gru", "stopped", 200),
    }
    assert seen.changes(first.cursor).runs == []
    add_rows(tmp_path / "runs" / "b", range(21, 23))
    later = seen.changes(first.cursor)
    assert [(run.id, run.step) for run in later.runs] == [("runs/b", 220)]
    assert not later.all
    for path in (tmp_path / "runs" / "a" / "checkpoints", tmp_path / "runs" / "a"):
        for file in path.iterdir():
            file.rmdir() if file.is_dir() else file.unlink()
        path.rmdir()
    last = seen.changes(later.cursor)
    assert (last.gone, last.runs) == (["runs/a"], [])
    assert seen.changes("another.3").all
    assert seen.changes("x" * 99_999).all


def test_files_that_did_not_change_are_not_read_again(tmp_path, monkeypatch):
    for name in "abc":
        make_run(tmp_path / name)
    seen = watch(tmp_path)
    seen.look()
    read = []
    from recollect.studio.records import watch as module

    real = module.read_run
    monkeypatch.setattr(module, "read_run", lambda name, *rest, **more: read.append(name) or real(name, *rest, **more))
    seen.look()
    assert read == []
    add_rows(tmp_path / "b", range(21, 22))
    seen.look()
    assert read == [f"{tmp_path.name}/b"]


def test_a_run_that_somebody_trains_is_running(tmp_path):
    run = make_run(tmp_path / "a", finished=False)
    seen = watch(tmp_path)
    with locked(run, wait=False):
        assert is_locked(run)
        assert [found.state for found in seen.runs()] == ["running"]
    assert not is_locked(run)
    assert [found.state for found in seen.runs()] == ["stopped"]


def test_runs_of_a_race_say_so(tmp_path):
    make_run(tmp_path / "race" / "runs" / "recall-lstm-0")
    (tmp_path / "race" / "race.json").write_text("{}")
    seen = watch(tmp_path)
    assert [run.race for run in seen.runs()] == [f"{tmp_path.name}/race"]
    assert seen.race(f"{tmp_path.name}/race") == tmp_path.resolve() / "race"
    assert seen.race("../race") is None


def test_links_are_not_followed(tmp_path):
    outside = make_run(tmp_path / "outside" / "secret")
    inside = tmp_path / "inside"
    make_run(inside / "good")
    (inside / "linked").symlink_to(outside)
    make_run(inside / "config-linked")
    (inside / "config-linked" / "config.json").unlink()
    (inside / "config-linked" / "config.json").symlink_to(outside / "config.json")
    make_run(inside / "metrics-linked")
    (inside / "metrics-linked" / "metrics.jsonl").unlink()
    (inside / "metrics-linked" / "metrics.jsonl").symlink_to(outside / "metrics.jsonl")
    make_run(inside / "weights-linked", finished=False)
    (inside / "weights-linked" / "checkpoints").symlink_to(outside / "checkpoints")
    (inside / "fifo").mkdir()
    os.mkfifo(inside / "fifo" / "config.json")
    seen = watch(inside)
    assert [run.id for run in seen.runs()] == ["inside/good"]
    assert len(seen.curves.read(inside / "metrics-linked" / "metrics.jsonl")) == 0
    for name in ("../outside/secret", "inside/../../outside/secret", "inside/linked", "/etc/passwd", "inside/good/.."):
        assert seen.run(name) is None


def test_folders_of_one_name_have_labels_of_their_own(tmp_path):
    for part in ("x", "y"):
        make_run(tmp_path / part / "runs" / "a")
    seen = watch(tmp_path / "x" / "runs", tmp_path / "y" / "runs", tmp_path / "x" / "runs")
    assert sorted(run.id for run in seen.runs()) == ["runs-2/a", "runs/a"]
    assert watch(tmp_path / "none").runs() == []
    with pytest.raises(RecollectError, match="expected a folder, found a file"):
        places.open_roots([__file__])


@pytest.mark.parametrize("config", ["", "[]", '{"format": "recollect-run"}', '{"train": 3}', "\0" * 100])
def test_what_is_no_run_is_none(tmp_path, config):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.json").write_text(config)
    assert watch(tmp_path).runs() == []


# Charts


def drawn(seen, asked):
    found = [seen.run(run) for run in asked.runs]
    return chart.draw(asked, [(run, seen.curves.read(path / "metrics.jsonl")) for run, path in found])


def test_only_lines_that_grew_are_sent_again(tmp_path):
    for name in "ab":
        make_run(tmp_path / "r" / name, rows=40, finished=False)
    seen = watch(tmp_path / "r")
    seen.look()
    asked = chart.Asked(runs=["r/a", "r/b"], x="step", y="loss")
    first = drawn(seen, asked)
    assert first["svg"].startswith("<svg")
    assert first["area"]["x"][1] == 400
    assert len(first["lines"]) == 2
    rows = {line["id"]: line["rows"] for line in first["lines"]}
    again = chart.Asked(runs=asked.runs, x="step", y="loss", scale=first["scale"], rows=rows)
    assert drawn(seen, again) == {"scale": first["scale"], "lines": [], "same": ["r/a", "r/b"]}
    add_rows(tmp_path / "r" / "b", range(41, 42))
    later = drawn(seen, again)
    assert "svg" in later  # the axis had to grow
    rows = {line["id"]: line["rows"] for line in later["lines"]}
    again = chart.Asked(runs=asked.runs, x="step", y="loss", scale=later["scale"], rows=rows)
    add_rows(tmp_path / "r" / "b", range(42, 43))
    last = drawn(seen, again)
    assert [line["id"] for line in last["lines"]] == ["r/b"]
    assert "svg" not in last
    assert last["lines"][0]["x"][-1] == 420


def test_points_lie_between_the_axes(tmp_path):
    make_run(tmp_path / "r" / "a", rows=100)
    seen = watch(tmp_path / "r")
    seen.look()
    for log in (False, True):
        found = drawn(seen, chart.Asked(runs=["r/a"], x="seconds", y="loss", log_x=log, log_y=log, smooth=0.5))
        area, line = found["area"], found["lines"][0]
        assert area["x"][0] <= line["x"][0] < line["x"][-1] <= area["x"][1]
        assert area["y"][0] <= min(line["y"]) < max(line["raw"][1]) <= area["y"][1]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"x": "height"}, "expected x to be one of"),
        ({"smooth": 1.0}, "smooth: expected a share"),
        ({"width": 10**6}, "width: expected 200 to"),
        ({"runs": ["a"] * 1_001}, "runs: expected at most"),
    ],
)
def test_wrong_wishes_are_refused(wrong, words):
    with pytest.raises(ContractError, match=words):
        chart.Asked(**({"runs": ["a"]} | wrong))


def test_names_with_markup_are_escaped(tmp_path):
    make_run(tmp_path / "r" / "<script>alert(1)<")
    seen = watch(tmp_path / "r")
    seen.look()
    (name,) = [run.id for run in seen.runs()]
    asked = chart.Asked(runs=[name])
    (run, path) = seen.run(name)
    text = chart.whole(asked, [(run, seen.curves.read(path / "metrics.jsonl"))])
    assert "<script" not in text


def test_settings_that_differ():
    one = {"format": "x", "train": {"lr": 1.0, "seed": 0}, "model": {"name": "gru"}}
    other = {"format": "y", "train": {"lr": 2.0, "seed": 0}, "model": {"name": "gru", "width": 3}}
    assert chart.differing_settings({"a": one, "b": other}) == [
        {"name": "train.lr", "values": {"a": 1.0, "b": 2.0}},
        {"name": "model.width", "values": {"a": None, "b": 3}},
    ]
