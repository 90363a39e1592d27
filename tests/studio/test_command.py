"""The command: what it shows, that it ends at once, and what it says of places that are none."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from recollect.cli.studio import sort_places
from recollect.training.folder import shipped

TOKEN = "a-token-of-the-tests"


def start(*words, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "recollect", "studio", *words, "--port", "0", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"RECOLLECT_TOKEN": TOKEN}, **options,
    )  # fmt: skip


def test_it_shows_what_ships_and_ends_at_once(tmp_path):
    process, lines = start(cwd=tmp_path), []
    while not lines or lines[-1].rstrip() != "}":
        lines.append(process.stdout.readline())
        assert lines[-1], process.stderr.read()
    about = json.loads("".join(lines))
    assert about["runs"] == shipped()
    request = urllib.request.Request(about["url"], headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert b"shell.js" in answer.read()
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(about["url"], timeout=30)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")


def test_a_place_that_is_none_is_one_line():
    process = start("nowhere")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert err.startswith("recollect: nowhere: expected a run folder, found nothing")
    assert err.count("\n") == 1


def test_runs_and_folders_are_told_apart(tmp_path, monkeypatch):
    (tmp_path / "runs" / "own").mkdir(parents=True)
    (tmp_path / "runs" / "own" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    folders, runs = sort_places(["runs", "runs/own", "demo-text"])
    assert ([str(folder) for folder in folders], runs) == (["runs"], ["runs/own", "demo-text"])
    folders, runs = sort_places([])
    assert ([str(folder) for folder in folders], runs) == (["runs", "races"], shipped())
