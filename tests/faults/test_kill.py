"""A run that is killed, at any moment and as often as one likes, ends as the run that never was."""

import os
import random
import re
import signal
import subprocess
import sys
import time

import pytest

import tiny
from recollect.tasks.text.task import TextTask
from recollect.training import checkpoint
from recollect.training import run as runs
from recollect.training.folder import RunFolder

OTHERS = {  # each kind with something of its own that must survive: an average, noise, a state that is carried
    "ar": {"optimizer": "sgd", "momentum": "0.9"},
    "mlp": {"dropout": "0.2", "accumulate": "2"},
    "rnn": {"windows": "sequential", "bptt": "unbiased", "segment": "4"},
    "gru": {"windows": "sequential", "vary": "true", "ema": "0.9", "dropout": "0.1", "variational": "true"},
    "tcn": {"dropout": "0.1", "ema": "0.9"},
    "transformer": {"dropout": "0.1", "positions": "learned", "tie": "false"},
    "linear-transformer": {"schedule": "plateau", "lr": "0.1", "plateau_patience": "0"},
    "ttt-linear": {"word_dropout": "0.1", "schedule": "inverse-sqrt"},
    "ttt-mlp": {"optimizer": "asgd", "lr": "0.3", "schedule": "constant"},
}


def arguments(book, out, model="lstm", steps=24, **settings):
    """The command that trains a small model; checkpoints every third step."""
    width = ["--width", 8, "--layers", 2]
    heads = {"heads": "2"} if model in tiny.HEADED else {}
    given = {"save_every": "3", "eval_every": "7", "log_every": "2", "warmup": "3"} | heads | settings
    pairs = [part for name, value in given.items() for part in ("--set", f"{name}={value}")]
    budget = ["--steps", steps, "--context", 12, "--batch", 4, "--device", "cpu"]
    return ["train", "text", "--data", book, "--model", model, *width, *budget, *pairs, "--out", out]


def again(out):
    return ["train", "text", "--resume", "--out", out, "--device", "cpu"]


def finished(done, out):
    assert done.code == 0, done.err
    return tiny.outcome(RunFolder.open(out))


def step_of(folder):
    return checkpoint.read_tensors(folder.last)[1]["spent"]["step"] if folder.last.exists() else 0


def wait_for(condition, pid):
    """Until something is seen on disk; a process that ends first is a failure of the test."""
    while not condition():
        os.kill(pid, 0)
        assert not ended(pid), "the command ended before it could be killed"
        time.sleep(0.001)


def ended(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "Z"


def checkpoints_later(folder, count):
    """A condition: so many more checkpoints than now were written."""
    seen, left = stamp(folder), count

    def condition():
        nonlocal seen, left
        now = stamp(folder)
        if now != seen:
            seen, left = now, left - 1
        return left <= 0

    return condition


def stamp(folder):
    try:
        return folder.last.stat().st_ino, folder.last.stat().st_mtime_ns
    except FileNotFoundError:
        return None


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="looks at processes through /proc")
def test_thirty_kills_in_a_row_change_nothing(commands, book, tmp_path):
    draw = random.Random(4)
    settings = {"dropout": "0.1", "windows": "sequential", "ema": "0.95", "steps": 400, "eval_every": "40"}
    expected = finished(commands.run(*arguments(book, tmp_path / "whole", **settings)), tmp_path / "whole")
    folder = RunFolder(tmp_path / "killed")
    reached = [0]
    pid = commands.start(*arguments(book, folder.path, **settings))
    wait_for(folder.config_path.exists, pid)  # before that there is no run to go on with
    for _ in range(30):
        wait_for(checkpoints_later(folder, draw.choice([0, 0, 1, 2])), pid)
        time.sleep(draw.random() * 0.05)
        os.kill(pid, signal.SIGKILL)
        assert commands.wait().code == -signal.SIGKILL
        reached.append(step_of(folder))  # reading it is the test that it is whole
        assert reached[-1] % 3 == 0
        assert reached[-1] >= reached[-2]
        pid = commands.start(*again(folder.path))
    assert 0 < reached[-1] < 400
    assert len(set(reached)) > 5, "the kills fell at different moments"
    assert finished(commands.wait(), folder.path) == expected
    assert not list(folder.path.rglob("*.part"))


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="looks at processes through /proc")
@pytest.mark.parametrize("model", OTHERS)
def test_a_killed_run_of_every_kind_ends_as_the_whole_one(commands, book, tmp_path, model):
    settings = OTHERS[model]
    expected = finished(commands.run(*arguments(book, tmp_path / "whole", model, **settings)), tmp_path / "whole")
    folder = RunFolder(tmp_path / "killed")
    pid = commands.start(*arguments(book, folder.path, model, **settings))
    wait_for(checkpoints_later(folder, 1), pid)
    os.kill(pid, signal.SIGKILL)
    assert commands.wait().code == -signal.SIGKILL
    assert 0 < step_of(folder) < 24
    assert finished(commands.run(*again(folder.path)), folder.path) == expected


@pytest.mark.slow
def test_there_is_no_moment_at_which_a_kill_does_harm(commands, book, tmp_path):
    """The process ends at the n-th call that makes, forces to disk or renames a file, for every n that there is."""
    settings = {"dropout": "0.1", "steps": 5, "eval_every": "3", "save_every": "2"}
    expected = finished(commands.run(*arguments(book, tmp_path / "whole", **settings)), tmp_path / "whole")
    begun = 0
    for n in range(1, 200):
        out = tmp_path / f"killed-{n}"
        done = commands.run(*arguments(book, out, **settings), die_at=n)
        if done.code == 0:
            break
        assert done.code == 77
        folder = RunFolder(out)
        if folder.config_path.exists():
            begun += 1
            assert finished(commands.run(*again(out)), out) == expected, f"killed at call {n}"
        else:  # not yet a run: it can be begun in the same place
            assert finished(commands.run(*arguments(book, out, **settings)), out) == expected, f"killed at call {n}"
        assert not list(out.rglob("*.part"))
    else:
        pytest.fail("the run never ended by itself")
    assert begun > 20, "few moments were tried"


def test_a_run_killed_after_its_end_and_resumed_stays_as_it_is(commands, book, tmp_path):
    out = tmp_path / "run"
    expected = finished(commands.run(*arguments(book, out, schedule="plateau")), out)
    for _ in range(2):
        assert finished(commands.run(*again(out)), out) == expected


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="looks at processes through /proc")
def test_a_signal_saves_says_how_to_go_on_and_loses_nothing(commands, book, tmp_path, number):
    settings = {"steps": 120, "dropout": "0.1", "save_every": "40"}
    expected = finished(commands.run(*arguments(book, tmp_path / "whole", **settings)), tmp_path / "whole")
    folder = RunFolder(tmp_path / "stopped")
    pid = commands.start(*arguments(book, folder.path, **settings))
    wait_for(lambda: folder.metrics_path.exists() and len(folder.metrics()) >= 2, pid)
    os.kill(pid, number)
    done = commands.wait()
    assert done.code == 1
    last = done.err.splitlines()[-1]
    found = re.fullmatch(r"recollect: stopped at step (\d+) and saved; go on with --resume --out (.*)", last)
    assert found, done.err
    assert found[2] == str(folder.path)
    assert "Traceback" not in done.err
    assert int(found[1]) == step_of(folder), "the step that it stopped at is the one that it saved"
    assert 3 <= step_of(folder) < 120
    assert finished(commands.run(*again(folder.path)), folder.path) == expected


@pytest.mark.slow
def test_the_command_itself_is_killed_and_goes_on(book, tmp_path):
    """No forks: `python -m recollect.cli`, as a user starts it."""
    env = os.environ | {"OMP_NUM_THREADS": "1", "RECOLLECT_CACHE": str(tmp_path / "cache")}
    folder = RunFolder(tmp_path / "run")
    command = [sys.executable, "-m", "recollect.cli"]
    settings = {"steps": 3000, "eval_every": "5000", "save_every": "3"}
    whole = [str(part) for part in arguments(book, folder.path, **settings)]
    with subprocess.Popen([*command, *whole], env=env, stderr=subprocess.PIPE, text=True) as process:
        while not folder.last.exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        process.communicate()
    before = step_of(folder)
    assert before >= 3
    with subprocess.Popen([*command, *map(str, again(folder.path))], env=env, stderr=subprocess.PIPE) as process:
        condition = checkpoints_later(folder, 1)
        while not condition() and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate()
    assert process.returncode == 1
    after = step_of(folder)
    assert after > before
    assert err.decode().splitlines()[-1].startswith(f"recollect: stopped at step {after:,} and saved")


def test_training_in_the_process_itself_is_not_disturbed_by_its_signals(book, tmp_path):
    """The handlers that were there before are there after."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    runs.train(TextTask, tiny.configure(book), str(tmp_path / "run"))
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
