"""What people share names neither the home directory nor the user nor the host: rows, pages, manifests, figures."""

import json
import platform
import shlex
import shutil
import socket
import sys

import pytest

from recollect.claims import runner
from recollect.claims.claim import Claim, Effort
from recollect.training import evaluation
from recollect.training.folder import SHIPPED
from tiny import invoke, prose
from web import made

USER, HOST = "zoe-mark", "host-mark"
SMALL = "--set batch=4 --set context=12 --set eval_tokens=200 --set layers=1"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home with a text in it, and a working folder beside that text."""
    place = tmp_path / "home" / USER
    (place / "work").mkdir(parents=True)
    (place / "texts").mkdir()
    (place / "texts" / "a.txt").write_text(prose(1200))
    monkeypatch.setenv("HOME", str(place))
    for name in ("USER", "LOGNAME", "USERNAME"):
        monkeypatch.setenv(name, USER)
    monkeypatch.setenv("HOSTNAME", HOST)
    monkeypatch.setenv("RECOLLECT_CACHE", str(place / "cache"))
    monkeypatch.setattr(platform, "node", lambda: HOST)
    monkeypatch.setattr(socket, "gethostname", lambda: HOST)
    monkeypatch.chdir(place / "work")
    return place


@pytest.fixture
def command(monkeypatch):
    def run(text):
        words = shlex.split(text)
        monkeypatch.setattr(sys, "argv", ["/home/zoe-mark/bin/recollect", *words])
        return invoke(*words)

    return run


def marks_in(content):
    """The marks in a text or in bytes."""
    text = content if isinstance(content, str) else content.decode("latin-1")
    return [mark for mark in (USER, HOST, "/home", "/tmp/") if mark in text]


def test_a_run_its_manifest_and_its_row_name_no_place(home, command):
    data = home / "texts" / "a.txt"
    out = home / "runs" / "first"
    small = "--set steps=4 --set width=8 --set layers=1 --set context=12 --set batch=4 --set eval_every=2"
    found = command(f"train text --model rnn --data {data} --tokenizer chars --out {out} --device cpu {small}")
    assert found.exit_code == 0, found.exception
    assert marks_in((out / "manifest.json").read_bytes()) == []
    assert "--data …/a.txt" in json.loads((out / "manifest.json").read_text())["command"]
    row = evaluation.result(str(out), split="valid", device="cpu")
    assert marks_in(json.dumps(row, ensure_ascii=False)) == []
    found = command(f"eval {out} --json --device cpu")
    assert found.exit_code == 0, found.exception
    assert marks_in(found.stdout) == []
    assert str(data) in (out / "config.json").read_text()  # the run finds its data again, from any folder


@pytest.mark.parametrize("blank", [False, pytest.param(True, id="blanks in its path")])
def test_a_folder_for_the_hub_names_no_place_though_its_run_does(home, command, blank):
    data, run, out = home / "texts" / "a.txt", home / "runs" / "first", home / "hub" / "mine"
    if blank:
        data = home.parent / f"sp dir of {USER}" / f"Dr {USER} x" / "my a.txt"
        data.parent.mkdir(parents=True)
        shutil.copyfile(home / "texts" / "a.txt", data)
    small = "--set steps=4 --set width=8 --set layers=1 --set context=12 --set batch=4 --set eval_every=2"
    train = f"train text --model rnn --data {shlex.quote(str(data))} --tokenizer chars --device cpu {small}"
    for words in (
        f"{train} --out {run}-0",
        f"{train} --init {run}-0 --out {run}",
        f"export {run} --out {out} --to hub",
    ):
        found = command(words)
        assert found.exit_code == 0, found.exception
    config = (run / "config.json").read_text()
    assert str(data) in config
    assert f"{run}-0" in config
    written = {path.name: marks_in(path.read_bytes()) for path in out.iterdir()}
    assert {"README.md", "config.json", "manifest.json", "model.safetensors"} <= written.keys()
    assert [name for name, marks in written.items() if marks] == []


@pytest.mark.slow
def test_figures_name_no_place(home, command):
    shutil.copytree(SHIPPED / "demo-text", home / "runs" / "demo")
    for suffix in ("png", "svg", "pdf"):
        figure = home / "work" / f"figure.{suffix}"
        found = command(f"inspect {home}/runs/demo gradients --text abcdefgh --out {figure} --device cpu")
        assert found.exit_code == 0, (found.output, found.exception)
        assert marks_in(figure.read_bytes()) == []


def test_a_race_and_its_page_name_no_place(home, command):
    out = home / "races" / "first"
    found = command(
        f"race text --models rnn,transformer --data {home}/texts/a.txt --tokenizer chars --budget 4 --search 0 "
        f"--jobs 1 --device cpu --params 3000 {SMALL} --set heads=3 --out {out}"
    )
    assert found.exit_code == 0, found.exception
    for name in ("race.json", "results.jsonl", "report.html"):
        assert marks_in((out / name).read_bytes()) == []
    assert "…/a.txt" in (out / "race.json").read_text()


def test_an_older_race_with_its_places_gets_a_page_without_them(home, command, tmp_path):
    asked, rows = made.race(made.heat()), made.recall_rows(("rnn",), 1)
    place = f"/home/{USER}/a.txt"
    asked["command"] = rows[0]["command"] = f"recollect race --data {place}"
    asked["heats"][0]["terms"]["data"] = {"data": [place]}
    asked["heats"][0]["notes"] = [f"rnn failed: {place}: expected a file"]
    rows += [made.failed("recall", "gru") | {"error": f"{place}: expected a file"}]
    made.save(tmp_path / "old", asked, rows)
    assert command(f"report {tmp_path / 'old'}").exit_code == 0
    text = (tmp_path / "old" / "report.html").read_text()
    assert marks_in(text) == []
    assert "…/a.txt: expected a file" in text


def test_a_claim_that_broke_names_no_place(home, monkeypatch):
    def run(effort):
        raise FileNotFoundError(2, "No such file", str(home / "texts" / "b.txt"))

    claim = Claim(statement="It is so.", sources=("a book",), experiment="look", decided="by looking", run=run)
    monkeypatch.setattr(runner, "load", lambda name: claim)
    monkeypatch.setattr(runner, "code_of", lambda name, full: "code")
    (row,) = runner.run(["mine"], Effort(), home / "claims", lambda text, end: None)
    assert row["summary"].endswith("'…/b.txt'")
    assert marks_in((home / "claims" / "claims.jsonl").read_bytes()) == []
