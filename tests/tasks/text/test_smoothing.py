"""Label smoothing of the text task."""

import pytest
from torch import nn

import tiny
from recollect.models import language


def test_label_smoothing_is_torchs_and_only_in_training():
    task = tiny.task(tiny.prose(), context=12, batch=4, smoothing=0.2)
    model = language.Config(vocab=task.data.tokenizer.size, model="rnn", width=8).build()
    batch = next(task.batches("train", 0))
    logits, _ = model(batch.x)
    expected = nn.functional.cross_entropy(logits.flatten(0, 1), batch.y.flatten(), label_smoothing=0.2)
    assert task.loss(model, batch).value.item() == pytest.approx(expected.item(), rel=1e-6)
    likely = logits.log_softmax(-1)
    by_hand = -0.8 * likely.gather(-1, batch.y[..., None]).mean() - 0.2 * likely.mean()
    assert expected.item() == pytest.approx(by_hand.item(), rel=1e-5)
    plain = tiny.task(tiny.prose(), context=12, batch=4)
    assert task.evaluate(model, "valid") == plain.evaluate(model, "valid")
