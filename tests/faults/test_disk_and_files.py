"""Disks that fill up and files that lie: the old file stays good, and what is refused is refused in one line."""

import errno
import json
import os
import pickle
import random
import shutil
import struct
from pathlib import Path

import pytest
import torch

import tiny
from recollect.core import files
from recollect.core import state as states
from recollect.decode import sampling, stream
from recollect.tasks.text.task import TextTask
from recollect.training import checkpoint
from recollect.training import run as runs
from recollect.training.folder import RunError, RunFolder
from recollect.training.loop import Trainer


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """One finished run, to be copied and spoilt."""
    base = tmp_path_factory.mktemp("trained")
    book = base / "book.txt"
    book.write_text(tiny.prose(), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_CACHE", str(base / "cache"))
        runs.train(TextTask, tiny.configure(book, steps=6, save_every=3, eval_every=6), str(base / "run"))
    return base / "run"


@pytest.fixture
def run(trained, tmp_path):
    return RunFolder(shutil.copytree(trained, tmp_path / "run"))


def one_line(caught):
    """The message of a refusal: one line, of a kind that the command line prints as it is."""
    assert isinstance(caught.value, ValueError), type(caught.value)
    message = str(caught.value)
    assert message
    assert "\n" not in message
    return message


# ------------------------------------------------------------------------------------------------ disks


class FullDisk:
    """From the n-th call on, os.fsync or a file's write finds no room, as the last calls before a full disk do."""

    def __init__(self, patch, what, after):
        self.left = after
        real = {"fsync": os.fsync, "fdopen": os.fdopen, "replace": os.replace}[what]

        def full(*args, **kwargs):
            self.left -= 1
            if self.left < 0:
                if what == "fdopen":
                    os.close(args[0])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*args, **kwargs)

        patch.setattr(os, what, full)


@pytest.mark.parametrize("what", ["fsync", "fdopen", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, what):
    path = tmp_path / "file"
    files.write_aside(path, b"old")
    FullDisk(monkeypatch, what, after=0)
    with pytest.raises(OSError, match="No space left"):
        files.write_aside(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("what", ["fsync", "replace"])
def test_a_disk_that_fills_up_while_training_leaves_a_checkpoint_to_go_on_from(book, tmp_path, monkeypatch, what):
    expected = tmp_path / "whole"
    settings = {"steps": 12, "save_every": 3, "eval_every": 12}
    runs.train(TextTask, tiny.configure(book, **settings), str(expected))
    folder = RunFolder(tmp_path / "run")
    with monkeypatch.context() as patch:
        real, saves = checkpoint.write_tensors, []

        def write(path, *parts):
            saves.extend([path] * (path == folder.last_file))
            if len(saves) == 3:
                FullDisk(patch, what, after=0)
            real(path, *parts)

        patch.setattr(checkpoint, "write_tensors", write)
        with pytest.raises(OSError, match="No space left"):
            runs.train(TextTask, tiny.configure(book, **settings), str(folder.path))
    assert checkpoint.read_tensors(folder.last)[1]["spent"]["step"] == 6
    assert not list(folder.path.rglob("*.part"))
    runs.resume(str(folder.path))
    assert tiny.outcome(folder) == tiny.outcome(RunFolder(expected))


@pytest.mark.slow
def test_a_disk_that_is_full_says_so_in_one_line_at_the_command_line(run, commands):
    """Through a limit on the size of files, which the kernel keeps."""
    before = run.last.read_bytes()
    done = commands.run("train", "text", "--resume", "--out", run.path, "--steps", 9, "--device", "cpu", limit=4096)
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith("recollect: [Errno 27] File too large")
    assert "Traceback" not in done.err
    assert run.last.read_bytes() == before
    assert not list(run.path.rglob("*.part"))


# ------------------------------------------------------------------------------------------------ files


class Bomb:
    """What a pickle can do to whoever opens it."""

    def __init__(self, proof):
        self.proof = proof

    def __reduce__(self):
        return (Path.touch, (Path(self.proof),))


def header(content, length=None):
    """A safetensors file with this JSON at its head."""
    head = content if isinstance(content, bytes) else json.dumps(content).encode()
    return struct.pack("<Q", len(head) if length is None else length) + head


def noted(note):
    return header({"__metadata__": {"recollect": note}})


SPOILT = {
    "empty": lambda good, proof: b"",
    "eight bytes": lambda good, proof: b"\0" * 8,
    "half of itself": lambda good, proof: good[: len(good) // 2],
    "one byte short": lambda good, proof: good[:-1],
    "one byte long": lambda good, proof: good + b"\0",
    "random bytes": lambda good, proof: random.Random(1).randbytes(5000),
    "a pickle": lambda good, proof: pickle.dumps(Bomb(proof)),
    "a huge header": lambda good, proof: header(b"{}", 2**63 - 1),
    "a header past its end": lambda good, proof: header(b"{}", 10**6),
    "a deep header": lambda good, proof: header(b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
    "overlapping tensors": lambda good, proof: (
        header({n: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} for n in "ab"}) + b"\0" * 4
    ),
    "a tensor of another size": lambda good, proof: (
        header({"a": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4]}}) + b"\0" * 4
    ),
    "no note": lambda good, proof: header({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}) + b"\0" * 4,
    "a note that is no JSON": lambda good, proof: noted("{"),
    "a note that is a list": lambda good, proof: noted("[]"),
    "a deep note": lambda good, proof: noted("[" * 100_000),
    "a note with a giant number": lambda good, proof: noted("9" * 10_000),
    "nothing but a note": lambda good, proof: noted("{}"),
}
every_spoilt = pytest.mark.parametrize("kind", SPOILT)


@every_spoilt
def test_a_spoilt_model_is_refused_in_one_line_and_nothing_in_it_runs(run, tmp_path, kind):
    proof = tmp_path / "executed"
    run.model_path.write_bytes(SPOILT[kind](run.model_path.read_bytes(), proof))
    with pytest.raises(checkpoint.CheckpointError) as caught:
        runs.load(run.path)
    assert "model.safetensors" in one_line(caught)
    assert not proof.exists()


def test_the_bomb_in_these_tests_would_go_off(tmp_path):
    pickle.loads(pickle.dumps(Bomb(tmp_path / "executed")))
    assert (tmp_path / "executed").exists()


@every_spoilt
def test_a_spoilt_checkpoint_is_refused_in_one_line_and_kept(run, tmp_path, kind):
    proof = tmp_path / "executed"
    spoilt = SPOILT[kind](run.last.read_bytes(), proof)
    run.last.write_bytes(spoilt)
    with pytest.raises(checkpoint.CheckpointError) as caught:
        runs.resume(str(run.path))
    assert "last.safetensors" in one_line(caught)
    assert not proof.exists()
    assert run.last.read_bytes() == spoilt


@pytest.mark.parametrize("part", ["rng.cpu", "model.", "carry", "note", "schedule", "spent", "average"])
def test_a_checkpoint_that_lacks_a_part_is_refused_in_one_line(book, tmp_path, part):
    folder = RunFolder(tmp_path / "run")
    runs.train(TextTask, tiny.configure(book, steps=3, windows="sequential", momentum=0.5), str(folder.path))
    tensors, note = checkpoint.read_tensors(folder.last)
    kept = {name: tensor for name, tensor in tensors.items() if not name.startswith(part)}
    altered = {"note": {}, "schedule": note | {"schedule": 3}, "spent": note | {"spent": {"steps": 3}}}
    note = (altered | {"average": note | {"average": 3}}).get(part, note)
    checkpoint.write_tensors(folder.last, kept, note)
    with pytest.raises(checkpoint.CheckpointError) as caught:
        runs.resume(str(folder.path), longer=6)
    assert "last.safetensors" in one_line(caught)


def test_the_weights_of_another_model_are_refused_in_one_line(run, book, tmp_path):
    for width in ("4", "8"):
        other = tmp_path / f"other-{width}"
        kind = "lstm" if width == "4" else "gru"
        runs.train(TextTask, tiny.configure(book, kind, steps=3, width=width), str(other))
        shutil.copy(other / "model.safetensors", run.model_path)
        with pytest.raises(checkpoint.CheckpointError) as caught:
            runs.load(run.path)
        assert "expected this model's weights" in one_line(caught)


CONFIGS = {
    "empty": b"",
    "not text": b"\xff\xfe\x00",
    "not JSON": b"model: lstm",
    "half of one": b'{"format": "recollect-run", "task": "te',
    "deep": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "a giant number": b'{"format": ' + b"9" * 10_000 + b"}",
    "a list": b"[]",
    "a number": b"7",
    "of something else": json.dumps({"model_type": "gpt2", "n_layer": 12}).encode(),
    "without a model": json.dumps({"format": "recollect-run", "version": 2, "task": "text"}).encode(),
}


def changed(path, value):
    """The config with one thing in it replaced: `model.width`, say."""

    def change(content):
        *way, last = path.split(".")
        inner = content
        for name in way:
            inner = inner[name]
        inner[last] = value
        return json.dumps(content).encode()

    return change


CHANGES = {
    "another kind of model": changed("model.name", "perceptron"),
    "a model without a name": changed("model.name", None),
    "a model that is a list": changed("model", [1, 2]),
    "an unknown setting": changed("model.widht", 8),
    "a width that is text": changed("model.width", "8; import os"),
    "a width that is below 1": changed("model.width", -1),
    "a width beyond all memory": changed("model.width", 2**40),
    "a layer setting that is none": changed("model.layer", {"__class__": "os.system"}),
    "a layer that is a list": changed("model.layer", ["x"]),
    "an unknown training setting": changed("train.stepz", 8),
    "a rate that is text": changed("train.lr", "fast"),
    "data that is a number": changed("data.data", 7),
    "data of numbers": changed("data.data", [7]),
    "a mixture of nothing": changed("model", {"name": "mixture"}),
    "a mixture of one": changed("model", {"name": "mixture", "of": ["/nowhere"]}),
    "a mixture of numbers": changed("model", {"name": "mixture", "of": [1, 2]}),
}


@pytest.mark.parametrize("kind", [*CONFIGS, *CHANGES])
def test_a_config_that_is_none_is_refused_in_one_line(run, kind):
    content = CONFIGS.get(kind) or (CHANGES[kind](run.config()) if kind in CHANGES else b"")
    run.config_path.write_bytes(content)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - one_line looks at the message
        runs.load(run.path)
    one_line(caught)


def test_a_config_without_the_text_it_came_from_is_refused_by_resume(run):
    content = run.config()
    del content["corpus"]
    run.write_json("config.json", content)
    with pytest.raises(RunError, match="fingerprint") as caught:
        runs.resume(str(run.path))
    one_line(caught)


def test_a_mixture_of_itself_is_refused(run, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(run.path, other)
    for path, of in ((run.path, other), (other, run.path)):
        folder = RunFolder(path)
        folder.write_json("config.json", folder.config() | {"model": {"name": "mixture", "of": [str(of), str(of)]}})
    with pytest.raises(RunError, match="of itself") as caught:
        runs.load(run.path)
    one_line(caught)


@pytest.mark.parametrize("share", [0.0, 1.0, -3.0, float("nan"), float("inf"), None])
def test_a_mixture_without_a_sensible_share_is_refused(run, tmp_path, share):
    parts = [str(shutil.copytree(run.path, tmp_path / name)) for name in ("a", "b")]
    run.write_json("config.json", run.config() | {"model": {"name": "mixture", "of": parts}})
    tensors = {"other": torch.ones(())} if share is None else {"share": torch.tensor(share, dtype=torch.float64)}
    checkpoint.write_tensors(run.model_path, tensors, {})
    with pytest.raises(checkpoint.CheckpointError, match="share") as caught:
        runs.load(run.path)
    one_line(caught)


@pytest.mark.parametrize("kind", ["missing", "a file", "empty", "without weights", "without a tokenizer"])
def test_a_run_folder_that_is_none_is_refused_in_one_line(run, tmp_path, kind):
    place = tmp_path / "place"
    if kind == "a file":
        place.write_text("hello")
    elif kind == "empty":
        place.mkdir()
    elif kind.startswith("without"):
        place = run.path
        names = (
            ["model.safetensors", "checkpoints/best.safetensors", "checkpoints/last.safetensors"]
            if kind == "without weights"
            else ["tokenizer.json"]
        )
        for name in names:
            (place / name).unlink()
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - one_line looks at the message
        runs.load(place)
    assert place.name in one_line(caught)


def test_a_run_without_its_last_weights_falls_back_on_its_best(run):
    best = runs.load(run.path).model.state_dict()
    run.model_path.unlink()
    again = runs.load(run.path).model.state_dict()
    assert all(torch.equal(again[name], tensor) for name, tensor in best.items())


@pytest.mark.parametrize("kind", ["a file", "a run", "other files"])
def test_training_into_a_place_that_is_taken_is_refused_and_touches_nothing(run, book, tmp_path, kind):
    place = {"a run": run.path, "a file": tmp_path / "file", "other files": tmp_path / "folder"}[kind]
    if kind == "a file":
        place.write_text("hello")
    elif kind == "other files":
        place.mkdir()
        (place / "thesis.txt").write_text("years of work")
    before = sorted((str(p), p.read_bytes()) for p in tmp_path.rglob("*") if p.is_file())
    with pytest.raises(RunError, match="expected a new or empty folder") as caught:
        runs.train(TextTask, tiny.configure(book), str(place))
    one_line(caught)
    after = sorted((str(p), p.read_bytes()) for p in tmp_path.rglob("*") if p.is_file() and "cache" not in p.parts)
    assert after == [entry for entry in before if f"{os.sep}cache{os.sep}" not in entry[0]]


def test_going_on_with_another_text_is_refused(book, tmp_path):
    out = tmp_path / "run"
    runs.train(TextTask, tiny.configure(book, steps=3), str(out))
    before = tiny.digest(RunFolder(out).last)
    book.write_text(tiny.prose(seed=5), encoding="utf-8")
    with pytest.raises(RunError, match="expected the data that the run began with, found other data") as caught:
        runs.resume(str(out), longer=6)
    one_line(caught)
    assert tiny.digest(RunFolder(out).last) == before


def test_a_state_of_another_model_is_refused_in_one_line(run, book, tmp_path):
    def write(used, **options):
        return "".join(
            stream.generate_text(
                used.model,
                used.artifacts,
                () if "state_in" in options else ["the"],
                sampling.Config(length=3),
                **options,
            )
        )

    state = tmp_path / "state"
    write(runs.load(run.path), state_out=str(state))
    others = [tiny.configure(book, "gru", steps=3), tiny.configure(book, steps=3, width=4)]
    others.append(tiny.configure(book, steps=3, tokenizer="bytes"))
    for i, other in enumerate(others):
        runs.train(TextTask, other, str(tmp_path / f"other-{i}"))
        with pytest.raises(ValueError, match="expected") as caught:
            write(runs.load(tmp_path / f"other-{i}"), state_in=str(state))
        one_line(caught)
    for content in (b"", b"hello", state.read_bytes()[:-3], pickle.dumps(Bomb(tmp_path / "executed"))):
        state.write_bytes(content)
        with pytest.raises(states.StateError) as caught:
            write(runs.load(run.path), state_in=str(state))
        one_line(caught)
    assert not (tmp_path / "executed").exists()


def test_metrics_cut_off_in_the_middle_of_a_line_are_read_up_to_there(run):
    rows = run.metrics()
    assert len(rows) >= 3
    with run.metrics_path.open("a") as file:
        file.write('{"step": 7, "lo')
    assert run.metrics() == rows
    run.cut_metrics(step=rows[1]["step"])
    assert run.metrics() == [row for row in rows if row["step"] <= rows[1]["step"]]


# ------------------------------------------------------------------------------------------------ at the command line

REFUSED = {
    "missing": (["eval", "{tmp}/nothing"], "expected a run folder, found nothing"),
    "a file": (["eval", "{tmp}/book.txt"], "expected a run folder, found a file"),
    "a pickle": (["generate", "{pickle}"], "expected a safetensors file"),
    "half a checkpoint": (["train", "text", "--resume", "--out", "{half}"], "expected a safetensors file"),
    "a deep config": (["verify", "{deep}"], "expected JSON"),
    "a taken place": (
        ["train", "text", "--data", "{tmp}/book.txt", "--out", "{run}"],
        "expected a new or empty folder",
    ),
    "no place": (["train", "text", "--resume"], "--resume: expected --out"),
    "an unknown model": (["train", "text", "--model", "lsmt"], "did you mean 'lstm'"),
    "an unknown setting": (["train", "text", "--set", "droput=.1"], "did you mean 'dropout'"),
    "no such text": (["train", "text", "--data", "{tmp}/nothing.txt", "--out", "{tmp}/new"], "nothing.txt"),
    "an empty text": (["train", "text", "--data", "{tmp}/empty.txt", "--out", "{tmp}/new"], "empty.txt"),
    "a short text": (["train", "text", "--data", "{tmp}/short.txt", "--out", "{tmp}/new"], "expected at least"),
    "an unknown rule": (["eval", "{run}", "--rule", "stately"], "expected a rule"),
    "an unknown split": (["eval", "{run}", "--split", "test"], "expected a test part"),
    "an empty prompt": (["generate", "{run}", "--prompt", ""], "expected a prompt"),
    "a letter never seen": (["generate", "{run}", "--prompt", "é"], "é"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_the_command_line_refuses_in_one_line_with_exit_code_one(run, commands, book, tmp_path, kind):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "short.txt").write_text("ab" * 40)
    places = {"tmp": tmp_path, "run": run.path}
    for name in ("pickle", "half", "deep"):
        places[name] = shutil.copytree(run.path, tmp_path / name)
    (places["pickle"] / "model.safetensors").write_bytes(pickle.dumps(Bomb(tmp_path / "executed")))
    last = places["half"] / "checkpoints" / "last.safetensors"
    last.write_bytes(last.read_bytes()[:200])
    (places["deep"] / "config.json").write_bytes(b"[" * 100_000)
    argv, expected = REFUSED[kind]
    done = commands.run(*(part.format(**places) for part in argv))
    assert done.code == 1, done
    assert len(done.err.splitlines()) == 1, done.err
    assert done.err.startswith("recollect: ")
    assert expected in done.err
    assert done.out == ""
    assert not (tmp_path / "executed").exists()
    assert not (tmp_path / "new").exists(), "nothing is left of a run that could not begin"


def test_a_trainer_without_a_folder_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = tiny.task(tiny.prose(200), context=8, batch=2)
    run = tiny.configure("unused", steps=3)
    Trainer(
        task, TextTask.build_model(run.model, task.data.tokenizer, runs.load), run.train, None, torch.device("cpu")
    ).run()
    assert list(tmp_path.iterdir()) == []
