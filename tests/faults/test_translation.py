"""A translation run that is killed ends as the run that never was, and translates the same."""

import os
import signal

import pytest

import tiny
from faults.test_kill import step_of, wait_for
from recollect.training.folder import RunFolder


def arguments(out, steps=40, **settings):
    """The command that trains a small model on numbers in words, with all that must survive a kill."""
    given = {
        "save_every": "3", "eval_every": "9", "log_every": "2", "warmup": "3", "batch": "120", "count": "150",
        "highest": "999", "dropout": "0.1", "sampling": "0.2", "keep": "2", "choose": "bleu", "eval_sentences": "4",
    }  # fmt: skip
    pairs = [part for name, value in (given | settings).items() for part in ("--set", f"{name}={value}")]
    size = ["--model", "attend", "--width", 8, "--tokenizer", "words", "--steps", steps, "--device", "cpu"]
    return ["train", "translation", *size, *pairs, "--out", out]


def again(out):
    return ["train", "translation", "--resume", "--out", out, "--device", "cpu"]


def finished(done, out):
    assert done.code == 0, done.err
    return tiny.outcome(RunFolder.open(out))


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="looks at processes through /proc")
def test_a_killed_run_ends_as_the_whole_one_and_is_used_alike(commands, tmp_path):
    whole, folder = tmp_path / "whole", RunFolder(tmp_path / "killed")
    expected = finished(commands.run(*arguments(whole)), whole)
    pid = commands.start(*arguments(folder.path))
    wait_for(lambda: folder.last.exists() and step_of(folder) >= 9, pid)  # after an evaluation, before the end
    os.kill(pid, signal.SIGKILL)
    assert commands.wait().code == -signal.SIGKILL
    assert 9 <= step_of(folder) < 40
    assert finished(commands.run(*again(folder.path)), folder.path) == expected
    assert folder.snapshot_steps(40) == RunFolder(whole).snapshot_steps(40) == [36, 40]
    assert not list(folder.path.rglob("*.part"))
    done = commands.run("verify", folder.path)
    assert done.code == 0, done.err
    assert done.out.count("holds") >= 7


@pytest.mark.slow
def test_there_is_no_moment_at_which_a_kill_does_harm(commands, tmp_path):
    """The process ends at the n-th call that makes, forces to disk or renames a file; every seventh n is tried."""
    settings = {"steps": 6, "eval_every": "3", "save_every": "2", "choose": "nats"}
    expected = finished(commands.run(*arguments(tmp_path / "whole", **settings)), tmp_path / "whole")
    begun = 0
    for n in range(1, 400, 7):
        out = tmp_path / f"killed-{n}"
        done = commands.run(*arguments(out, **settings), die_at=n)
        if done.code == 0:
            break
        assert done.code == 77, done.err
        begun += RunFolder(out).config_path.exists()
        command = again(out) if RunFolder(out).config_path.exists() else arguments(out, **settings)
        assert finished(commands.run(*command), out) == expected, f"killed at call {n}"
    else:
        pytest.fail("the run never ended by itself")
    assert begun > 3, "few moments were tried"


def test_a_run_whose_vocabularies_are_damaged_is_refused_in_a_line(commands, tmp_path):
    out = tmp_path / "run"
    finished(commands.run(*arguments(out, steps=2)), out)
    path = out / "tokenizer.json"
    for content in (b"", b"{}", b'{"format": 1, "joint": false, "source": {}, "target": {}}', b"\xff"):
        path.write_bytes(content)
        done = commands.run("verify", out)
        assert done.code == 1
        assert done.err.count("\n") == 1, done.err
        assert "tokenizer.json" in done.err
    path.unlink()
    done = commands.run("verify", out)
    assert done.code == 1
    assert "tokenizer.json: expected this file in the run folder, found none" in done.err
