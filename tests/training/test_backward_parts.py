"""Truncated backpropagation in the loop: the gradients of one pass through the window, and the memory of one part."""

from functools import partial

import pytest
import torch

import tiny
from recollect.claims.laboratory.analysis import peak_kept_bytes
from recollect.core import bptt
from recollect.core import state as states
from recollect.core.bptt import Segment
from recollect.models import language
from recollect.training.loop import Trainer
from recollect.training.settings import Settings

KINDS = ("full", "truncated", "random", "unbiased")
CONTEXT, SEGMENT = 24, 5


def text_task(kind, context=CONTEXT, segment=SEGMENT, batch=3, **settings):
    given = {"context": context, "batch": batch, "bptt": kind, "segment": segment, "eval_tokens": 100}
    return tiny.task(tiny.prose(), **given | settings)


def model_of(task, model="lstm", width=6):
    torch.manual_seed(1)
    layers = {"heads": 2} if model in tiny.HEADED else {}
    return language.Config(vocab=task.data.tokenizer.size, model=model, width=width, layers=1, **layers).build()


def trained(task, model, **settings):
    given = {"steps": 1, "warmup": 0, "clip": None, "optimizer": "sgd", "weight_decay": 0.0, "lr": 0.1}
    trainer = Trainer(task, model, Settings(**given | settings), None, torch.device("cpu"))
    trainer.run()
    return trainer


def gradients(model):
    return [p.grad.clone() for p in model.parameters()]


def of_the_whole(task, model, count):
    """One backward pass through the losses of the whole windows, by the definition in `core.bptt`."""
    model.zero_grad()
    batches, state = task.batches("train", 0), None
    for _ in range(count):
        batch = next(batches)
        draw = torch.Generator().manual_seed(task.seed * 1_000_003 + batch.number)
        segments = bptt.plan(task.config.bptt, batch.x.shape[1], task.config.segment, task.config.cut, draw)
        losses, state = bptt.run(model, batch.x, batch.y, None if batch.fresh else state, segments)
        (losses.mean() * batch.scale / count).backward()
        state = states.detach(state)
    return gradients(model)


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("windows", ["random", "sequential"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_loop_leaves_the_gradients_of_one_backward_pass_through_the_window(kind, windows, accumulate):
    task = text_task(kind, windows=windows)
    model = model_of(task).double()
    expected = of_the_whole(task, model, accumulate)
    trained(task, model, accumulate=accumulate, lr=1e-300)
    for a, b in zip(gradients(model), expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-14)


def test_the_cuts_change_the_gradients():
    """Or the test above would compare nothing."""
    found = {}
    for kind in KINDS:
        task = text_task(kind)
        model = model_of(task).double()
        trained(task, model)
        found[kind] = torch.cat([gradient.flatten() for gradient in gradients(model)])
    for kind in KINDS[1:]:
        assert (found[kind] - found["full"]).norm() > 1e-3 * found["full"].norm()


@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_gives_nearly_the_same_gradients(kind):
    found = []
    for precision in ("float32", "bfloat16"):
        task = text_task(kind)
        model = model_of(task, "gru")
        trained(task, model, precision=precision)
        found.append(torch.cat([gradient.flatten() for gradient in gradients(model)]))
    assert (found[0] - found[1]).norm() < 0.05 * found[0].norm()


@pytest.mark.parametrize("kind", KINDS)
def test_the_losses_of_the_parts_add_up_to_that_of_the_window(kind):
    task = text_task(kind, windows="sequential", vary=True, smoothing=0.1)
    model = model_of(task).double()
    batch = next(task.batches("train", 0))
    parts, carry, total, tokens = task.backward_parts(batch), None, 0.0, 0
    for part in parts:
        loss = task.loss(model, part, carry)
        carry = states.detach(loss.carry)
        total, tokens = total + loss.value.item(), tokens + loss.tokens
    whole = task.loss(model, batch)
    assert total == pytest.approx(whole.value.item(), rel=1e-12)
    assert tokens == whole.tokens
    assert len(parts) > 1 or kind == "full"


@pytest.mark.parametrize("kind", KINDS)
def test_the_parts_depend_on_the_seed_and_the_number_of_the_batch_alone(kind):
    def sizes(task, number):
        batch = next(task.batches("train", 0, start=number))
        return [part.x.shape[1] for part in task.backward_parts(batch)]

    def other(**settings):
        task = tiny.task(tiny.prose(900, seed=1), context=CONTEXT, batch=2, bptt=kind, segment=SEGMENT, **settings)
        return [sizes(task, number) for number in range(8)]

    found = [sizes(text_task(kind), number) for number in range(8)]
    assert found == [sizes(text_task(kind), number) for number in range(8)] == other()
    assert all(sum(each) == CONTEXT for each in found)
    assert (len({tuple(each) for each in found}) > 1) == (kind in ("random", "unbiased"))


def test_a_state_leaves_no_random_window():
    task = text_task("truncated")
    batch = next(task.batches("train", 0))
    carries = [task.loss(model_of(task), part).carry for part in task.backward_parts(batch)]
    assert [carry is None for carry in carries] == [False, False, False, False, True]


# ------------------------------------------------------------------------------------------------ memory


@pytest.mark.parametrize("model", ["rnn", "lstm", "gru", "linear-transformer", "ttt-linear"])
def test_what_is_kept_for_the_backward_pass_falls_with_the_segment(model):
    def kept(kind, segment):
        task = text_task(kind, context=128, segment=segment)
        built = model_of(task, model, width=8)
        return peak_kept_bytes(partial(trained, task, built), built.parameters())

    full, halves, pieces = kept("full", 1), kept("truncated", 64), kept("truncated", 8)
    assert halves < 0.6 * full
    assert pieces < 0.15 * full


def test_the_unbiased_graph_reaches_from_cut_to_cut():
    """Over 12 segments of which the third, the fourth and the ninth begin with a cut, that of six segments."""
    cuts = [Segment(8, 0.0 if i in (0, 2, 3, 8) else 2.0) for i in range(12)]
    parts = bptt.between_cuts(cuts)
    assert [len(part) for part in parts] == [2, 1, 5, 4]
    assert [segment for part in parts for segment in part] == cuts
    assert bptt.between_cuts(cuts[1:])[0] == (Segment(8, 2.0),), "what comes first begins a part, whatever its factor"

    def kept(kind, segment, **settings):
        task = text_task(kind, context=96, segment=segment, **settings)
        built = model_of(task, width=8)
        batch = next(task.batches("train", 0))
        most = max(part.x.shape[1] for part in task.backward_parts(batch))
        return peak_kept_bytes(partial(trained, task, built), built.parameters()), most

    full, _ = kept("full", 1)
    unbiased, most = kept("unbiased", 8, cut=0.5)
    assert most == 16, "two segments that are not cut from each other"
    assert 1.3 * kept("truncated", 8)[0] < unbiased < 1.3 * kept("truncated", 16)[0] < 0.4 * full
