"""What transcribing learns in seconds: strings of tones, from frames that are altered in training."""

import pytest
import torch

from recollect.tasks.transcribe import data
from recollect.tasks.transcribe.settings import Config, DataConfig
from recollect.tasks.transcribe.task import TranscribeTask

pytestmark = pytest.mark.slow
STRINGS = {"letters": 4, "takes": 20, "join": 3, "count": 60, "hop": 16.0, "frame": 32.0, "bands": 20, "stack": 3}


def error_after(steps, **settings):
    """Character errors on strings of validation by CTC over a GRU, after so many steps."""
    torch.manual_seed(0)
    task = TranscribeTask(Config(batch=24, eval_rows=None, **settings), data.load(DataConfig(**STRINGS)))
    model = TranscribeTask.build_model(
        TranscribeTask.resolve_model({"name": "ctc", "width": 48, "layers": 1}, task.data.artifacts, None),
        task.data.artifacts,
        None,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    batches = task.batches("train", 0)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 1e-2 * min(1, (step + 1) / 20) * (1 - step / steps)
        optimizer.zero_grad()
        task.loss(model, next(batches)).value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()
    return task.evaluate(model, "valid")["error"], task.constant("valid")["error"]


@pytest.mark.parametrize("altered", [{}, {"tempo": 0.3, "gain": 10, "response": 8, "noise": 5, "time_masks": 2}])
def test_strings_of_tones_are_written_down_from_altered_frames(altered):
    error, constant = error_after(150, **altered)
    assert constant > 0.6
    assert error < 0.15
