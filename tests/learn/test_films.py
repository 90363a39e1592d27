"""A small memory over frames learns what happens in easy films; what ignores their order cannot know half of it."""

import numpy as np
import pytest
import torch

from recollect.tasks.captions.films import data as films
from recollect.tasks.captions.films import model as captioner
from recollect.tasks.captions.films import settings, task
from recollect.tasks.captions.films.filmed import Filmed, Part
from recollect.tasks.decoding import greedy_settings
from recollect.training.loop import Trainer
from recollect.training.settings import Settings

LEFT_OUT = {"a", "circle", "square", "triangle", "cross"}


def easier(part, side):
    """The same films, with captions that name things by their colour alone: `red moves left`."""
    texts = [[" ".join(w for w in text.split() if w not in LEFT_OUT) for text in some] for some in part.captions]
    tokens = [side.encode(text) for some in texts for text in some]
    return Part(
        names=part.names,
        captions=texts,
        tokens=np.concatenate(tokens),
        offsets=np.cumsum([0, *map(len, tokens)]),
        first=part.first,
        held_out=part.held_out,
        frames=part.frames,
        starts=part.starts,
        lengths=part.lengths,
        events=part.events,
    )


@pytest.fixture(scope="module")
def easy(tmp_path_factory):
    """Films of a single event."""
    data = films.load(count=2400, events=1, cache=tmp_path_factory.mktemp("cache"))
    parts = {name: easier(getattr(data, name), data.tokenizer) for name in ("train", "valid", "test")}
    given = {"pixels": data.pixels, "frames": data.frames, "fingerprint": "easy", "notes": []}
    return task.FilmsTask(settings.Config(batch=32), Filmed(name="easy", tokenizer=data.tokenizer, **given, **parts))


def learn(task, model, **own):
    """The share of films that a captioner, trained for some seconds, describes without a mistake."""
    torch.manual_seed(0)
    config = captioner.Config(
        model=model, words=task.data.tokenizer.size, width=64, embed=32, score="scaled", dropout=0.0, **own
    )
    train = Settings(steps=600, lr=4e-3, warmup=50, weight_decay=0.0, eval_every=600)
    trainer = Trainer(task, config.build(), train, None, torch.device("cpu"))
    trainer.run()
    return task.described(trainer.model.eval(), "valid", greedy_settings(task.config))["exact"]


@pytest.mark.slow
def test_a_memory_tells_what_happened_and_a_bag_of_frames_is_wrong_about_half(easy):
    assert learn(easy, "gru") > 0.6
    assert learn(easy, "bag", motion="none") < 0.5
