"""Soft alignment against the equations of Bahdanau 2015 and Luong 2015, written as loops."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from oracles import assert_all_close, assert_close, gradients, inputs, source
from recollect.core.contract import Memory
from recollect.layers import build

SCORES = ["dot", "scaled", "general", "additive"]
CELLS = ["rnn", "gru", "lstm"]


def score_of(layer: Any, query: Tensor, key: Tensor) -> Tensor:
    weight = getattr(layer.attend.score, "weight", None)
    return {
        "dot": lambda: query @ key,
        "scaled": lambda: query @ key / math.sqrt(len(query)),
        "general": lambda: query @ weight[0] @ key,
        "additive": lambda: weight[0] @ torch.tanh(query + key),
    }[layer.config.score]()


def cell_step(layer: Any, fed: Tensor, h: list[Tensor], c: list[Tensor]) -> None:
    """One step of the recurrent cell, from its textbook equations; h and c hold one vector a level."""
    kind = layer.config.cell
    for level in range(len(h)):
        W, U, b, d = layer.cell.weights(level)
        ins, outs = W @ fed + b, U @ h[level] + d
        if kind == "rnn":
            h[level] = torch.tanh(ins + outs)
        elif kind == "gru":
            (ir, iz, n_in), (hr, hz, n_out) = ins.chunk(3), outs.chunk(3)
            z = torch.sigmoid(iz + hz)
            h[level] = (1 - z) * torch.tanh(n_in + torch.sigmoid(ir + hr) * n_out) + z * h[level]
        else:
            i, f, g, o = (ins + outs).chunk(4)
            c[level] = torch.sigmoid(f) * c[level] + torch.sigmoid(i) * torch.tanh(g)
            h[level] = torch.sigmoid(o) * torch.tanh(c[level])
        fed = h[level]


def naive(layer: Any, x: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
    """Outputs (B T W) and alignments (B T S), row by row, step by step, place by place."""
    config, rows, alignments = layer.config, [], []
    for b in range(len(x)):
        values = memory.values[b][memory.valid[b]]
        length = len(values)
        keys = [layer.key.weight @ value for value in values]
        first = torch.tanh(layer.start.weight @ (sum(values) / length) + layer.start.bias)
        h = list(first.chunk(config.num_layers))
        c = [torch.zeros_like(part) for part in h]
        context = torch.zeros_like(values[0])
        outputs, weights = [], []

        def look_up(
            h: Tensor, keys: Any = keys, values: Tensor = values, length: int = length
        ) -> tuple[Tensor, Tensor]:
            query = layer.query.weight @ h
            scores = torch.stack([score_of(layer, query, key) for key in keys])
            shares = scores.exp() / scores.exp().sum()
            if config.alignment == "local":
                align = layer.attend.alignment
                centre = len(keys) * torch.sigmoid(torch.tanh(query @ align.weight[0]) @ align.vector[0, :, 0])
                distance = torch.arange(len(keys)) - centre
                bell = torch.exp(-(distance**2) / (2 * (config.window / 2) ** 2))
                shares = shares * bell * (distance.abs() <= config.window)
            elif config.alignment == "hard":
                best = torch.zeros_like(shares)
                best[shares.argmax()] = 1
                shares = best
            return sum(share * value for share, value in zip(shares, values, strict=True)), shares

        for t in range(x.shape[1]):
            if config.order == "align-first":
                context, shares = look_up(h[-1])
                cell_step(layer, torch.cat([x[b, t], context]), h, c)
            else:
                cell_step(layer, torch.cat([x[b, t], context]) if config.feed else x[b, t], h, c)
                context, shares = look_up(h[-1])
            outputs.append(torch.tanh(layer.mix.weight @ torch.cat([h[-1], context]) + layer.mix.bias))
            weights.append(torch.cat([shares, shares.new_zeros(memory.valid.shape[1] - length)]))
        rows.append(torch.stack(outputs))
        alignments.append(torch.stack(weights))
    return torch.stack(rows), torch.stack(alignments)


def check(chunks: list[int], **options: Any) -> None:
    layer = build("soft-align", dim=3, width=4, memory_dim=5, **options).double()
    x, memory = inputs(3, 5, 3), source(3, 6, 5, [6, 1, 4])
    state, parts, explained = layer.initial_state(3, memory=memory), [], []
    for part in x.split(chunks, dim=1):
        explained.append(layer.explain(state, part[:, 0])["source"][:, 0])
        y, state = layer(part, state)
        parts.append(y)
    y = torch.cat(parts, dim=1)
    expected, weights = naive(layer, x, memory)
    assert_close(y, expected, "outputs")
    at = [sum(chunks[:i]) for i in range(len(chunks))]
    assert_close(torch.stack(explained, dim=1), weights[:, at], "alignment")
    if options.get("alignment") != "hard":  # whose gradient is not that of its formula
        wrt = [x, memory.values, *layer.parameters()]
        assert_all_close(gradients([y], wrt), gradients([expected], wrt), "gradient")


@pytest.mark.parametrize("chunks", [[5], [1] * 5, [2, 3]], ids=str)
@pytest.mark.parametrize("score", SCORES)
def test_align_first_keeps_bahdanaus_equations(score: str, chunks: list[int]) -> None:
    check(chunks, order="align-first", score=score)


@pytest.mark.parametrize("chunks", [[5], [1] * 5, [2, 3]], ids=str)
@pytest.mark.parametrize("feed", [True, False])
@pytest.mark.parametrize("score", SCORES)
def test_cell_first_keeps_luongs_equations(score: str, feed: bool, chunks: list[int]) -> None:
    check(chunks, order="cell-first", score=score, feed=feed)


@pytest.mark.parametrize("order", ["align-first", "cell-first"])
@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("cell", CELLS)
def test_every_cell_can_align(cell: str, num_layers: int, order: str) -> None:
    check([2, 3], order=order, cell=cell, num_layers=num_layers)


@pytest.mark.parametrize("order", ["align-first", "cell-first"])
@pytest.mark.parametrize(("alignment", "window"), [("hard", None), ("local", 1), ("local", 3)])
def test_every_alignment_can_align(alignment: str, window: int | None, order: str) -> None:
    check([2, 3], order=order, alignment=alignment, window=window)


def test_queries_and_keys_may_be_of_another_width() -> None:
    check([5], align_dim=7)


def test_dropout_between_the_levels_of_the_cell_acts_in_training_only() -> None:
    layer = build("soft-align", dim=3, width=8, num_layers=2, dropout=0.5).double()
    plain = build("soft-align", dim=3, width=8, num_layers=2).double()
    plain.load_state_dict(layer.state_dict())
    x, memory = torch.randn(2, 5, 3).double(), source(2, 4, 3)
    expected, _ = plain(x, plain.initial_state(2, memory=memory))
    trained, _ = layer.train()(x, layer.initial_state(2, memory=memory))
    assert (trained - expected).abs().max() > 1e-3
    assert_close(layer.eval()(x, layer.initial_state(2, memory=memory))[0], expected)
