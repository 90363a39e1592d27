"""Compiled training: the plain loop's weights, one compilation for each kind of step, nothing compiled elsewhere."""

from functools import partial

import pytest
import torch
from torch._dynamo.utils import counters

import tiny
from recollect.core.contract import ContractError
from recollect.models import language
from recollect.train.graph import Compiled, without_counts
from recollect.train.loop import Trainer
from recollect.train.settings import Settings

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


def trained(model, *, device="cpu", dtype=torch.float32, windows="random", steps=6, evaluate=None, **settings):
    """The parameters after a few steps, and how many graphs were compiled for them."""
    torch.manual_seed(0)
    counters.clear()
    task = tiny.task(tiny.prose(2000), context=16, batch=4, windows=windows)
    task.device = torch.device(device)
    if evaluate is not None:
        task.evaluate = partial(evaluate, task.evaluate)
    layer = {"window": 8} if model == "transformer" and windows == "sequential" else {}
    config = language.Config(
        vocab=task.corpus.tokenizer.size, model=model, width=8, layers=1, layer=layer, **tiny_heads(model)
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

    def loss_of(batch, carry):
        seen.append(batch.number)
        return task.loss(model, batch, carry)

    model = language.Config(vocab=task.corpus.tokenizer.size, model="rnn", width=4, layers=1).build()
    batch = next(task.batches("train", 0, start=7))
    assert batch.number == 7
    for alike in (True, False):
        found = Compiled(loss_of, alike)(batch, None)
        assert found.value.item() == task.loss(model, batch).value.item()
        assert found.tokens == 16
    assert seen == [0, 7]
    assert without_counts(batch)[:3] == batch[:3]


def test_a_graph_goes_with_compiling_and_not_with_exactness():
    assert Settings(graph=True, compile=True).compile
    with pytest.raises(ContractError, match="graph=true does not go with exact"):
        Settings(graph=True, exact=True)


@pytest.mark.slow
def test_inductor_trains_a_transformer():
    plain, _ = trained("transformer", steps=3, precision="bfloat16")
    compiled, graphs = trained("transformer", steps=3, precision="bfloat16", compile=True)
    assert graphs == 1
    for a, b in zip(plain, compiled, strict=True):
        torch.testing.assert_close(a, b, rtol=5e-2, atol=5e-3)


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
