"""What one look decides: to write a sequence backwards, and to translate numbers that nobody has seen.

Equal parameters, equal steps, one learning rate. Measured with seeds 0, 1 and 2: exact on all, exact on the longest

    fixed         60 %  69 %  66 %      2 %  15 %  10 %
    attend       100 % 100 % 100 %    100 % 100 % 100 %
    transformer   97 %  98 %  98 %     85 %  90 %  90 %
"""

import os
import random

import pytest
import torch

from recollect.decode import translate
from recollect.models import seq2seq
from recollect.models.size import parameters
from recollect.tasks.decoding import greedy_settings
from recollect.tasks.translation import data as parallel
from recollect.tasks.translation import task as translation
from recollect.training.loop import Trainer
from recollect.training.settings import Settings

SEED = int(os.environ.get("RECOLLECT_SEED", "0"))
SHORTEST, LONGEST = 3, 10
PARAMS, STEPS = 60_000, 500
MARGIN = 0.5  # of the longest sequences, by which a model that looks back is ahead of one that does not


def learn(task, model, *, steps, lr):
    torch.manual_seed(SEED)
    train = Settings(steps=steps, lr=lr, warmup=steps // 10, weight_decay=0.0, eval_every=steps, seed=SEED)
    Trainer(task, model, train, None, torch.device("cpu")).run()
    return model.eval()


@pytest.fixture(scope="module")
def backwards(tmp_path_factory):
    """Letters, and the same letters backwards; what is measured of five letters or more was not trained on."""
    folder, draw, known = tmp_path_factory.mktemp("backwards"), random.Random(0), set()
    for name, count in (("train", 4000), ("valid", 300)):
        lines = []
        while len(lines) < count:
            letters = [draw.choice("abcdefghij") for _ in range(draw.randint(SHORTEST, LONGEST))]
            if tuple(letters) not in known or len(letters) < 5:  # of the short ones there are few
                known.add(tuple(letters))
                lines.append(f"{' '.join(letters)}\t{' '.join(reversed(letters))}\n")
        (folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    train, valid = (str(folder / f"{name}.tsv") for name in ("train", "valid"))
    data = parallel.load(train, valid=valid, test=valid, tokenizer="words", cache=folder / "cache")
    return translation.TranslationTask(translation.Config(batch=1500, smoothing=0.0), data)


@pytest.fixture(scope="module")
def trained(backwards):
    """A model of each kind, trained once."""
    found = {}

    def of(kind):
        if kind not in found:
            torch.manual_seed(SEED)
            sizes = {"source": backwards.data.source.size, "target": backwards.data.target.size}
            layers = 2 if kind == "transformer" else 1
            config = seq2seq.Config(model=kind, layers=layers, dropout=0.0, **sizes).resolved().sized(PARAMS)
            model = learn(backwards, config.build(), steps=STEPS, lr=8e-3)
            found[kind] = model, backwards.translated(model, "valid", greedy_settings(backwards.config))
        return found[kind]

    return of


@pytest.mark.slow
def test_a_vector_of_fixed_size_has_room_for_the_short_and_not_for_the_long(trained):
    model, scores = trained("fixed")
    assert parameters(model) == pytest.approx(PARAMS, rel=0.05)
    assert scores["exact_by_length"][str(SHORTEST)] > 0.9
    assert scores["exact_by_length"][str(LONGEST)] < 0.4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["attend", "transformer"])
def test_who_looks_back_writes_any_of_them_backwards(trained, kind):
    model, scores = trained(kind)
    assert parameters(model) == pytest.approx(PARAMS, rel=0.05)
    assert scores["exact"] >= 0.95
    longest = str(LONGEST)
    ahead = scores["exact_by_length"][longest] - trained("fixed")[1]["exact_by_length"][longest]
    assert ahead > MARGIN


@pytest.mark.slow
def test_attention_points_where_the_letter_stands(trained, backwards):
    """The map of a model that writes backwards is the other diagonal."""
    model, _ = trained("attend")
    source, target = backwards.data.source, backwards.data.target
    right = []
    for text in [line for line in backwards.data.valid.texts("source") if len(line.split()) == LONGEST][:20]:
        ids = source.encode(text)
        memory = translate.encode(model, source, [ids])
        tokens = target.encode(" ".join(reversed(text.split()))).tolist()
        looked = translate.looks(model, memory, tokens, target.begin)["mean"][:LONGEST]
        right += (looked.argmax(dim=1) == LONGEST - 1 - torch.arange(LONGEST)).tolist()
    assert len(right) == 20 * LONGEST
    assert sum(right) / len(right) > 0.9


@pytest.mark.slow
def test_attention_translates_numbers_that_it_has_never_seen(tmp_path):
    """English to French up to 999; a tenth of the numbers are for the test alone. Measured: 99 %, 99 %, 97 %."""
    data = parallel.load(None, count=1000, highest=999, tokenizer="words", share=0.1, cache=tmp_path)
    assert data.test is not None
    assert not set(data.test.texts("source")) & {*data.train.texts("source"), *data.valid.texts("source")}
    task = translation.TranslationTask(translation.Config(batch=1000, smoothing=0.0), data)
    config = seq2seq.Config(model="attend", width=48, source=data.source.size, target=data.target.size)
    torch.manual_seed(SEED)
    scores = task.translated(learn(task, config.build(), steps=300, lr=5e-3), "test", greedy_settings(task.config))
    assert scores["sentences"] > 80
    assert scores["exact"] >= 0.9
