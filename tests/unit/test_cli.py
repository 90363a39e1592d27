"""The command line: flags that are refused rather than passed over, what goes where, and Ctrl-C at a bad moment."""

import json
import os
import signal

import pytest
from typer.testing import CliRunner

import tiny
from recollect import cli
from recollect.cli.common import device_of
from recollect.tasks.memory.gap_text import LANGUAGES
from recollect.tasks.text.task import TextTask
from recollect.train import run as runs
from recollect.train.folder import RunError, RunFolder


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def run(tmp_path):
    """A text run of six steps."""
    book = tmp_path / "book.txt"
    book.write_text(tiny.prose(), encoding="utf-8")
    runs.train(TextTask, tiny.configure(book, steps=6), str(tmp_path / "run"))
    return RunFolder(tmp_path / "run")


def invoke(*words):
    return CliRunner().invoke(cli.app, [str(word) for word in words])


# ------------------------------------------------------------------------------------------------ devices


@pytest.mark.parametrize("name", ["tpu", "cuda:99", "cuda:-1", "CPU", "", "meta"])
def test_a_device_that_is_not_there_is_one_clear_line(name):
    with pytest.raises(ValueError, match="--device: expected a device of this machine, found") as caught:
        device_of(name)
    assert "cpu or auto" in str(caught.value)


def test_the_first_gpu_is_taken_where_there_is_one(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [device_of(name) for name in ("auto", "cpu", "cuda", "cuda:1")] == ["cuda", "cpu", "cuda", "cuda:1"]
    with pytest.raises(ValueError, match="use cuda, cuda:0, cuda:1, cpu or auto"):
        device_of("cuda:2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert device_of("auto") == "cpu"


# ------------------------------------------------------------------------------------------------ going on

OTHERWISE = {
    "--lr": "0.5",
    "--width": "99",
    "--model": "lstm",
    "--data": "other.txt",
    "--seed": "7",
    "--tokens": "1M",
    "--context": "4",
    "--set": "clip=2",
    "--init": "another",
}


@pytest.mark.parametrize("flag", OTHERWISE)
def test_a_run_that_goes_on_refuses_to_go_on_otherwise(run, flag):
    before = run.config_path.read_bytes(), run.last.read_bytes()
    done = invoke("train", "text", "--resume", "--out", run.path, flag, OTHERWISE[flag])
    assert isinstance(done.exception, ValueError)
    assert f"found {flag};" in str(done.exception)
    assert (run.config_path.read_bytes(), run.last.read_bytes()) == before


def test_a_run_goes_on_for_more_steps_on_a_named_device(run):
    done = invoke("train", "text", "--resume", "--out", run.path, "--steps", 8, "--device", "cpu", "--json")
    assert done.exit_code == 0, done.exception
    assert run.config()["train"]["steps"] == 8
    refused = invoke("train", "text", "--resume", "--out", run.path, "--steps", "8.5")
    assert "--steps: expected a whole number, found '8.5'" in str(refused.exception)


def test_a_mixture_takes_no_settings_and_does_not_go_on(run, tmp_path):
    out = tmp_path / "mixed"
    words = ["train", "text", "--model", "mixture", "--of", run.path, "--of", run.path, "--out", out]
    refused = invoke(*words, "--lr", "0.1")
    assert "expected no setting, since it is fitted from two runs at once, found --lr" in str(refused.exception)
    assert not out.exists()
    assert invoke(*words).exit_code == 0
    again = invoke("train", "text", "--resume", "--out", out)
    assert isinstance(again.exception, RunError)
    assert "found a mixture" in str(again.exception)
    assert "--of: expected it with --model mixture" in str(invoke("train", "text", "--of", run.path).exception)


# ------------------------------------------------------------------------------------------------ measuring elsewhere


def test_baselines_that_have_seen_what_they_are_measured_on_are_called_so(run, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("the", encoding="utf-8")
    assert "they have seen its answers" in invoke("eval", run.path, "--data", other).stdout
    assert "they have seen its answers" not in invoke("eval", run.path).stdout
    assert "baselines_seen" not in runs.evaluate(str(run.path), split="valid")


# ------------------------------------------------------------------------------------------------ forecasts


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
    assert "2 rows at the end miss a value" in done.stderr
    assert "1 of 198 values are missing" in done.stderr


def test_where_nothing_is_missing_nothing_is_filled_or_drawn(series, tmp_path):
    run, table = series
    done = invoke("forecast", run, table, "--fill", "--plot", tmp_path / "none.png")
    assert (done.exit_code, done.stdout) == (0, "time,series,mean,lower,upper,how\n")
    assert "no gap to fill" in done.stderr
    assert not (tmp_path / "none.png").exists()


# ------------------------------------------------------------------------------------------------ Ctrl-C


def stopped_with(error, monkeypatch, capsys):
    """What a command leaves behind that meets Ctrl-C and then raises `error`: its exit code and its words."""

    def stopping():
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            raise error from None

    monkeypatch.setattr(cli, "app", stopping)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit) as left:
            cli.main()
    finally:
        signal.signal(signal.SIGINT, before)
    return left.value.code, capsys.readouterr().err


def test_ctrl_c_amid_an_import_is_no_error_of_the_program(monkeypatch, capsys):
    """C code may swallow the interrupt, and what it leaves half made then fails in its own way."""
    error = AttributeError("module 'numpy' has no attribute 'matrix'")
    assert stopped_with(error, monkeypatch, capsys) == (130, "")


def test_what_a_stopped_command_has_to_say_is_said(monkeypatch, capsys):
    """How to go on with a race, say."""
    error = ValueError("stopped with 1 of 2 entries done and kept")
    assert stopped_with(error, monkeypatch, capsys) == (130, f"recollect: {error}\n")


def test_an_error_of_the_program_is_not_hidden(monkeypatch):
    def failing():
        raise AttributeError("ours")

    monkeypatch.setattr(cli, "app", failing)
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(AttributeError, match="ours"):
            cli.main()
    finally:
        signal.signal(signal.SIGINT, before)


# ------------------------------------------------------------------------------------------------ counts


@pytest.mark.parametrize("rows", [0, -1])
def test_a_batch_of_no_rows_is_wrong_usage(rows):
    """A step of -1 through the rows would label none of them, and say nothing."""
    assert invoke("classify", "a-run", "--batch", rows).exit_code == 2


def test_a_seed_that_no_generator_takes_is_wrong_usage():
    assert invoke("generate", "a-run", "--seed", 2**63).exit_code == 2


# ------------------------------------------------------------------------------------------------ writing


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


def test_whole_numbers_are_read_to_the_last_digit():
    from recollect.core.settings import parse

    assert parse("seed", "9007199254740993", int) == 2**53 + 1
    assert parse("steps", "1_000", int) == parse("steps", "1k", int) == 1000


# ------------------------------------------------------------------------------------------------ data that changed


@pytest.mark.parametrize("words", [("eval",), ("inspect", "horizon")])
def test_data_that_changed_since_training_is_told_on_stderr(run, tmp_path, words):
    name, *rest = words
    before = invoke(name, run.path, *rest)
    assert before.exit_code == 0
    assert before.stderr == ""
    book = tmp_path / "book.txt"
    text = book.read_text(encoding="utf-8")
    book.write_text(text * 2, encoding="utf-8")
    found = invoke(name, run.path, *rest)
    counts = RunFolder(run.path).config()["corpus"]
    assert found.exit_code == 0
    assert found.stderr.count("\n") == 1
    assert found.stderr.startswith(f"note: the data of {run.path} changed since training: ")
    assert f"train was {counts['train']} and is " in found.stderr
    book.write_text(text[::-1], encoding="utf-8")
    assert "as much as before, but other content" in invoke(name, run.path, *rest).stderr
    if name == "eval":
        assert invoke(name, run.path, "--data", book).stderr == ""


# ------------------------------------------------------------------------------------------------ inspecting


def test_where_there_is_nothing_near_that_is_said(tmp_path):
    out = tmp_path / "ratings"
    size = ["--set", "users=30", "--set", "items=1", "--set", "ratings=30", "--steps", 2, "--batch", 8]
    assert invoke("train", "ratings", *size, "--out", out).exit_code == 0
    item = runs.load(out).artifacts.items[0]
    assert invoke("inspect", out, "nearest", "--item", item).stdout == (
        f"nothing is near {item!r}, since there is no other item\n"
    )


def test_the_words_of_a_test_of_memory_are_shown_as_words(tmp_path):
    out = tmp_path / "gap"
    size = ["--set", "distance=5", "--set", "eval_rows=10", "--steps", 1, "--width", 8, "--batch", 4]
    assert invoke("train", "gap", *size, "--out", out).exit_code == 0
    found = json.loads(invoke("inspect", out, "influence", "--json").stdout)
    assert found["inputs"][-2:] == ["speaks", "fluent"]
    assert set(found["outputs"]) <= set(LANGUAGES.values())
