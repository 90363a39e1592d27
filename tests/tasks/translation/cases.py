"""Small tables, models and runs of translation."""

import torch

from recollect.models import seq2seq
from recollect.tasks.translation import data as parallel
from recollect.tasks.translation.settings import Config
from recollect.tasks.translation.task import TranslationTask
from recollect.training import run as runs
from tasks.cases import TRAIN, VALID, table


def load(folder, train=TRAIN, valid=VALID, tokenizer="words", **settings):
    """Pairs as a run would read them; the test part is the validation part."""
    files = [table(folder / f"{name}.tsv", rows) for name, rows in (("train", train), ("valid", valid))]
    given = {"pair": "en-fr", "valid": files[1], "test": files[1], "cache": folder / "cache"} | settings
    return parallel.load(files[0], tokenizer=tokenizer, **given)


def task(data, **settings):
    return TranslationTask(Config(**{"batch": 40} | settings), data)


def build(data, kind="attend", seed=0, **settings):
    """A random model that has something to say, in float64: nothing depends on rounding."""
    torch.manual_seed(seed)
    given = {"width": 8, "heads": 2, "dropout": 0.0, "source": data.source.size, "target": data.target.size}
    model = seq2seq.Config(model=kind, **given | settings).build().double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(2)
    return model


def configure(files, model="attend", **settings):
    """A run of a few steps on the tables `files`."""
    given = {
        "steps": 10, "width": 8, "heads": 2, "batch": 40, "warmup": 2, "save_every": 3, "eval_every": 4, "log_every": 2,
    }  # fmt: skip
    texts = {name: str(value) for name, value in (given | settings).items()}
    train, valid = files
    return runs.configure(
        TranslationTask, texts, model=model, data=[train], valid=[valid], tokenizer="words", pair="en-fr"
    )
