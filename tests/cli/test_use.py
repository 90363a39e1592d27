"""`recollect eval`, `forecast` and `generate`."""

import json

import pytest

import tiny
from recollect.tasks.text.task import TextTask
from recollect.training import evaluation
from recollect.training import run as runs
from tiny import invoke


def test_baselines_that_have_seen_what_they_are_measured_on_are_called_so(run, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("the", encoding="utf-8")
    assert "they have seen its answers" in invoke("eval", run.path, "--data", other).stdout
    assert "they have seen its answers" not in invoke("eval", run.path).stdout
    assert "baselines_seen" not in evaluation.evaluate(str(run.path), split="valid")


@pytest.fixture
def series(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("t,x\n" + "".join(f"{t},{t % 7}\n" for t in range(200)), encoding="utf-8")
    out = tmp_path / "series"
    words = ["--data", table, "--time", "t", "--model", "ar", "--lookback", 8, "--horizon", 3, "--out", out]
    assert invoke("train", "series", *words).exit_code == 0
    return out, table


def test_a_forecast_in_json_goes_where_it_is_sent(series, tmp_path):
    run, table = series
    shown = invoke("forecast", run, table, "--json").stdout
    sent = invoke("forecast", run, table, "--json", "--out", tmp_path / "ahead.json")
    assert (sent.exit_code, sent.stdout) == (0, "")
    assert (tmp_path / "ahead.json").read_text(encoding="utf-8") == shown
    rows = json.loads(shown)
    assert [row["time"] for row in rows] == ["200", "201", "202"]
    assert [row["mean"] for row in rows] == pytest.approx([200 % 7, 201 % 7, 202 % 7], abs=0.01)


def test_a_plot_of_no_known_kind_is_refused_before_anything_is_written(series, tmp_path):
    run, table = series
    done = invoke("forecast", run, table, "--out", tmp_path / "ahead.csv", "--plot", tmp_path / "ahead.gif")
    assert isinstance(done.exception, ValueError)
    assert "ahead.gif" in str(done.exception)
    assert not (tmp_path / "ahead.csv").exists()


def test_a_forecast_that_begins_before_the_file_ends_says_so(series, tmp_path):
    run, _ = series
    table = tmp_path / "gaps.csv"
    table.write_text("t,x\n" + "".join(f"{t},{'' if t in (50, 198, 199) else t % 7}\n" for t in range(200)))
    done = invoke("forecast", run, table)
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == ["time", "198", "199", "200"]
    assert "note:" in done.stderr
    assert "rows at the end that miss a value: 2;" in done.stderr
    assert "1 of 198 values are missing" in done.stderr


def test_filled_values_without_an_interval_are_counted(series, tmp_path):
    run, _ = series
    table = tmp_path / "late.csv"
    table.write_text("t,x\n" + "".join(f"{t},{'' if t in (50, *range(194, 200)) else t % 7}\n" for t in range(200)))
    done = invoke("forecast", run, table, "--fill", "--json")
    rows = json.loads(done.stdout)
    bare = [row for row in rows if row["lower"] is None]
    assert len(rows) == 7
    assert {row["time"] for row in bare} >= {"197", "198", "199"}  # beyond the horizon of 3
    assert f"note: {len(bare)} of 7 filled values have no interval: less than a look-back" in done.stderr


def test_where_nothing_is_missing_nothing_is_filled_or_drawn(series, tmp_path):
    run, table = series
    done = invoke("forecast", run, table, "--fill", "--plot", tmp_path / "none.png")
    assert (done.exit_code, done.stdout) == (0, "time,series,mean,lower,upper,how\n")
    assert "no gap to fill" in done.stderr
    assert not (tmp_path / "none.png").exists()


def test_a_state_that_cannot_be_saved_is_refused_before_anything_is_written(run, tmp_path):
    place = tmp_path / "none" / "s.safetensors"
    done = invoke("generate", run.path, "--length", 3, "--state-out", place)
    assert (done.exit_code, done.stdout) == (1, "")
    assert isinstance(done.exception, FileNotFoundError)
    assert "expected a folder to write into, found none" in str(done.exception)
    assert str(place.parent) in str(done.exception)


@pytest.mark.parametrize("text", ["ab ba bab aab " * 60, "abbabababaab" * 60], ids=["a space", "neither"])
def test_without_a_prompt_a_run_writes_though_its_text_has_no_line_break(text, tmp_path):
    book = tmp_path / "book.txt"
    book.write_text(text, encoding="utf-8")
    runs.train(TextTask, tiny.configure(book, steps=2), str(tmp_path / "run"))
    done = invoke("generate", tmp_path / "run", "--length", 5)
    assert done.exit_code == 0
    assert set(done.stdout) - {"\n"} <= set(text)


def test_a_prompt_of_nothing_but_unknown_words_is_warned_of(tmp_path):
    (tmp_path / "text.txt").write_text(tiny.prose(300))
    runs.train(
        TextTask, tiny.configure(tmp_path / "text.txt", "gru", "words", steps=1, vocab=20), str(tmp_path / "run")
    )
    done = invoke("generate", tmp_path / "run", "--prompt", "xyzzy plugh", "--length", 3)
    assert done.exit_code == 0, done.exception
    assert done.stderr == "warning: prompt 1: nothing but unknown tokens, so it says nothing\n"
    assert invoke("generate", tmp_path / "run", "--prompt", "the plugh", "--length", 3).stderr == ""
