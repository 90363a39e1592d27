"""From a command to its number: no detours, and no file entered twice."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TINY = ["--set", "eval_rows=4", "--set", "batch=2", "--device", "cpu"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "way"),
    [
        (
            ["train", "recall", "--model", "lstm", "--steps", "1", "--width", "4"],
            ["cli/train.py", "api/training.py", "training/run.py", "training/loop.py", "tasks/memory/task.py"],
        ),
        (
            [
                "race",
                "recall",
                "--models",
                "gru",
                "--budget",
                "1",
                "--params",
                "2k",
                "--jobs",
                "1",
                "--search",
                "0",
                "--seeds",
                "1",
            ],
            [
                *("cli/race.py", "api/racing.py", "racing/run.py", "racing/workers.py", "racing/entry.py"),
                *("training/run.py", "training/loop.py", "tasks/memory/task.py"),
            ],
        ),
    ],
    ids=["train", "race"],
)
def test_a_command_goes_straight_to_its_task(words, way, tmp_path):
    code = [sys.executable, "-m", "tools.hops", *words, *TINY, "--out", str(tmp_path / "out")]
    said = subprocess.run(code, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    hops, twice = said.splitlines()[-2:]
    files = hops.partition(": ")[2].split(" → ")
    assert files[: len(way)] == way
    assert all(file.startswith(("models/", "layers/")) for file in files[len(way) :]), "below the task, the model's own"
    above = {file for file in way if file in twice}
    assert not above, f"entered twice: {above}"
