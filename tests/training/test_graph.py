"""Compiled training: the plain loop's weights, one compilation for each kind of step, nothing compiled elsewhere."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch._dynamo.utils import counters

import tiny
from recollect.core import state as states
from recollect.core.contract import ContractError
from recollect.core.task import Loss
from recollect.models import language
from recollect.training.graph import Captured, Compiled, fill, without_counts
from recollect.training.loop import Trainer
from recollect.training.settings import Settings

pytestmark = [  # of what Dynamo and Inductor themselves do
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]


@pytest.fixture(autouse=True)
def _forget():
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


@pytest.fixture
def traced(monkeypatch):
    """Traced and differentiated as ever, but run operation by operation: no C++ compiler is waited for."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))


def trained(
    model, *, device="cpu", dtype=torch.float32, windows="random", bptt="full", steps=6, evaluate=None, **settings
):
    """The parameters after a few steps, and how many graphs were compiled for them."""
    torch.manual_seed(0)
    counters.clear()
    task = tiny.task(tiny.prose(2000), context=16, batch=4, windows=windows, bptt=bptt, segment=6)
    task.device = torch.device(device)
    if evaluate is not None:
        task.evaluate = partial(evaluate, task.evaluate)
    layer = {"window": 8} if model == "transformer" and windows == "sequential" else {}
    config = language.Config(
        vocab=task.data.tokenizer.size, model=model, width=8, layers=1, layer=layer, **tiny_heads(model)
    )
    settings = Settings(steps=steps, warmup=2, eval_every=3, save_every=steps, **settings)
    trainer = Trainer(task, config.build().to(dtype), settings, None, torch.device(device))
    trainer.run()
    return [p.detach().cpu() for p in trainer.model.parameters()], counters["stats"]["unique_graphs"]


def tiny_heads(model):
    return {"heads": 2} if model in tiny.HEADED else {}


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("windows", ["random", "sequential"])
@pytest.mark.parametrize("model", ["transformer", "lstm", "gru", "ttt-linear"])
def test_a_compiled_loss_trains_as_a_plain_one(model, windows, precision):
    plain, none = trained(model, windows=windows, precision=precision)
    compiled, graphs = trained(model, windows=windows, precision=precision, compile=True)
    assert none == 0 < graphs
    for a, b in zip(plain, compiled, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("windows", ["random", "sequential"])
@pytest.mark.parametrize("bptt", ["truncated", "random", "unbiased"])
def test_the_parts_of_a_window_are_compiled_as_a_window_is(bptt, windows):
    plain, _ = trained("gru", windows=windows, bptt=bptt)
    compiled, graphs = trained("gru", windows=windows, bptt=bptt, compile=True)
    assert graphs
    for a, b in zip(plain, compiled, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("model", ["transformer", "lstm"])
def test_steps_are_compiled_once_and_evaluation_never(model):
    seen = []

    def evaluate(own, model, split):
        before = counters["stats"]["unique_graphs"]
        found = own(model, split)
        seen.append(counters["stats"]["unique_graphs"] - before)
        return found

    _, few = trained(model, steps=3, compile=True, evaluate=evaluate)
    torch._dynamo.reset()
    _, many = trained(model, steps=12, compile=True, evaluate=evaluate)
    assert few == many > 0
    assert not any(seen)
    assert len(seen) >= 4
    if model == "transformer":
        assert many == 1, "the whole loss is one graph"


@pytest.mark.slow
@pytest.mark.usefixtures("traced")
def test_a_kernel_for_whole_chunks_is_not_unrolled():
    """What Dynamo sees of an LSTM does not grow with the number of steps."""
    found = []
    for steps in (4, 40):
        torch._dynamo.reset()
        counters.clear()
        model = language.Config(vocab=5, model="lstm", width=4, layers=1).build()
        x = torch.zeros(2, steps, dtype=torch.int64)
        torch.compile(model)(x)[0].sum().backward()
        found.append(counters["stats"]["calls_captured"])
    assert found[0] == found[1]


def test_what_changes_with_each_batch_is_no_reason_to_compile_again(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda run: run)
    task = tiny.task(tiny.prose(), context=8, batch=2)
    seen = []

    def loss_of(model, batch, carry):
        seen.append(batch.number)
        return task.loss(model, batch, carry)

    model = language.Config(vocab=task.data.tokenizer.size, model="rnn", width=4, layers=1).build()
    batch = next(task.batches("train", 0, start=7))
    assert batch.number == 7
    for alike in (True, False):
        found = Compiled(loss_of, alike)(model, batch, None)
        assert found.value.item() == task.loss(model, batch).value.item()
        assert found.tokens == 16
    assert seen == [0, 7]
    assert without_counts(batch)[:3] == batch[:3]


def test_a_graph_goes_with_compiling_and_not_with_exactness():
    assert Settings(graph=True, compile=True).compile
    with pytest.raises(ContractError, match="graph=true does not go with exact"):
        Settings(graph=True, exact=True)


class Again(Captured):
    """Captured as on a GPU, but that a replay does what was recorded by doing it again."""

    def warm_up(self, batch, carry):
        self.step(batch, carry)

    def record(self, batch, carry):
        kept = {place: place.clone() for place in self.places.values()}
        loss = self.step(batch, carry)
        for place, value in kept.items():
            place.copy_(value)  # a recording computes nothing

        def replay():
            again = self.step(batch, carry)
            loss.value.detach().copy_(again.value.detach())
            fill(loss.carry, again.carry)

        return SimpleNamespace(replay=replay), loss


@pytest.mark.parametrize("accumulate", [1, 2, 3])
@pytest.mark.parametrize("bptt", ["full", "truncated"])
def test_a_captured_step_leaves_alone_what_its_loss_does_not_depend_on(bptt, accumulate):
    """The learned start of TTT has a gradient until a state is carried on, and then must not decay either."""
    found = []
    for captured in (False, True):
        torch.manual_seed(0)
        task = tiny.task(tiny.prose(2000), context=8, batch=2, windows="sequential", bptt=bptt, segment=3)
        config = language.Config(vocab=task.data.tokenizer.size, model="ttt-linear", width=8, layers=1, heads=2)
        model = config.build().double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1, momentum=0.5)

        def step(batch, carry, task=task, model=model):
            loss = task.loss(model, batch, carry)
            loss.value.backward()
            return loss

        run = Again(step, list(model.parameters())) if captured else step
        batches, carry, losses, empty = task.batches("train", 0), None, [], []
        for _ in range(4):
            optimizer.zero_grad()
            for _ in range(accumulate):
                for part in task.backward_parts(next(batches)):
                    loss = run(part, carry)
                    carry = states.detach(loss.carry)
                    losses.append(loss.value.item())
            empty.append([name for name, parameter in model.named_parameters() if parameter.grad is None])
            optimizer.step()
        found.append(([p.detach().clone() for p in model.parameters()], losses, empty))
    (plain, losses, empty), (mine, own_losses, own_empty) = found
    assert own_empty == empty
    assert not empty[0]
    assert any("start_weights" in name for name in empty[-1])
    assert own_losses == losses
    assert all(torch.equal(a, b) for a, b in zip(plain, mine, strict=True))


def test_a_gradient_that_lies_elsewhere_is_added_to():
    weight = torch.nn.Parameter(torch.tensor([2.0, 3.0]))

    def step(batch, carry):
        value = (weight * batch).sum()
        value.backward()
        return Loss(value, 1)

    run = Again(step, [weight])
    weight.grad = torch.tensor([10.0, 20.0])
    run(torch.tensor([1.0, 1.0]), None)
    assert weight.grad.tolist() == [11, 21]
    run(torch.tensor([0.0, 5.0]), None)
    assert weight.grad.tolist() == [11, 26]
    weight.grad = None
    run(torch.tensor([4.0, 5.0]), None)
    assert weight.grad.tolist() == [4, 5]


@pytest.mark.slow
def test_inductor_trains_a_transformer():
    plain, _ = trained("transformer", steps=3, precision="bfloat16")
    compiled, graphs = trained("transformer", steps=3, precision="bfloat16", compile=True)
    assert graphs == 1
    for a, b in zip(plain, compiled, strict=True):
        torch.testing.assert_close(a, b, rtol=5e-2, atol=5e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("windows", ["random", "sequential"])
@pytest.mark.parametrize("model", ["lstm", "ttt-linear"])
def test_the_parts_of_a_window_are_captured_each_on_a_gpu(model, windows):
    given = {"device": "cuda", "dtype": torch.float64, "windows": windows, "bptt": "truncated", "steps": 12}
    plain, _ = trained(model, **given)
    found, _ = trained(model, **given, graph=True)
    for a, b in zip(plain, found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)


@pytest.mark.gpu
@pytest.mark.parametrize("windows", ["random", "sequential"])
@pytest.mark.parametrize("model", ["transformer", "lstm"])
@pytest.mark.parametrize("graph", [False, True], ids=["compiled", "compiled-and-captured"])
def test_a_compiled_step_trains_as_a_plain_one_on_a_gpu(graph, model, windows):
    given = {"device": "cuda", "dtype": torch.float64, "windows": windows, "steps": 12}
    plain, _ = trained(model, **given)
    found, graphs = trained(model, **given, compile=True, graph=graph)
    assert graphs
    for a, b in zip(plain, found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)


@pytest.mark.gpu
def test_mixed_precision_goes_with_both_on_a_gpu():
    given = {"device": "cuda", "precision": "bfloat16", "steps": 12}
    plain, _ = trained("transformer", **given)
    found, _ = trained("transformer", **given, compile=True, graph=True)
    for a, b in zip(plain, found, strict=True):
        torch.testing.assert_close(a, b, rtol=5e-2, atol=1e-2)
