"""The command `bench`."""

import json

import pytest
import torch

from benchmarks import __main__ as bench
from benchmarks import measure, speed_page


def test_a_row_that_fails_is_reported_and_the_others_are_written(rows, command, tmp_path, capsys):
    assert command("--json", str(tmp_path)) == 1
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


def test_only_some_rows_are_measured_anew_and_the_others_stay(command, monkeypatch, tmp_path):
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
    assert command("--json", str(tmp_path)) == 0
    monkeypatch.setattr(measure, "commit", lambda: "new")
    assert command("--json", str(tmp_path), "--only", "sequence") == 0
    found = json.loads((tmp_path / "bench-some-cpu.json").read_text())
    assert found["commit"] == "new"
    assert [(row["row"], row["ours"]["median"], row.get("commit")) for row in found["rows"]] == [
        ("a step", 1.0, "old"),
        ("a sequence", 3.0, None),
    ]
    told = speed_page.source(found)
    assert "commit new. Not measured anew, from commit old: a step." in " ".join(told.split())


def test_rows_are_listed_and_unknown_ones_refused(rows, command, capsys):
    assert command("--list") == 0
    assert capsys.readouterr().out.split("\n")[:2] == ["bad          Another.", "good         A row."]
    with pytest.raises(SystemExit):
        command("god")
    assert "expected rows out of bad, good, found god" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_one_clear_line(rows, command, capsys):
    with pytest.raises(SystemExit):
        command("--device", "cuda")
    assert "expected a CUDA device, found none; use --device cpu" in capsys.readouterr().err


def test_a_device_that_breaks_is_left_to_a_new_process(rows, command, monkeypatch, tmp_path, capsys):
    started = []
    monkeypatch.setattr(bench, "is_sound", lambda device: False)
    monkeypatch.setattr(bench.os, "execv", lambda program, words: started.append(words))
    command("bad", "good", "--json", str(tmp_path))
    assert started[0][1:] == ["-m", "benchmarks", "good", "--device", "cpu", "--json", str(tmp_path)]


def test_every_row_has_a_line_and_a_title_on_the_page():
    for name, rows in bench.ROWS.items():
        assert rows.__doc__, name
        assert name in speed_page.TITLES
