"""Where each word of a caption came from."""

import pytest
import torch
from PIL import Image

from recollect.core.contract import ContractError
from recollect.report import gaze as drawing
from recollect.report.drawing import figure
from recollect.tasks.captions import scenes
from recollect.tasks.captions.gaze import gaze
from recollect.tasks.captions.images import box_coverage
from recollect.tasks.captions.task import CaptionsTask
from recollect.tasks.captions.use import caption, view
from recollect.training import run as runs
from tasks.captions.cases import configure


@pytest.mark.parametrize("model", ["attend", "transformer", "fixed", "context"])
def test_every_model_says_where_each_word_came_from(tmp_path, model):
    runs.train(CaptionsTask, configure(model, steps=2, extra=5), str(tmp_path / "run"))
    used = runs.load(tmp_path / "run")
    file = tmp_path / "a.png"
    Image.fromarray(scenes.scene("test", 0, pixels=32).image).resize((64, 40)).save(file)
    (one,) = caption(used, [file])
    found = gaze(used, one.image, one.found[0])
    steps = len(one.found[0].tokens) + 1
    assert found.weights.shape == (steps, 8, 8)
    assert len(found.words) == steps
    assert found.words[-1] == "<end>"
    assert torch.allclose(found.weights.sum(dim=(1, 2)), torch.ones(steps), atol=1e-5)
    assert ("gradient" in found.kind) == (model in ("fixed", "context"))
    left = torch.from_numpy(box_coverage((0, 0, 16, 32), (8, 8), 32)).float()
    half = found.weights.flatten(1) @ left
    assert torch.allclose(half, found.weights[:, :, :4].sum(dim=(1, 2)), atol=1e-5)
    for ending in figure.FORMATS if model == "attend" else (".png",):
        drawing.draw(view(file), found.words, found.weights.tolist(), str(tmp_path / f"map{ending}"), found.kind)
        assert (tmp_path / f"map{ending}").stat().st_size > 1000
    if model == "transformer":
        assert gaze(used, one.image, one.found[0], layer=1, head=2).kind == "attention, layer 1 head 2"
        with pytest.raises(ContractError, match="found layer 5;"):
            gaze(used, one.image, one.found[0], layer=5)
