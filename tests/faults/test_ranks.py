"""`recollect train --ranks`: what a lost rank, a signal and bad input do to a run."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

import tiny
from recollect.training import checkpoint
from recollect.training.folder import RunFolder

STEPS = 40
SETTINGS = [f"--set={each}" for each in ("context=12", "eval_every=10", "save_every=2", "log_every=1", "dropout=0")]
ONE_LINE = "recollect: "


def command(folder, *words):
    (folder / "text.txt").write_text(tiny.prose(400), encoding="utf-8")
    return [sys.executable, "-m", "recollect", *words]


def training(folder, out, *more, steps=STEPS):
    own = ["--data", str(folder / "text.txt"), "--model", "lstm", "--width", "8", "--batch", "4", "--device", "cpu"]
    return command(folder, "train", "text", *own, "--steps", str(steps), "--out", str(out), *SETTINGS, *more)


def going_on(folder, out, *more):
    return command(folder, "train", "text", "--resume", "--out", str(out), "--device", "cpu", *more)


def environment(folder):
    return os.environ | {"RECOLLECT_CACHE": str(folder / "cache"), "RECOLLECT_LANG": "en"}


def run(folder, words):
    return subprocess.run(words, capture_output=True, text=True, env=environment(folder), timeout=240, check=False)


def ranks_of(parent):
    """The processes that a launcher has started, the main rank first."""
    found = subprocess.run(["pgrep", "-P", str(parent)], capture_output=True, text=True, check=False).stdout.split()
    return sorted(map(int, found))


def wait_for_steps(process, folder, step):
    """Wait until a run has logged a step; it must not have ended before."""
    while not (folder.metrics_path.exists() and any(row["step"] >= step for row in folder.metrics())):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def losses(folder):
    return {row["step"]: row["loss"] for row in RunFolder(folder).metrics() if "loss" in row}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted run, by one process."""
    folder = tmp_path_factory.mktemp("whole")
    done = run(folder, training(folder, folder / "run"))
    assert done.returncode == 0, done.stderr
    return losses(folder / "run")


def lose_a_rank(folder, out, rank, step, *more):
    """Kill one of two ranks after a step; what the command said."""
    process = subprocess.Popen(
        training(folder, out, "--ranks", "2", *more), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environment(folder),
    )  # fmt: skip
    wait_for_steps(process, RunFolder(out), step)
    children = ranks_of(process.pid)
    os.kill(children[rank], signal.SIGKILL)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1, said
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)
    return said


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    assert max(abs(found[step] - loss) / loss for step, loss in expected.items()) <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "more"), [(0, ()), (1, ("--shard",))], ids=["main", "other, sharded"])
def test_a_lost_rank_ends_the_run_in_one_line_and_it_goes_on_from_its_checkpoint(tmp_path, whole, rank, more):
    said = lose_a_rank(tmp_path, tmp_path / "run", rank, 6, *more)
    last = said.strip().splitlines()[-1]
    assert f"found rank {rank} ended by signal 9; the last checkpoint is kept; go on with --resume --ranks 2" in last
    assert "Traceback" not in said
    checkpoint.read_tensors(RunFolder(tmp_path / "run").last)
    done = run(tmp_path, going_on(tmp_path, tmp_path / "run", "--ranks", "2", *more))
    assert done.returncode == 0, done.stderr
    assert_same(losses(tmp_path / "run"), whole)


@pytest.mark.deep
def test_ten_ranks_lost_at_random_moments_lose_nothing(tmp_path, whole):
    draw = random.Random(0)
    for number in range(10):
        out = tmp_path / f"run{number}"
        more = ("--shard",) if number % 2 else ()
        lose_a_rank(tmp_path, out, draw.randrange(2), draw.randrange(STEPS - 10), *more)
        done = run(tmp_path, going_on(tmp_path, out, *(("--ranks", "2", *more) if number % 3 else ())))
        assert done.returncode == 0, done.stderr
        assert_same(losses(out), whole)


@pytest.mark.slow
def test_a_signal_stops_all_ranks_after_the_same_step_and_saves(tmp_path, whole):
    process = subprocess.Popen(
        training(tmp_path, tmp_path / "run", "--ranks", "2"), text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=environment(tmp_path),
    )  # fmt: skip
    folder = RunFolder(tmp_path / "run")
    wait_for_steps(process, folder, 5)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert said.strip().splitlines()[-1].startswith("recollect: stopped at step"), said
    step = checkpoint.read_tensors(folder.last)[1]["spent"]["step"]
    assert 5 <= step < STEPS
    done = run(tmp_path, going_on(tmp_path, tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert_same(losses(tmp_path / "run"), whole)


@pytest.mark.slow
def test_ranks_end_with_the_command_that_started_them(tmp_path):
    process = subprocess.Popen(
        training(tmp_path, tmp_path / "run", "--ranks", "2", steps=100_000), stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env=environment(tmp_path),
    )  # fmt: skip
    wait_for_steps(process, RunFolder(tmp_path / "run"), 1)
    left = ranks_of(process.pid)
    assert len(left) == 2
    process.kill()
    process.wait()
    for _ in range(600):
        left = [child for child in left if is_running(child)]
        if not left:
            return
        time.sleep(0.05)
    for child in left:
        os.kill(child, signal.SIGKILL)
    pytest.fail(f"{len(left)} ranks were left behind")


def is_running(child):
    """Whether a process works; one that has ended may still wait for its new parent to notice."""
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(child)], capture_output=True, text=True, check=False)
    return found.stdout.strip()[:1] not in ("", "Z")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "line"),
    [
        (("--ranks", "5"), "expected batches of at least 5 rows, one for each rank, found 4; raise --batch"),
        (("--ranks", "2", "--set", "compil=true"), "compil"),
        (("--shard",), "--shard: expected several ranks, found one process; add --ranks N"),
        (("--ranks", "2", "--data", "nowhere.txt"), "nowhere.txt"),
    ],
    ids=["too many ranks", "a setting", "shards without ranks", "no data"],
)
def test_bad_input_is_one_line_from_one_rank(tmp_path, more, line):
    done = run(tmp_path, training(tmp_path, tmp_path / "run", *more))
    said = [row for row in done.stderr.splitlines() if row.startswith("recollect: ")]
    assert done.returncode in (1, 2)
    assert len(said) == 1, done.stderr
    assert line in said[0]
    assert "Traceback" not in done.stderr
