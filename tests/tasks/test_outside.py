"""A task in one folder outside the package, named by RECOLLECT_TASKS: every command takes it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from recollect import tasks
from recollect.core.outside import OutsideError

FOLDER = Path(__file__).parent / "outside" / "first"
SMALL = ["--steps", "8", "--set", "eval_every=4", "--set", "save_every=4", "--set", "warmup=2", "--width", "8"]


@pytest.fixture
def recollect(tmp_path, monkeypatch):
    """A function that runs a command with the task, in a folder of its own."""
    monkeypatch.setenv(tasks.VARIABLE, str(FOLDER))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def run(*words, code=0):
        done = subprocess.run(
            [sys.executable, "-m", "recollect.cli", *words, *(["--device", "cpu"] if words[0] != "verify" else [])],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    return run


@pytest.mark.slow
def test_a_task_outside_the_package_is_trained_resumed_evaluated_inspected_raced_and_on_the_page(recollect, tmp_path):
    assert "accuracy" in recollect("train", "first", *SMALL, "--length", "5", "--out", "whole")
    recollect("train", "first", *SMALL, "--length", "5", "--steps", "4", "--set", "schedule=constant", "--out", "part")
    recollect("train", "first", "--resume", "--out", "part", "--steps", "8")
    recollect("train", "first", *SMALL, "--length", "5", "--set", "schedule=constant", "--out", "straight")
    part, straight = (load_file(tmp_path / name / "model.safetensors") for name in ("part", "straight"))
    assert all((part[name] == straight[name]).all() for name in straight), "resumed, the same to the last bit"

    found = json.loads(recollect("eval", "whole", "--json"))
    assert found["metric"]["name"] == "nats"
    assert found["metric"]["value"] < 2
    assert "chunk    holds" in recollect("verify", "whole")
    assert json.loads(recollect("inspect", "whole", "gradients", "--rows", "2", "--json"))["charts"]
    rows = json.loads(
        recollect("race", "first", "--budget", "4", "--seeds", "1", "--jobs", "1", "--search", "0", "--json")
    )
    assert sorted(row["model"] for row in rows) == ["gru", "rnn"]
    assert all("error" not in row for row in rows)
    page = (tmp_path / "races/first/report.html").read_text(encoding="utf-8")
    assert "First: what came first?" in page


@pytest.fixture
def named(tmp_path, monkeypatch):
    """A function that makes the folder `mine` of some files and names it in RECOLLECT_TASKS."""

    def name(files):
        for file, text in files.items():
            (tmp_path / "mine" / file).parent.mkdir(exist_ok=True)
            (tmp_path / "mine" / file).write_text(text)
        monkeypatch.setenv(tasks.VARIABLE, str(tmp_path / "mine"))
        tasks.folders.cache_clear()

    yield name
    monkeypatch.undo()
    tasks.folders.cache_clear()
    tasks.BROKEN.clear()
    for module in [module for module in sys.modules if module.startswith("recollect.tasks.mine")]:
        del sys.modules[module]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "expected folders with a task.py"),
        ({"task.py": "def x(:\n"}, "mine/task.py, line 1: SyntaxError: invalid syntax"),
        ({"task.py": "", "__init__.py": "\n1 / 0\n"}, "mine/__init__.py, line 2: ZeroDivisionError"),
        ({"task.py": "", "settings.py": "raise SystemExit\n"}, "mine/settings.py, line 1: expected code that returns"),
    ],
)
def test_a_folder_that_cannot_be_used_is_an_error_only_where_its_task_is_asked_for(files, message, named):
    named(files)
    list(tasks.declared("settings", "Config"))
    with pytest.raises(OutsideError, match=f"^RECOLLECT_TASKS: {message}") as caught:
        tasks.find("mine")
    assert "\n" not in str(caught.value)
    assert tasks.find("text").name == "text"
    assert len(tasks.every()) == len(tasks.names())
    assert set(tasks.BROKEN) == {"mine"}


def test_a_folder_with_the_name_of_a_task_leaves_that_as_it_is(tmp_path, monkeypatch, named):
    named({"task.py": ""})
    (tmp_path / "mine").rename(tmp_path / "text")
    monkeypatch.setenv(tasks.VARIABLE, str(tmp_path / "text"))
    assert tasks.find("text").name == "text"
    (error,) = tasks.BROKEN.values()
    assert "'text', which is taken" in str(error)


def test_an_unknown_task_is_named_with_those_that_there_are(recollect):
    assert "out of text, translation," in (said := recollect("train", "frist", code=1))
    assert "first" in said
    assert "did you mean 'first'" in said
