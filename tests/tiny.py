"""Small texts, corpora and runs, for the tests of training, tasks and writing."""

import hashlib
import random

import numpy as np
import pytest
from typer.testing import CliRunner

from recollect import cli
from recollect.data.tokenizers import Chars
from recollect.models import language
from recollect.tasks.text import task as text
from recollect.tasks.text.data import Corpus
from recollect.training import checkpoint
from recollect.training import run as runs
from recollect.training.loop import Trainer

KINDS = tuple(language.KINDS)
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "one", "dog", "run", "far"]
MATRICES = ("retention", "gla", "mamba2", "delta", "gated-delta")
HEADED = ("transformer", "linear-transformer", *MATRICES, "ttt-linear", "ttt-mlp")


def prose(words=600, seed=0):
    """Words in any order: something to learn, but not by heart."""
    draw = random.Random(seed)
    return " ".join(draw.choice(WORDS) for _ in range(words))


def small(model):
    """Settings of a model that trains in a moment."""
    if model == "ngram":
        return {}
    return {"width": "8", "layers": "2"} | ({"heads": "2"} if model in HEADED else {})


def configure(path, model="lstm", tokenizer="chars", **settings):
    """A run of a few steps on the text at `path`."""
    given = {"steps": 12, "context": 12, "batch": 4, "warmup": 3, "save_every": 3, "eval_every": 5, "log_every": 2}
    texts = small(model) | {name: str(value) for name, value in (given | settings).items()}
    return runs.configure(text.TextTask, texts, model=model, data=[str(path)], valid=(), tokenizer=tokenizer)


def corpus(train, valid=None, size=None):
    """A corpus in memory: from two strings, or from two arrays of tokens over a vocabulary of `size`."""
    if isinstance(train, str):
        valid = train if valid is None else valid
        tokenizer = Chars.train([train + valid])
        tokens = [tokenizer.encode(part) for part in (train, valid)]
        bytes_of = [len(part.encode()) for part in (train, valid)]
    else:
        tokenizer = Chars([chr(ord("a") + i) for i in range(size)])
        tokens = [np.asarray(part, dtype=np.uint16) for part in (train, train if valid is None else valid)]
        bytes_of = [len(part) for part in tokens]
    return Corpus(
        name="tiny",
        tokenizer=tokenizer,
        train=tokens[0],
        valid=tokens[1],
        test=None,
        text_bytes=dict(zip(("train", "valid"), bytes_of, strict=True)),
        unknown_share={},
        fingerprint="tiny",
        notes=[],
    )


def task(train, valid=None, size=None, **settings):
    """The task of a corpus in memory."""
    return text.TextTask(text.Config(**settings), corpus(train, valid, size))


def digest(path, *prefixes):
    """sha256 over the tensors of a file: names, types, shapes and bits."""
    tensors, _ = checkpoint.read_tensors(path)
    found = hashlib.sha256()
    for name in sorted(tensors):
        if not prefixes or name.startswith(prefixes):
            tensor = tensors[name]
            found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            found.update(tensor.contiguous().numpy().tobytes())
    return found.hexdigest()


def outcome(folder):
    """What two runs that are the same have in common: weights, checkpoint, metrics but for the time they took."""
    metrics = [
        {name: value for name, value in row.items() if name not in ("seconds", "tokens_per_second", "memory")}
        for row in folder.metrics()
    ]
    return {
        "model": digest(folder.model_path),
        "weights of the last checkpoint": digest(folder.last, "model."),
        "all of the last checkpoint": digest(folder.last),
        "metrics": metrics,
    }


class Killed(BaseException):
    """The process is gone, as far as the run can tell."""


def train_until(task, run, out, step, monkeypatch):
    """Train a run and lose it right after the checkpoint of `step`."""
    real = Trainer.save

    def save(self):
        real(self)
        if self.spent.step == step:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "save", save)
        with pytest.raises(Killed):
            runs.train(task, run, str(out))


def invoke(*words):
    """`recollect …` in this process."""
    return CliRunner().invoke(cli.app, [str(word) for word in words])
