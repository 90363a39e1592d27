"""The n-gram model beside kenlm's Python API: training, and scoring a text that was held out.

Both score with the same n-grams: ours are written as ARPA text, which kenlm loads. kenlm takes a string and looks each
word up, ours takes tokens; so there is a row for each way in, and in the second ours begins with the string too.
"""

import importlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from recollect.models.ngram import Config, Ngram, arpa
from recollect.tasks.text import data as corpus

from .floors import floor
from .measure import Row, Run, attempt, compare

ORDER = 5
LN10 = float(np.log(10.0))
TRAINER = "not installed: kenlm's Python API does not train; its trainer lmplz is a program of its own"


class Words(NamedTuple):
    """A text as tokens, with the spelling of each."""

    name: str
    names: Sequence[str]
    train: np.ndarray
    held_out: np.ndarray


def words() -> Words:
    """WikiText-2 where RECOLLECT_DATA has it, else the source of Python's standard library."""
    own = os.environ.get("RECOLLECT_DATA")
    data = corpus.load("wikitext2" if own and (Path(own) / "wikitext2").is_dir() else None, tokenizer="words")
    names = [data.tokenizer.token(i) for i in range(data.tokenizer.size)]
    held_out = data.valid if data.test is None else data.test
    return Words(data.name, names, np.asarray(data.train, dtype=np.int64), np.asarray(held_out, dtype=np.int64))


def ngram(device: str, text: Callable[[], Words] = words) -> Iterator[Row]:
    """Training an n-gram model of order 5 on words, and scoring a held-out text with it, beside kenlm."""
    given = text()
    yield attempt(f"n-gram training order {ORDER} {given.name}", device, lambda: _training(given, device))
    model = Config(order=ORDER, vocab=len(given.names)).build().train_on(given.train).to(device)
    yield from _scoring(model, given, device)


def _training(given: Words, device: str) -> Row:
    model = Config(order=ORDER, vocab=len(given.names)).build()
    entries = model.train_on(given.train).entries()
    return compare(
        f"n-gram training order {ORDER} {given.name}",
        lambda: model.train_on(given.train),
        {},
        device=device,
        rounds=7,
        seconds=0.5,
        absent={"kenlm": TRAINER},
        unit="tokens",
        amount=len(given.train),
        note=f"{len(given.train):,} tokens, a vocabulary of {len(given.names):,}, {entries:,} n-grams; on the CPU",
        floor=floor("cpu", bytes=8 * len(given.train) + 24 * entries),  # each token read, each n-gram written
    )


def _scoring(model: Ngram, given: Words, device: str) -> Iterator[Row]:
    titles = [f"n-gram scoring {way} order {ORDER} {given.name}" for way in ("tokens", "a string")]
    try:
        text = Text(given, device)
        first = _index_seconds(model, given, device)
        with tempfile.TemporaryDirectory() as folder:
            runs, checked, absent = _kenlm(model, given.names, text, Path(folder) / "model.arpa")
    except Exception as error:
        yield from (attempt(title, device, lambda error=error: _raise(error)) for title in titles)
        return
    note = f"{len(given.held_out):,} tokens in one chunk; the index, made once, took {first:.2f} s before the clock ran"
    ways: list[tuple[str, Run, str]] = [
        (titles[0], lambda: text.score(model), f"{note}; kenlm is given the string, it takes no tokens"),
        (titles[1], lambda: text.read().score(model), f"{note}; both split the string and look its words up"),
    ]
    for title, ours, said in ways:

        def row(title: str = title, ours: Run = ours, said: str = said) -> Row:
            return compare(
                title,
                ours,
                runs,
                device=device,
                rounds=15,
                seconds=0.3,
                fresh=text.shuffle,
                absent=absent,
                unit="tokens",
                amount=len(given.held_out),
                checked=checked,
                note=said,
                floor=floor(device, bytes=16 * len(given.held_out)),  # each token read, each score written
            )

        yield attempt(title, device, row)


class Text:
    """The held-out text as tokens and as a string, cut anew for every round."""

    def __init__(self, given: Words, device: str) -> None:
        self.device = device
        self.spelled = [arpa.escape(name) for name in given.names]  # as in the file
        self.number = {name: i for i, name in enumerate(self.spelled)}
        self.whole = given.held_out
        self.random = np.random.default_rng(0)
        self.hold(self.whole)

    def hold(self, tokens: np.ndarray) -> None:
        self.tokens = torch.from_numpy(tokens).to(self.device)[None]
        self.string = " ".join([self.spelled[i] for i in tokens.tolist()])

    def shuffle(self) -> None:
        """Other places to begin and end: the parts of the text in another order."""
        cuts = np.sort(self.random.choice(len(self.whole), size=min(50, len(self.whole) - 1), replace=False))
        parts = np.split(self.whole, cuts)
        self.hold(np.concatenate([parts[i] for i in self.random.permutation(len(parts))]))

    def read(self) -> "Text":
        """The tokens anew, from the string."""
        found = map(self.number.__getitem__, self.string.split(" "))
        self.tokens = torch.from_numpy(np.fromiter(found, np.int64)).to(self.device)[None]
        return self

    def score(self, model: Ngram) -> torch.Tensor:
        return model.nll(self.tokens[:, :-1], self.tokens[:, 1:])[0]


def _index_seconds(model: Ngram, given: Words, device: str) -> float:
    """Score the training text twice: what the first time took longer. Afterwards every length has its index."""
    tokens, took = torch.from_numpy(given.train).to(device)[None], []
    for _ in range(2):
        start = time.perf_counter()
        model.nll(tokens[:, :-1], tokens[:, 1:])[0].sum().item()
        took.append(time.perf_counter() - start)
    return max(0.0, took[0] - took[1])


def _kenlm(model: Ngram, names: Sequence[str], text: Text, path: Path) -> tuple[dict[str, Run], str, dict[str, str]]:
    """How kenlm is called, what was seen to be equal, and why it is absent."""
    try:
        kenlm: Any = importlib.import_module("kenlm")
    except ImportError:
        return {}, "", {"kenlm": "not installed"}
    model.to_arpa(path, names)
    config = kenlm.Config()
    config.show_progress, config.arpa_complain = False, kenlm.ARPALoadComplain.NONE
    loaded = kenlm.Model(str(path), config)

    def full_scores() -> list[Any]:
        return list(loaded.full_scores(text.string, bos=False, eos=False))

    theirs = -LN10 * torch.tensor([score for score, *_ in full_scores()], dtype=torch.float64)
    ours = text.read().score(model)[0].cpu()
    apart = float((ours - theirs[1:]).abs().max())
    assert apart < 1e-4, f"expected kenlm's log-probability of every token to 1e-4, found {apart:.2g} apart"
    runs: dict[str, Run] = {
        "kenlm Model.score": lambda: loaded.score(text.string, bos=False, eos=False),
        "kenlm Model.full_scores": full_scores,
    }
    return runs, f"log p of each of {len(ours):,} tokens as kenlm's to {apart:.1g} nats", {}


def _raise(error: Exception) -> Row:
    raise error


ROWS = {"ngram": ngram}
