"""What makes a fast form fast: a fixed number of operations, and one compiled step for every position."""

from collections import Counter

import pytest
import torch
from torch.overrides import TorchFunctionMode, resolve_name

from laws.cases import every_layer
from recollect.core import state as states
from recollect.kernels import matrix as chunks
from recollect.kernels.recurrent.scan import CHUNK
from recollect.layers import combine, dropout, gru, matrix, norm, scanned, soft_align, ttt


class Operations(TorchFunctionMode):
    """Counts the operations that Python dispatches."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = resolve_name(function) or str(function)
        if not name.endswith(".__get__"):
            self.counts[name] += 1
        return function(*args, **kwargs or {})


def operations(layer, x, memory):
    state = layer.initial_state(len(x), memory=memory, like=x)
    with torch.no_grad():
        layer(x, state)  # what is looked up once in a layer's life does not count
        with Operations() as seen:
            layer(x, state)
    return sum(seen.counts.values())


def parts(config):
    """The configs inside a composite, and itself."""
    inside = getattr(config, "layers", None) or [getattr(config, "layer", None)]
    return [config, *(part for layer in inside if layer is not None for part in parts(layer))]


def loops(config):
    """Layers that may loop: TTT over mini-batches, soft-align, and Cho's GRU, for which no fused kernel exists."""
    return any(
        isinstance(part, soft_align.Config) or (isinstance(part, gru.Config) and part.reset == "before")
        for part in parts(config)
    )


def piece(config):
    """Steps that a layer computes together, where it goes on piece by piece: a mini-batch of TTT, a matrix's chunk."""
    for part in parts(config):
        if isinstance(part, ttt.Config):
            return part.mini_batch
        if isinstance(part, scanned.ScannedConfig):
            return CHUNK
        if isinstance(part, matrix.Config) and (part.forget != "none" or part.write == "delta"):
            return chunks.steps_together(part.forget == "channel", part.write == "delta")
    return None


@every_layer
def test_the_number_of_operations_does_not_grow_with_length(config):
    if isinstance(config, combine.StackConfig | combine.ResidualConfig) or not loops(config):
        layer = config.build().eval()
        short, long = (config.example(2, steps, torch.float32) for steps in (24, 48))
        grown = operations(layer, *long) - operations(layer, *short)
        if (batch := piece(config)) is not None:
            per_batch = operations(layer, *config.example(2, 24 + batch, torch.float32)) - operations(layer, *short)
            assert grown == per_batch * (-(-48 // batch) + -24 // batch)  # pieces of 48 steps less those of 24
        else:
            assert grown == 0
    else:
        layer = config.build().eval()
        one, two, three = (operations(layer, *config.example(2, steps, torch.float32)) for steps in (8, 16, 24))
        assert three - two == two - one


@pytest.mark.slow
@every_layer
def test_one_step_compiles_once_whatever_the_position(config):
    torch._dynamo.reset()
    layer = config.build().eval()
    x, memory = config.example(3, 12, torch.float32)
    compilations = []

    def count(graph, inputs):
        compilations.append(graph)
        return graph.forward

    step = torch.compile(lambda x, state: layer(x, state), fullgraph=True, backend=count, dynamic=False)
    with torch.no_grad():
        expected, _ = layer(x, layer.initial_state(3, memory=memory, like=x))
        state = layer.initial_state(3, memory=memory, like=x, capacity=12)
        # rows at different positions: the first has read three steps more than the others
        state = _lead(layer, x, memory, state)
        outputs = []
        for t in range(8):
            now = torch.stack([x[0, t + 3], x[1, t], x[2, t]])[:, None]
            y, state = step(now, state)
            outputs.append(y[:, 0])
    assert len(compilations) == (
        0 if config in (norm.Config(dim=5, kind="none"), *dropout.Config.variants()) else 1
    )  # nothing to compile
    found = torch.stack(outputs, dim=1)
    torch.testing.assert_close(found[0], expected[0, 3:11], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found[1:], expected[1:, :8], rtol=1e-4, atol=1e-5)


def _lead(layer, x, memory, state):
    first = torch.tensor([0])
    ahead = layer.initial_state(1, memory=states.select(memory, first), like=x, capacity=12)
    for t in range(3):
        _, ahead = layer(x[:1, t : t + 1], ahead)
    return states.join([ahead, states.select(state, torch.tensor([1, 2]))])
