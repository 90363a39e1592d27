"""`recollect train`: what a resumed run and a mixture refuse."""

import json
import re

import pytest
import torch

from recollect.training import checkpoint
from recollect.training.folder import RunError
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
    assert "unigram" in json.loads(done.stdout)["beside_baselines"]
    assert "pieces" not in json.loads(done.stdout)
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


def test_broken_laws_are_told_in_their_rows_and_the_others_are_shown(run):
    assert invoke("verify", run.path).exit_code == 0
    tensors, note = checkpoint.read_tensors(run.model_path)
    bad = {name: torch.full_like(tensor, torch.nan) for name, tensor in tensors.items()}
    checkpoint.write_tensors(run.model_path, bad, note)
    done = invoke("verify", run.path)
    rows = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert "BROKEN  Chunk law broken by LanguageModel" in rows["chunk"]
    assert "differs by nan" in rows["chunk"]
    assert "holds" in rows["size"]
    assert isinstance(done.exception, ValueError)  # exit code 1
    assert "expected every law to hold, found" in str(done.exception)
    found = json.loads(invoke("verify", run.path, "--json").stdout)
    assert found["size"] == 0
    assert found["chunk"]["broken"].startswith("Chunk law broken by")


def test_the_end_of_a_training_says_where_it_stands_beside_its_baselines(tmp_path):
    done = invoke("train", "adding", "--steps", 1, "--width", 4, "--set", "eval_rows=8", "--out", tmp_path / "run")
    assert done.exit_code == 0, done.exception
    assert re.search(r"^always 1 0.1667, this [\d.]+: it has learnt nothing yet$", done.stdout, re.M)
