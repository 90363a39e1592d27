"""`recollect race` and `recollect report`."""

import pytest

from racing.small import SMALL
from recollect.api.racing import race
from recollect.racing import run as races
from recollect.report.pages import race as page
from tiny import invoke


def test_the_command_prints_the_table_the_winner_and_where_all_is(tmp_path):
    out = tmp_path / "race"
    flags = [f"--set={name}={value}" for name, value in SMALL.items()]
    words = ["race", "recall", "--models", "rnn,mlp", "--budget", "4", "--params", "1500", "--search", "0"]
    words += ["--jobs", "1", "--device", "cpu", "--seeds", "1"]
    done = invoke(*words, "--out", str(out), *flags)
    assert done.exit_code == 0, done.output
    assert "share recalled" in done.output
    assert "Nobody won: first is" in done.output
    assert "behind" in done.output
    assert "measured on the test part" in done.output
    assert f"{out}/results.jsonl" in done.output.replace("\n", "")
    made = out / "report.html"
    assert made.is_file()
    made.unlink()
    assert invoke("report", str(out)).exit_code == 0
    assert made.is_file()
    files = {flag: tmp_path / "paper" / flag / f"results.{flag}" for flag in ("figure", "latex", "csv")}
    files["figure"] = files["figure"].with_suffix(".svg")
    drawn = invoke("report", str(out), *(f"--{flag}={path}" for flag, path in files.items()))
    assert drawn.exit_code == 0, drawn.output
    assert all(path.is_file() for path in files.values()), "folders are made"


@pytest.mark.parametrize("flag", [[], ["--json"]])
def test_a_race_that_nobody_finished_has_failed(tmp_path, flag):
    words = ["race", "recall", "--models", "transformer", "--budget", "2", "--params", "40", "--search", "0"]
    words += ["--jobs", "1", "--device", "cpu", "--out", str(tmp_path / "race"), *flag]
    done = invoke(*words)
    assert "expected an entry that finishes, found that all 3 failed; params: expected" in str(done.exception)
    assert (tmp_path / "race" / "report.html").is_file()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["race", "recal"], "did you mean 'recall'"),
        (["race", "--ladder", "attentoin"], "did you mean 'attention'"),
        (["race", "text", "--ladder", "state"], "a ladder names its own"),
        (["race", "recall", "--models", "ngram"], "(or a layer that RECOLLECT_LAYERS names) out of ar,"),
        (["report", "nowhere"], "expected the folder of a race"),
    ],
)
def test_errors_are_one_line(words, told):
    done = invoke(*words)
    assert isinstance(done.exception, ValueError)
    assert told in str(done.exception)
    assert "\n" not in str(done.exception)


def test_each_model_runs_with_three_seeds_but_for_the_race_of_a_minute(monkeypatch):
    asked = []
    monkeypatch.setattr(races, "run", lambda heats, terms, *_, **__: asked.append(terms.seeds))
    monkeypatch.setattr(page, "write", lambda folder: folder)
    for task, seeds in ((None, None), ("recall", None), ("recall", 2)):
        race(task, seeds=seeds, progress=False)
    race(ladder="state", progress=False)
    assert asked == [1, 3, 2, 3]
