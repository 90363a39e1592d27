"""A small captioner learns to say what easy scenes show; one caption for all, or one for another picture, cannot."""

import numpy as np
import pytest
import torch

from recollect.tasks.captions import data as pictures
from recollect.tasks.captions import model as captioner
from recollect.tasks.captions import task as captions
from recollect.tasks.captions.captioned import Captioned, Part
from recollect.tasks.decoding import greedy_settings
from recollect.training.loop import Trainer
from recollect.training.settings import Settings

LEFT_OUT = {"a", "of", "small", "large", "circle", "square", "triangle", "cross", "diamond"}


def easier(part, side):
    """The same pictures, with captions that name things by their colour alone: `red left blue`."""
    texts = [[" ".join(w for w in text.split() if w not in LEFT_OUT) for text in some] for some in part.captions]
    tokens = [side.encode(text) for some in texts for text in some]
    return Part(
        images=part.images,
        names=part.names,
        captions=texts,
        tokens=np.concatenate(tokens),
        offsets=np.cumsum([0, *map(len, tokens)]),
        first=part.first,
        boxes=part.boxes,
        named=np.array([[0, -1, 1], [1, -1, 0]] * len(part), np.int8).ravel(),
        held_out=part.held_out,
    )


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    data = pictures.load(count=2400, pixels=32, cache=tmp_path_factory.mktemp("cache"))
    parts = {name: easier(getattr(data, name), data.tokenizer) for name in ("train", "valid", "test")}
    easy = Captioned(
        name="easy", tokenizer=data.tokenizer, pixels=32, fingerprint="easy", notes=[], mirrored=False, **parts
    )
    return captions.CaptionsTask(captions.Config(batch=32), easy)


def learn(task, model, width):
    """A captioner trained for some seconds."""
    torch.manual_seed(0)
    config = captioner.Config(
        words=task.data.tokenizer.size, pixels=32, channels=8, width=width, model=model, dropout=0.0
    )
    train = Settings(steps=500, lr=5e-3, warmup=20, weight_decay=0.0, eval_every=500)
    trainer = Trainer(task, config.build(), train, None, torch.device("cpu"))
    trainer.run()
    return trainer.model.eval()


@pytest.mark.slow
@pytest.mark.parametrize(("model", "width"), [("attend", 64), ("transformer", 32)])
def test_a_captioner_beats_one_caption_for_all_by_far_and_looks_at_what_it_names(task, model, width):
    own = learn(task, model, width)
    found = task.described(own, "valid", greedy_settings(task.config))
    assert found["exact"] > 0.5
    assert found["shuffled"]["exact"] < 0.1
    assert task.constant("valid")["exact"] < 0.1
    gaze = task.gaze(own, "valid", 100)
    assert gaze["named"] > 2.5 * gaze["even"]
    assert gaze["named"] > gaze["other"]
