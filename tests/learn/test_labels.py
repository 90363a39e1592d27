"""Where the order of words decides, a bag of words is at chance and every memory is not."""

import numpy as np
import pytest
import torch

from recollect.data.tokenizers import Words
from recollect.models import classifier
from recollect.tasks.labels import task as labels
from recollect.tasks.labels.labelled import Artifacts, Labelled, Part
from recollect.training.loop import Trainer
from recollect.training.settings import Settings

pytestmark = pytest.mark.slow  # each trains for a second or two

WORDS = ["<unk>", "<eos>", "dog", "man", "bites", "the", "old", "big"]


def draw(count, seed):
    """`dog` and `man` once each among other words: the label says which of them came first."""
    rng = np.random.default_rng(seed)
    tokens, lengths, answers = [], rng.integers(4, 12, size=count), rng.integers(0, 2, size=count)
    for length, answer in zip(lengths, answers, strict=True):
        row = rng.integers(4, len(WORDS), size=length)
        first, second = np.sort(rng.choice(length, 2, replace=False))
        row[first], row[second] = (2, 3) if answer == 0 else (3, 2)
        tokens.append(row)
    return Part(np.concatenate(tokens).astype(np.uint8), lengths.astype(np.int32), answers.astype(np.int32))


@pytest.fixture(scope="module")
def task():
    kept = Artifacts(classes=("dog first", "man first"), tokenizer=Words(WORDS))
    data = Labelled("order", kept, draw(2000, 0), draw(400, 1), None, "order", [])
    return labels.LabelsTask(labels.Config(batch=32), data)


def test_a_bag_of_words_is_at_chance(task):
    found = task.guesses("valid")["bag of words"]
    assert 0.42 < found["accuracy"] < 0.58


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("rnn", {"pool": "last"}),
        ("lstm", {"pool": "last"}),
        ("gru", {"pool": "mean"}),
        ("gru", {"pool": "attention"}),
        ("tcn", {"pool": "last", "layers": 2}),
        ("transformer", {"pool": "last", "layers": 2, "heads": 2}),
    ],
    ids=lambda value: value if isinstance(value, str) else value["pool"],
)
def test_a_memory_knows_which_came_first(task, model, settings):
    torch.manual_seed(0)
    given = {"inputs": len(WORDS), "outputs": 2, "width": 16, "layers": 1} | settings
    train = Settings(steps=250, lr=1e-2, warmup=20, weight_decay=0.0, eval_every=250)
    trainer = Trainer(task, classifier.Config(model=model, **given).build(), train, None, torch.device("cpu"))
    assert trainer.run()["accuracy"] > 0.95


def ends(count, seed):
    """`dog` or `man` first and another of them last among 38 to 40 words: the label says what came first."""
    rng = np.random.default_rng(seed)
    tokens, lengths, answers = [], rng.integers(38, 41, size=count), rng.integers(0, 2, size=count)
    for length, answer in zip(lengths, answers, strict=True):
        row = rng.integers(4, len(WORDS), size=length)
        row[0], row[-1] = 2 + answer, rng.integers(2, 4)
        tokens.append(row)
    return Part(np.concatenate(tokens).astype(np.uint8), lengths.astype(np.int32), answers.astype(np.int32))


@pytest.mark.parametrize("model", ["rnn", "lstm"])
def test_evidence_at_the_beginning_is_learned_both_ways_and_not_one_way(model):
    """Read from the end, the first word is the last that comes; read from the start it is 37 steps or more ago."""
    kept = Artifacts(classes=("dog first", "man first"), tokenizer=Words(WORDS))
    task = labels.LabelsTask(
        labels.Config(batch=32), Labelled("ends", kept, ends(2000, 0), ends(400, 1), None, "ends", [])
    )
    found = {}
    for both_ways in (False, True):
        torch.manual_seed(0)
        settings = {"inputs": len(WORDS), "outputs": 2, "width": 16, "layers": 1, "both_ways": both_ways}
        train = Settings(steps=100, lr=1e-2, warmup=20, weight_decay=0.0, eval_every=100)
        built = classifier.Config(model=model, **settings).build()
        found[both_ways] = Trainer(task, built, train, None, torch.device("cpu")).run()["accuracy"]
    assert found[True] > 0.99
    assert found[False] < 0.75


def test_attention_without_positions_and_a_mean_are_a_bag_again(task):
    """One layer of unmasked attention without positions sees a set; what it answers does not depend on order."""
    settings = {"positions": "none", "layer": {"masked": False}, "pool": "mean", "layers": 1, "heads": 2}
    torch.manual_seed(0)
    model = classifier.Config(model="transformer", inputs=len(WORDS), outputs=2, width=16, **settings).build().eval()
    x = torch.tensor([[2, 5, 3, 6, 4]])
    with torch.no_grad():
        there, back = (model(row)[0][:, -1] for row in (x, x.flip(1)))
    assert torch.allclose(there, back, atol=1e-5)
