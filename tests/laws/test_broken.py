"""One deliberately broken layer for each law, caught by that law."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from recollect.core import laws
from recollect.core.contract import Cell, Cost
from recollect.decode import verify
from recollect.decode.engine import EagerRun, Engine, ModelStep, draw_thresholds
from recollect.layers import ENCODERS, attention
from recollect.models import language, seq2seq


class State(NamedTuple):
    total: Tensor  # B D


class Sum(Cell[State]):
    """A good layer: the running sum of its inputs. Each broken one changes one thing about it."""

    def __init__(self) -> None:
        super().__init__()
        self.dim = self.width = 3

    def initial_state(self, batch, memory=None, like=None, capacity=None):
        return State(self.like(like).new_zeros(batch, 3))

    def update(self, state, x):
        return State(state.total + x)

    def read(self, state, x):
        return state.total

    def cost(self, batch, steps, source=0):
        return Cost(0, batch * 3 * 8)


class ForgetsItsState(Sum):
    def forward(self, x, state):
        y = x.cumsum(dim=1)
        return y, State(y[:, -1].clone())


class LosesAGradient(Sum):
    def forward(self, x, state):
        y = state.total.detach()[:, None] + x.cumsum(dim=1)
        return y, State(y[:, -1].clone())


class SeesTheFuture(Sum):
    def unroll(self, x, state):
        return x.sum(dim=1, keepdim=True).expand_as(x) + state.total[:, None], State(state.total + x.sum(dim=1))


class LooksAtItsNeighbours(Sum):
    def update(self, state, x):
        return State(state.total + x - x.mean(dim=0))


class CountsThePadding(Sum):
    def update(self, state, x):
        return State(state.total + x + 1)

    def ragged(self, x, lengths, state):
        return self(x, state)


class WritesInPlace(Sum):
    def update(self, state, x):
        return State(state.total.add_(x))


class KeepsTooMuchAlive(Sum):
    def forward(self, x, state):
        y = state.total[:, None] + x.cumsum(dim=1)
        return y, State(y[:, -1])  # a view that keeps all of y alive


class DeclaresTooMuchWork(Sum):
    def cost(self, batch, steps, source=0):
        return Cost(7, batch * 3 * 8)


class RemembersOutsideItsState(Sum):
    def update(self, state, x):
        self.calls = getattr(self, "calls", 0) + 1
        return State(state.total + x * self.calls)


X = torch.randn(3, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def broken(layer):
    return layer.double().eval()


def test_the_good_layer_keeps_every_law():
    assert max(laws.check(broken(Sum()), X).values()) < 1e-10


@pytest.mark.parametrize(
    ("layer", "law", "run"),
    [
        (ForgetsItsState, "Chunk", lambda layer: laws.chunk(layer, X, [2, 4])),
        (LosesAGradient, "Chunk", lambda layer: laws.chunk(layer, X, [2, 4])),
        (SeesTheFuture, "Cause", lambda layer: laws.cause(layer, X, 3)),
        (LooksAtItsNeighbours, "Row", lambda layer: laws.row(layer, X)),
        (CountsThePadding, "Ragged", lambda layer: laws.ragged(layer, X, [6, 3, 0])),
        (WritesInPlace, "Purity", lambda layer: laws.purity(layer, X)),
        (KeepsTooMuchAlive, "Size", lambda layer: laws.size(layer, X)),
        (RemembersOutsideItsState, "File", lambda layer: laws.file(layer, X)),
        (DeclaresTooMuchWork, "Cost", lambda layer: laws.cost(layer, X)),
        (CountsThePadding, "Ragged", lambda layer: laws.ragged_values(layer, X, [6, 3, 1])),
    ],
)
def test_each_law_catches_the_layer_that_breaks_it(layer, law, run):
    with pytest.raises(laws.LawBroken, match=f"^{law} law broken by {layer.__name__} .*") as caught:
        run(broken(layer()))
    assert "\n" not in str(caught.value)


def test_the_message_names_law_layer_chunking_and_error():
    with pytest.raises(laws.LawBroken) as caught:
        laws.chunk(broken(ForgetsItsState()), X, [2, 4])
    message = str(caught.value)
    for part in ("Chunk law", "ForgetsItsState (3 → 3)", "2+4", "differs by", "allowed 1e-10"):
        assert part in message


def test_a_broken_law_says_where_the_outputs_begin_to_differ():
    with pytest.raises(laws.LawBroken) as caught:
        laws.cause(broken(SeesTheFuture()), X, 3)
    assert (caught.value.tensor, caught.value.row, caught.value.step) == ("y", 0, 0)
    with pytest.raises(laws.LawBroken) as caught:
        laws.chunk(broken(ForgetsItsState()), X, [2, 4])
    assert (caught.value.tensor, caught.value.step) == ("y", 2)
    assert caught.value.error > 0.1


def test_outputs_alone_are_compared_where_the_form_of_a_state_is_free():
    class KeepsAnotherState(Sum):
        def forward(self, x, state):
            y = state.total[:, None] + x.cumsum(dim=1)
            return y, State(y[:, -1].clone())

        def unroll(self, x, state):
            y, state = super().unroll(x, state)
            return y, State(state.total + 1)

    layer = broken(KeepsAnotherState())
    assert laws.chunk_values(layer, X, [6], outputs=True) < 1e-10
    with pytest.raises(laws.LawBroken, match="total differs"):
        laws.chunk_values(layer, X, [6])


@pytest.mark.parametrize(("share", "holds"), [(0.05, False), (0.2, True)])
def test_declared_flops_may_differ_by_the_stated_share(share, holds):
    class DeclaresRoughly(Sum):
        def __init__(self):
            super().__init__()
            self.out = torch.nn.Linear(3, 3)

        def read(self, state, x):
            return self.out(state.total)

        def cost(self, batch, steps, source=0):
            return Cost(int(1.1 * 18 * batch * steps), batch * 3 * 8)

    layer = broken(DeclaresRoughly())
    if holds:
        assert 0.05 < laws.cost(layer, X, share=share) < 0.2
    else:
        with pytest.raises(laws.LawBroken, match="356 FLOPs declared .* 324 counted step by step, allowed 5% apart"):
            laws.cost(layer, X, share=share)


def test_symmetry_catches_an_encoder_that_knows_positions():
    encoder = ENCODERS["attention"](dim=4, positions="sinusoid").build().double().eval()
    with pytest.raises(laws.LawBroken, match="^Symmetry law broken by FullAttention"):
        laws.symmetry(encoder, torch.randn(2, 4, 4, dtype=torch.float64), [3, 2, 1, 0])


def test_leaving_the_mask_out_breaks_cause():
    layer = broken(attention.Config(dim=3, masked=False).build())
    with pytest.raises(laws.LawBroken, match="^Cause law broken by Attention"):
        laws.cause(layer, X, 3)


def test_batchnorm_in_training_breaks_row_and_cause():
    """The exemption that the design names, shown."""
    from recollect.layers import norm

    layer = norm.Config(dim=3, kind="batch").build().double().train()
    with pytest.raises(laws.LawBroken, match="^Row law broken by Norm"):
        laws.row(layer, X)
    with pytest.raises(laws.LawBroken, match="^Cause law broken by Norm"):
        laws.cause(layer, X, 3)


# ------------------------------------------------------------------------------------------------ steps of an engine


class MixesRows(ModelStep):
    def __call__(self, token):
        return super().__call__(token).roll(1, 0)


class ForgetsTheState(ModelStep):
    def start(self, state, room):
        super().start(state, room)
        self.first = state

    def finish(self):
        return self.first


class RoundsTheWeights(ModelStep):
    def __init__(self, model):
        rounded = model.config.build().double().eval()
        rounded.load_state_dict({name: weight.bfloat16() for name, weight in model.state_dict().items()})
        super().__init__(rounded)


@pytest.mark.parametrize("broken_step", [None, MixesRows, ForgetsTheState, RoundsTheWeights])
def test_the_step_law_catches_an_engine_that_computes_something_else(broken_step, monkeypatch):
    class BrokenEngine(Engine):
        def start_run(self, position, config, longest):
            draws = draw_thresholds(position, config)
            return EagerRun(broken_step(self.model), position, config, draws, self.room)

    model = language.Config(vocab=7, model="gru", width=8).build().double().eval()
    x = torch.randint(7, (3, 12))
    if broken_step is None:
        laws.step(model, x, verify.run_engine(model), "float64")
        return
    monkeypatch.setattr(verify, "Engine", BrokenEngine)
    with pytest.raises(laws.LawBroken, match=r"^Step law broken by LanguageModel .*logits differs by") as caught:
        laws.step(model, x, verify.run_engine(model), "float64")
    assert "\n" not in str(caught.value)


def test_the_step_law_catches_a_search_that_reports_other_log_probabilities():
    model = seq2seq.Config(source=9, target=9, width=8, model="attend").build().double().eval()
    memory = model.encode(torch.randint(9, (2, 5)), torch.tensor([5, 3]))
    with torch.no_grad():
        logits, _ = model(torch.tensor([[1, 4], [1, 4]]), model.initial_state(2, memory=memory))
    logp = logits.log_softmax(dim=-1)
    sums = (logp[:, 0, 4] + logp[:, 1, 2]).tolist()
    laws.search(model, memory, [[([4, 2], sums[0])], [([4, 2], sums[1])]], 1, "float64")
    with pytest.raises(laws.LawBroken, match=r"^Step law broken by Seq2Seq .*log p differs by"):
        laws.search(model, memory, [[([4, 2], sums[1])], [([4, 2], sums[0])]], 1, "float64")


class Raises(Sum):
    def forward(self, x, state):
        if x.shape[1] == 1:
            raise RuntimeError("no single steps")
        return self.unroll(x, state)


def test_a_broken_law_is_a_result_beside_the_others():
    layer = broken(WritesInPlace())
    found = {name: laws.judge(name, layer, law) for name, law in laws.list_laws(layer, X).items()}
    assert list(found) == ["chunk", "cause", "row", "ragged", "purity", "size", "file"]
    assert isinstance(found["purity"], laws.LawBroken)
    assert found["size"] == 0


def test_a_layer_that_raises_an_error_breaks_the_law_that_called_it():
    layer = broken(Raises())
    found = {name: laws.judge(name, layer, law) for name, law in laws.list_laws(layer, X).items()}
    assert str(found["chunk"]).startswith(
        "Chunk law broken by Raises (3 → 3): it raised RuntimeError: no single steps ("
    )
    assert found["cause"] == 0


def test_running_out_of_memory_breaks_no_law():
    def law():
        raise MemoryError

    with pytest.raises(MemoryError):
        laws.judge("chunk", Sum(), law)


def test_nan_breaks_the_laws_of_values_but_not_those_of_bits():
    layer, x = broken(Sum()), X * float("nan")
    found = {name: laws.judge(name, layer, law) for name, law in laws.list_laws(layer, x).items()}
    assert {name for name, error in found.items() if isinstance(error, laws.LawBroken)} == {
        "chunk", "cause", "row", "ragged"
    }  # fmt: skip
