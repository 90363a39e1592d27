"""Fixtures of transcribing: a cache of its own, and runs on a few tones."""

import pytest

from recollect import tasks
from recollect.training import run as runs

TINY = {
    "batch": 4, "count": 12, "takes": 10, "letters": 3, "bands": 16, "eval_rows": 4, "beam": 2, "width": 12,
    "steps": 4, "warmup": 1, "eval_every": 4, "save_every": 4, "extra": 3,
}  # fmt: skip
LEARNING = {"steps": 80, "batch": 8, "lr": 0.01, "eval_every": 80, "save_every": 80}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RECOLLECT_DATA", raising=False)


@pytest.fixture(scope="module")
def run_of(tmp_path_factory):
    """A function that gives the folder of a run, hardly trained; one by CTC until it hears something."""
    place, made = tmp_path_factory.mktemp("runs"), {}

    def train(model, **settings):
        name = "-".join([model, *map(str, settings.values())])
        if name not in made:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("RECOLLECT_CACHE", str(place / "cache"))
                kind = tasks.find("transcribe")
                texts = {
                    key: str(value) for key, value in (TINY | (LEARNING if model == "ctc" else {}) | settings).items()
                }
                runs.train(kind, runs.configure(kind, texts, model=model), str(place / name))
            made[name] = place / name
        return made[name]

    return train
