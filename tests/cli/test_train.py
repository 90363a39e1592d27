"""`recollect train`: what a resumed run and a mixture refuse."""

import pytest

from recollect.train.folder import RunError
from tiny import invoke

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
