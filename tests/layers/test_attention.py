"""Attention against nn.MultiheadAttention, its formulas written out, and what is known of positions."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from oracles import assert_all_close, assert_close, gradients, inputs, randomise, source
from recollect.core import laws, ragged
from recollect.core import state as states
from recollect.core.contract import ContractError
from recollect.layers import attention, build, build_encoder, position
from recollect.layers.alignment import Places, build_alignment
from recollect.layers.position import rotate, sinusoids, slopes
from recollect.layers.score import build_score

Rule = Callable[[int, int, int], bool]  # row, query, key → may the query see the key


def naive(q: Tensor, k: Tensor, v: Tensor, score: Callable[..., Tensor], see: Rule) -> tuple[Tensor, Tensor]:
    """Σ softmax(score(q, K))·V by loops. q: B T H d, k and v: B S H d, score(q, k, head, t, s) → outputs, weights."""
    (batch, steps, heads, _), length = q.shape, k.shape[1]
    y, weights = torch.zeros_like(q), q.new_zeros(batch, heads, steps, length)
    for b in range(batch):
        for h in range(heads):
            for t in range(steps):
                seen = [s for s in range(length) if see(b, t, s)]
                scores = torch.stack([score(q[b, t, h], k[b, s, h], h, t, s) for s in seen])
                shares = scores.exp() / scores.exp().sum()
                for s, share in zip(seen, shares, strict=True):
                    weights[b, h, t, s] = share
                    y[b, t, h] += share * v[b, s, h]
    return y, weights


def scaled(q: Tensor, k: Tensor, *_: Any) -> Tensor:
    return q @ k / math.sqrt(len(q))


def causal(b: int, t: int, s: int) -> bool:
    return s <= t


def run(layer: Any, x: Tensor, chunks: list[int] | None = None, **start: Any) -> Tensor:
    state, outputs = layer.initial_state(len(x), **start), []
    for part in x.split(chunks or x.shape[1], dim=1):
        y, state = layer(part, state)
        outputs.append(y)
    return torch.cat(outputs, dim=1)


def final(layer: Any, x: Tensor) -> Any:
    return layer(x, layer.initial_state(len(x)))[1]


# Against torch.nn.MultiheadAttention


@pytest.mark.parametrize("form", ["chunk", "unroll"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_causal_attention_equals_torch(heads: int, bias: bool, form: str) -> None:
    oracle = nn.MultiheadAttention(8, heads, bias=bias, batch_first=True).double()
    randomise(oracle)
    layer = build("attention", dim=8, heads=heads, bias=bias).double()
    layer.load_torch(oracle)
    x = inputs(2, 6, 8)
    ahead = torch.ones(6, 6, dtype=torch.bool).triu(1)
    expected, weights = oracle(x, x, x, attn_mask=ahead, average_attn_weights=False)
    start = layer.initial_state(2)
    y, _ = (layer if form == "chunk" else layer.unroll)(x, start)
    assert_close(y, expected, "outputs")
    assert_all_close(gradients([y], [x]), gradients([expected], [x]), "gradient of x")
    found = layer.explain(final(layer, x[:, :-1]), x[:, -1])["weights"]
    assert_close(found, weights[:, :, -1], "weights of the last step")


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("lengths", [None, [6, 2, 4]])
def test_full_attention_equals_torch(lengths: list[int] | None, bias: bool) -> None:
    oracle = nn.MultiheadAttention(8, 2, bias=bias, batch_first=True).double()
    randomise(oracle)
    encoder = build_encoder("attention", dim=8, heads=2, bias=bias).double()
    encoder.heads.load_torch(oracle)
    x = inputs(3, 6, 8)
    padding = torch.arange(6) >= torch.tensor(lengths or [6, 6, 6])[:, None]
    expected, weights = oracle(x, x, x, key_padding_mask=padding, average_attn_weights=False)
    expected = expected.masked_fill(padding[..., None], 0)  # what torch leaves in the padding means nothing
    values = encoder(x, lengths).values
    assert_close(values, expected, "values")
    assert_all_close(gradients([values], [x]), gradients([expected], [x]), "gradient of x")
    assert_close(encoder.weights(x, ~padding), weights, "weights")


@pytest.mark.parametrize("bias", [True, False])
def test_cross_attention_equals_torch(bias: bool) -> None:
    oracle = nn.MultiheadAttention(8, 2, bias=bias, batch_first=True).double()
    randomise(oracle)
    layer = build("cross-attention", dim=8, heads=2, bias=bias).double()
    layer.heads.load_torch(oracle)
    x, memory = inputs(3, 4, 8), source(3, 5, 8, [5, 1, 3])
    expected, weights = oracle(
        x, memory.values, memory.values, key_padding_mask=~memory.valid, average_attn_weights=False
    )
    state = layer.initial_state(3, memory=memory)
    y, _ = layer(x, state)
    assert_close(y, expected, "outputs")
    assert_all_close(gradients([y], [x, memory.values]), gradients([expected], [x, memory.values]), "gradient")
    assert_close(layer.explain(state, x[:, 2])["source"], weights[:, :, 2], "weights")


def test_torch_weights_with_biases_are_refused_by_a_layer_without() -> None:
    module = nn.MultiheadAttention(8, 2, bias=True)
    randomise(module)
    with pytest.raises(ContractError):
        build("attention", dim=8, heads=2, bias=False).load_torch(module)


# Scores


@pytest.mark.parametrize("name", ["dot", "scaled", "general", "additive"])
def test_each_score_equals_its_formula(name: str) -> None:
    score = build_score(name, heads=2, head_dim=3).double()
    q, k = torch.randn(2, 2, 4, 3).double(), torch.randn(2, 2, 5, 3).double()
    found = score(q, k)
    assert found.shape == (2, 2, 4, 5)
    for b in range(2):
        for h in range(2):
            for t in range(4):
                for s in range(5):
                    u, w = q[b, h, t], k[b, h, s]
                    expected = {
                        "dot": lambda u, w, h: sum(u[i] * w[i] for i in range(3)),
                        "scaled": lambda u, w, h: sum(u[i] * w[i] for i in range(3)) / math.sqrt(3),
                        "general": lambda u, w, h: sum(
                            u[i] * score.weight[h, i, j] * w[j] for i in range(3) for j in range(3)
                        ),
                        "additive": lambda u, w, h: sum(score.weight[h, i] * torch.tanh(u[i] + w[i]) for i in range(3)),
                    }[name](u, w, h)
                    assert_close(found[b, h, t, s], expected, f"score of query {t} and key {s}")


@pytest.mark.parametrize("name", ["dot", "scaled", "general", "additive"])
def test_the_dot_product_that_stands_in_for_a_score_equals_it(name: str) -> None:
    score = build_score(name, heads=2, head_dim=3).double()
    q, k = torch.randn(2, 2, 4, 3).double(), torch.randn(2, 2, 5, 3).double()
    if name == "additive":
        assert not score.is_dot, "an additive score is no dot product"
        with pytest.raises(ContractError):
            score.as_dot(q)
        return
    stand_in = score.as_dot(q)
    query, scale = stand_in
    assert_close(scale * (query @ k.mT), score(q, k))


@pytest.mark.parametrize("form", ["chunk", "unroll"])
@pytest.mark.parametrize("name", ["dot", "scaled", "general", "additive"])
def test_causal_attention_with_each_score_equals_a_naive_loop(name: str, form: str) -> None:
    layer = build("attention", dim=6, heads=2, score=name, bias=True).double()
    weight = getattr(layer.attend.score, "weight", None)
    score = {
        "dot": lambda q, k, *_: q @ k,
        "scaled": scaled,
        "general": lambda q, k, h, *_: q @ weight[h] @ k,
        "additive": lambda q, k, h, *_: torch.tanh(q + k) @ weight[h],
    }[name]
    x = inputs(2, 5, 6)
    heads = layer.heads
    y, weights = naive(
        *(project(x).unflatten(-1, (2, 3)) for project in (heads.q, heads.k, heads.v)), score=score, see=causal
    )
    expected = heads.out(y.flatten(-2))
    found, _ = (layer if form == "chunk" else layer.unroll)(x, layer.initial_state(2))
    assert_close(found, expected)
    wrt = [x, *layer.parameters()]
    assert_all_close(gradients([found], wrt), gradients([expected], wrt), "gradient")
    explained = layer.explain(final(layer, x[:, :-1]), x[:, -1])["weights"]
    assert_close(explained, weights[:, :, -1], "explained weights")
    assert_close(explained.sum(dim=-1), torch.ones(2, 2, dtype=torch.float64), "sum of explained weights")


# Alignments


def places(batch: int, steps: int, length: int) -> Places:
    """Random visibility, at least one key for each query, and positions as in a source."""
    visible = torch.rand(batch, steps, length) < 0.6
    visible[:, :, 0] = True
    return Places(visible, torch.arange(steps).expand(batch, -1) + 1, torch.arange(length).expand(batch, -1))


def softmax_of(scores: Tensor, visible: Tensor) -> Tensor:
    out = torch.zeros_like(scores)
    total = sum(math.exp(s) for s, seen in zip(scores.tolist(), visible.tolist(), strict=True) if seen)
    for i, seen in enumerate(visible.tolist()):
        if seen:
            out[i] = math.exp(scores[i]) / total
    return out


@pytest.mark.parametrize("name", ["softmax", "hard", "local", "local, predicted"])
def test_each_alignment_equals_a_naive_loop(name: str) -> None:
    predict = name.endswith("predicted")
    align = build_alignment(name.split(",")[0], heads=2, head_dim=3, window=2, predict=predict).double()
    scores, q, where = torch.randn(3, 2, 4, 6).double(), torch.randn(3, 2, 4, 3).double(), places(3, 4, 6)
    with torch.no_grad():
        found = align(scores, q, where)
    for b in range(3):
        for h in range(2):
            for t in range(4):
                visible = where.visible[b, t]
                shares = softmax_of(scores[b, h, t], visible)
                expected = torch.zeros_like(shares)
                if name == "softmax":
                    expected = shares
                elif name == "hard":
                    expected[max(range(6), key=lambda s: shares[s])] = 1.0
                else:
                    centre = float(where.query[b, t])
                    if predict:
                        hidden = torch.tanh(q[b, h, t] @ align.weight[h]) @ align.vector[h, :, 0]
                        centre = int(visible.sum()) / (1 + math.exp(-hidden.item()))
                    for s in range(6):
                        distance = float(where.key[b, s]) - centre
                        if abs(distance) <= 2:
                            expected[s] = shares[s] * math.exp(-(distance**2) / (2 * 1.0**2))  # σ = window / 2
                assert_close(found[b, h, t], expected, f"weights of query {t}")


def test_the_gradient_of_hard_alignment_is_that_of_the_softmax() -> None:
    hard, soft = (build_alignment(name, 1, 3, 1) for name in ("hard", "softmax"))
    scores, q, where = inputs(2, 1, 3, 5), inputs(2, 1, 3, 3), places(2, 3, 5)
    found = hard(scores, q, where)
    assert_close(found.detach().sort(dim=-1).values[..., -1], torch.ones(2, 1, 3, dtype=torch.float64))
    assert_all_close(gradients([found], [scores]), gradients([soft(scores, q, where)], [scores]), "gradient")


# Without parameters


def test_full_attention_without_parameters_is_softmax_of_x_xt_times_x() -> None:
    encoder = build_encoder("attention", dim=4, project=False, score="dot").double()
    assert not list(encoder.parameters())
    x = torch.randn(2, 5, 4).double()
    assert_close(encoder(x).values, torch.softmax(x @ x.mT, dim=-1) @ x)


@pytest.mark.parametrize("chunks", [[5], [1] * 5, [2, 3]])
def test_causal_attention_without_parameters_is_masked_softmax_of_x_xt_times_x(chunks: list[int]) -> None:
    layer = build("attention", dim=4, project=False, score="dot").double()
    x = torch.randn(2, 5, 4).double()
    scores = (x @ x.mT).masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), -torch.inf)
    assert_close(run(layer, x, chunks), torch.softmax(scores, dim=-1) @ x)


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize(
    "options",
    [{}, {"heads": 2}, {"positions": "rotary"}, {"positions": "sinusoid"}, {"window": 2}, {"window": 9}],
    ids=str,
)
def test_the_state_of_parameter_free_attention_shares_no_storage_with_x(options: dict[str, Any], steps: int) -> None:
    layer = build("attention", dim=4, project=False, **options).double()
    x = torch.randn(2, steps, 4).double()
    state = final(layer, x)
    kept = [tensor.clone() for tensor in states.leaves(state)]
    x.fill_(1e9)
    for (name, tensor), before in zip(states.named(state), kept, strict=True):
        assert torch.equal(tensor, before), f"{name} changed with x"
    addresses = {tensor.untyped_storage().data_ptr() for tensor in (x, state.keys, state.values)}
    assert len(addresses) == 3


def test_the_state_of_parameter_free_cross_attention_shares_no_storage_with_its_source() -> None:
    layer = build("cross-attention", dim=4, project=False).double()
    memory = source(2, 3, 4)
    state = layer.initial_state(2, memory=memory)
    addresses = {tensor.untyped_storage().data_ptr() for tensor in (memory.values, state.keys, state.values)}
    assert len(addresses) == 3


# Windows and shared heads


@pytest.mark.parametrize("chunks", [[10], [1] * 10, [2, 5, 3], [4, 1, 1, 4]])
@pytest.mark.parametrize("window", [1, 3, 10, 12])
def test_a_sliding_window_equals_a_dense_band_mask(window: int, chunks: list[int]) -> None:
    layer = build("attention", dim=6, heads=2, window=window).double()
    x = inputs(2, 10, 6)
    q, k, v = (p(x).unflatten(-1, (2, 3)).transpose(1, 2) for p in (layer.heads.q, layer.heads.k, layer.heads.v))
    t = torch.arange(10)
    band = (t <= t[:, None]) & (t > t[:, None] - window)
    scores = (q @ k.mT / math.sqrt(3)).masked_fill(~band, -torch.inf)
    expected = layer.heads.out((scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(-2))
    found = run(layer, x, chunks)
    assert_close(found, expected)
    assert_all_close(gradients([found], [x]), gradients([expected], [x]), "gradient of x")


@pytest.mark.parametrize("window", [1, 2, 4])
def test_the_window_of_an_encoder_equals_a_dense_band_mask(window: int) -> None:
    encoder = build_encoder("attention", dim=6, heads=2, window=window).double()
    x = torch.randn(2, 7, 6).double()
    q, k, v = (p(x).unflatten(-1, (2, 3)).transpose(1, 2) for p in (encoder.heads.q, encoder.heads.k, encoder.heads.v))
    t = torch.arange(7)
    scores = (q @ k.mT / math.sqrt(3)).masked_fill((t - t[:, None]).abs() >= window, -torch.inf)
    expected = encoder.heads.out((scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(-2))
    assert_close(encoder(x).values, expected)


@pytest.mark.parametrize("score", ["scaled", "additive"])
@pytest.mark.parametrize("kv_heads", [1, 2])
@pytest.mark.parametrize("chunks", [[6], [2, 1, 3]])
def test_grouped_heads_equal_full_heads_with_repeated_weights(chunks: list[int], kv_heads: int, score: str) -> None:
    grouped = build("attention", dim=8, heads=4, kv_heads=kv_heads, score=score, bias=True).double()
    full = build("attention", dim=8, heads=4, score=score, bias=True).double()
    weights = grouped.state_dict()
    for name in ("heads.k.weight", "heads.k.bias", "heads.v.weight", "heads.v.bias"):
        by_head = weights[name].unflatten(0, (kv_heads, 2))
        weights[name] = by_head.repeat_interleave(4 // kv_heads, dim=0).flatten(0, 1)
    full.load_state_dict(weights)
    x = torch.randn(2, 6, 8).double()
    assert_close(run(grouped, x, chunks), run(full, x, chunks))
    assert final(grouped, x).keys.shape == (2, 6, kv_heads, 2)


# Positions


def test_rotary_scores_depend_only_on_position_differences() -> None:
    q, k = torch.randn(1, 1, 2, 6).double(), torch.randn(1, 1, 2, 6).double()

    def score(p: int, s: int) -> Tensor:
        turned, other = rotate(q, torch.tensor([[p]])), rotate(k, torch.tensor([[s]]))
        return (turned * other).sum(dim=-1)

    for difference in (0, 1, 5, 300):
        for place in (1, 17, 4000):
            assert_close(score(place + difference, place), score(difference, 0), f"{difference} from {place}")
    assert (score(3, 0) - score(2, 0)).abs().min() > 1e-3, "another difference gives another score"


def test_rotary_turns_each_pair_as_a_complex_number() -> None:
    x, positions = torch.randn(2, 5, 3, 8).double(), torch.randint(0, 100, (2, 5))
    pairs = torch.view_as_complex(x.clone().unflatten(-1, (4, 2)))
    for i in range(4):
        angle = positions.double() / 10_000 ** (2 * i / 8)
        pairs[..., i] *= torch.polar(torch.ones_like(angle), angle)[..., None]
    assert_close(rotate(x, positions), torch.view_as_real(pairs).flatten(-2))


@pytest.mark.parametrize(
    ("positions", "moves"), [("rotary", False), ("alibi", False), ("none", False), ("sinusoid", True)]
)
@pytest.mark.parametrize("chunks", [[16], [3, 5, 8], [1] * 16])
def test_relative_positions_repeat_themselves_where_the_text_does(
    positions: str, moves: bool, chunks: list[int]
) -> None:
    layer = build("attention", dim=8, heads=2, window=4, positions=positions).double()
    once = torch.randn(2, 8, 8).double()
    y = run(layer, torch.cat([once, once], dim=1), chunks)
    first, second = y[:, 3:8], y[:, 11:16]  # from the fourth step on the window is full
    if moves:
        assert (first - second).abs().max() > 1e-3, "absolute positions must show"
    else:
        assert_close(second, first)


def test_rotary_attention_equals_a_naive_loop_with_turned_queries_and_keys() -> None:
    layer = build("attention", dim=8, heads=2, positions="rotary").double()
    x = torch.randn(2, 5, 8).double()

    def turn(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        for t in range(5):
            for i in range(2):
                angle = t / 10_000 ** (2 * i / 4)
                a, b = x[:, t, :, 2 * i], x[:, t, :, 2 * i + 1]
                out[:, t, :, 2 * i] = a * math.cos(angle) - b * math.sin(angle)
                out[:, t, :, 2 * i + 1] = a * math.sin(angle) + b * math.cos(angle)
        return out

    q, k, v = (p(x).unflatten(-1, (2, 4)) for p in (layer.heads.q, layer.heads.k, layer.heads.v))
    y, _ = naive(turn(q), turn(k), v, scaled, causal)
    assert_close(run(layer, x), layer.heads.out(y.flatten(-2)))


def test_the_alibi_slopes_are_those_of_the_paper() -> None:
    eight, sixteen = [2.0**-i for i in range(1, 9)], [2 ** (-i / 2) for i in range(1, 17)]
    between = [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]  # every other one of sixteen heads, after those of eight
    for expected in (eight, sixteen, eight + between):
        assert_close(slopes(len(expected)), torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("chunks", [[6], [1] * 6, [4, 2]])
def test_alibi_lowers_each_score_by_slope_times_distance(chunks: list[int]) -> None:
    layer = build("attention", dim=8, heads=4, positions="alibi").double()
    x = torch.randn(2, 6, 8).double()
    slope = [2 ** (-2 * (h + 1)) for h in range(4)]

    def score(q: Tensor, k: Tensor, h: int, t: int, s: int) -> Tensor:
        return scaled(q, k) - slope[h] * (t - s)

    q, k, v = (p(x).unflatten(-1, (4, 2)) for p in (layer.heads.q, layer.heads.k, layer.heads.v))
    y, weights = naive(q, k, v, score, causal)
    assert_close(run(layer, x, chunks), layer.heads.out(y.flatten(-2)))
    explained = layer.explain(final(layer, x[:, :-1]), x[:, -1])["weights"]
    assert_close(explained, weights[:, :, -1])


def test_alibi_in_an_encoder_counts_distance_both_ways() -> None:
    encoder = build_encoder("attention", dim=8, heads=4, positions="alibi").double()
    x = torch.randn(2, 6, 8).double()
    q, k, v = (p(x).unflatten(-1, (4, 2)) for p in (encoder.heads.q, encoder.heads.k, encoder.heads.v))
    y, _ = naive(q, k, v, lambda q, k, h, t, s: scaled(q, k) - 2 ** (-2 * (h + 1)) * abs(t - s), lambda b, t, s: True)
    assert_close(encoder(x).values, encoder.heads.out(y.flatten(-2)))


@pytest.mark.parametrize("dim", [1, 4, 7])
def test_sinusoids_are_those_of_the_formula(dim: int) -> None:
    found = sinusoids(torch.arange(50), dim)
    expected = torch.tensor(
        [
            [(math.cos if j % 2 else math.sin)(p / 10_000 ** (2 * (j // 2) / dim)) for j in range(dim)]
            for p in range(50)
        ],
        dtype=torch.float64,
    )
    assert_close(found, expected)


def test_the_position_layer_adds_its_vector_to_each_input() -> None:
    x = torch.randn(2, 6, 4).double()
    layer = build("position", dim=4).double()
    assert_close(run(layer, x, [2, 1, 3]), x + sinusoids(torch.arange(6), 4))
    learned = position.Config(dim=4, kind="learned", max_positions=6).build().double()
    assert_close(run(learned, x, [2, 1, 3]), x + learned.added.table)


@pytest.mark.parametrize("kind", ["sinusoid", "learned"])
def test_positions_added_inside_attention_are_those_added_before_it(kind: str) -> None:
    inside = build("attention", dim=4, positions=kind, max_positions=8).double()
    plain = build("attention", dim=4).double()
    before = position.Config(dim=4, kind=kind, max_positions=8).build().double()
    plain.heads.load_state_dict(inside.heads.state_dict())
    if kind == "learned":
        before.added.load_state_dict(inside.added.state_dict())
    x = torch.randn(2, 6, 4).double()
    assert_close(run(inside, x, [2, 1, 3]), run(plain, run(before, x)))


@pytest.mark.parametrize("chunks", [[9], [8, 1], [4, 5], [1] * 9])
@pytest.mark.parametrize(
    "config",
    [
        attention.Config(dim=4, positions="learned", max_positions=8),
        position.Config(dim=4, kind="learned", max_positions=8),
    ],
    ids=["attention", "position"],
)
def test_learned_positions_end_with_a_clear_line(config: Any, chunks: list[int]) -> None:
    layer = config.build().double()
    x = torch.randn(2, 9, 4).double()
    run(layer, x[:, :8])  # the last position is still there
    with pytest.raises(
        ContractError, match=r"expected at most 8 positions \(max_positions\), found 9; learned"
    ) as caught:
        run(layer, x, chunks)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["attention", "transformer"])
def test_learned_positions_of_an_encoder_end_with_a_clear_line(name: str) -> None:
    encoder = build_encoder(name, dim=4, positions="learned", max_positions=8).double()
    x = torch.randn(2, 9, 4).double()
    encoder(x[:, :8])
    with pytest.raises(ContractError, match=r"expected at most 8 positions \(max_positions\), found 9; learned"):
        encoder(x)


# The fused kernel and the buffer


class Spy(TorchFunctionMode):
    """Notes the mask and the flag of each call of the fused kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[bool, bool]] = []  # masked, is_causal

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is scaled_dot_product_attention:
            mask = args[3] if len(args) > 3 else kwargs.get("attn_mask")
            self.calls.append((mask is not None, bool(kwargs.get("is_causal", False))))
        return func(*args, **kwargs)


@pytest.mark.parametrize(
    "options",
    [{}, {"heads": 2, "kv_heads": 1}, {"positions": "rotary"}, {"score": "general"}, {"window": 5}, {"project": False}],
    ids=str,
)
def test_an_empty_cache_needs_no_mask_and_a_used_one_does(options: dict[str, Any]) -> None:
    layer = build("attention", dim=4, **options).double()
    x = torch.randn(2, 5, 4).double()
    with Spy() as spy:
        _, state = layer(x, layer.initial_state(2))
    assert spy.calls == [(False, True)]
    with Spy() as spy:
        layer(x, state)
        layer(x[:, :1], state)
    assert spy.calls == [(True, False), (True, False)]


@pytest.mark.parametrize("options", [{"positions": "alibi"}, {"window": 3}, {"masked": False}], ids=str)
def test_what_is_not_plainly_causal_is_masked_from_the_start(options: dict[str, Any]) -> None:
    layer = build("attention", dim=4, **options).double()
    with Spy() as spy:
        layer(torch.randn(2, 5, 4).double(), layer.initial_state(2))
    assert spy.calls == [(True, False)]


@pytest.mark.parametrize("score", ["scaled", "additive"])
@pytest.mark.parametrize("chunks", [[5, 1, 1, 1], [1] * 8, [8], [2, 3, 3]])
@pytest.mark.parametrize("positions", ["none", "rotary", "alibi", "sinusoid"])
def test_the_buffered_form_gives_equal_outputs(positions: str, chunks: list[int], score: str) -> None:
    layer = build("attention", dim=8, heads=2, positions=positions, score=score).double().eval()
    x = torch.randn(2, 8, 8).double()
    with torch.no_grad():
        assert_close(run(layer, x, chunks, capacity=8), run(layer, x))
        assert_close(run(layer, x, chunks, capacity=20), run(layer, x))


@pytest.mark.parametrize("capacity", [4, 10, 30])
@pytest.mark.parametrize("chunks", [[10], [1] * 10, [6, 1, 1, 1, 1], [4, 2, 4], [3, 7]])
def test_the_buffered_form_of_a_window_gives_equal_outputs(chunks: list[int], capacity: int) -> None:
    layer = build("attention", dim=8, heads=2, window=4).double().eval()
    x = torch.randn(2, 10, 8).double()
    with torch.no_grad():
        assert_close(run(layer, x, chunks, capacity=capacity), run(layer, x))


def test_rows_at_different_places_share_a_buffer() -> None:
    layer = build("attention", dim=4, positions="rotary").double().eval()
    x = torch.randn(2, 6, 4).double()
    with torch.no_grad():
        parts = [layer(x[r : r + 1, :seen], layer.initial_state(1, capacity=8))[1] for r, seen in ((0, 2), (1, 4))]
        y, _ = layer(x[:, 4:], states.join(parts))
        for r, seen in ((0, 2), (1, 4)):
            alone = torch.cat([x[r : r + 1, :seen], x[r : r + 1, 4:]], dim=1)
            assert_close(y[r], run(layer, alone)[0, seen:], f"row {r}")


@pytest.mark.parametrize("capacity", [None, 8])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"positions": "rotary"},
        {"positions": "learned"},
        {"score": "general"},
        {"project": False},
        {"masked": False},
    ],
    ids=str,
)
def test_a_step_of_rows_at_different_places_equals_its_definition(
    options: dict[str, Any], capacity: int | None
) -> None:
    layer = build("attention", dim=4, heads=2, **options).double().eval()
    x = torch.randn(3, 6, 4).double()
    with torch.no_grad():
        parts = [layer.initial_state(1, capacity=capacity)]  # a row that has seen nothing
        parts += [
            layer(x[r : r + 1, :seen], layer.initial_state(1, capacity=capacity))[1] for r, seen in ((1, 2), (2, 4))
        ]
        state = states.join(parts)
        expected, after = layer.unroll(x[:, 5:], states.map(Tensor.clone, state))
        y, found = layer(x[:, 5:], state)
    assert_close(y, expected)
    assert type(found) is type(after)
    assert_all_close(found, after, "state")


@pytest.mark.parametrize("options", [{}, {"positions": "rotary"}, {"kv_heads": 1}, {"project": False}], ids=str)
def test_a_step_of_level_rows_reads_no_slot_beyond_its_own(options: dict[str, Any]) -> None:
    layer = build("attention", dim=4, heads=2, **options).double().eval()
    x = torch.randn(3, 6, 4).double()
    with torch.no_grad():
        _, state = layer(x[:, :5], layer.initial_state(3, capacity=9))
        expected, after = layer.unroll(x[:, 5:], states.map(Tensor.clone, state))
        for slots in state[:2]:
            assert slots.transpose(1, 2).is_contiguous()
            slots[:, 6:] = math.nan
        y, found = layer(x[:, 5:], state)
    assert_close(y, expected)
    assert_all_close([part[:, :6] for part in found[:2]], [part[:, :6] for part in after[:2]], "state")
    assert torch.equal(found.clock, after.clock)


def test_a_buffer_made_without_gradients_may_be_used_with_them() -> None:
    layer = build("attention", dim=8, heads=2).double()
    with torch.no_grad():
        state = layer.initial_state(2, capacity=4)
    y, _ = layer(torch.randn(2, 1, 8).double(), state)
    y.sum().backward()
    assert layer.heads.v.weight.grad is not None


@pytest.mark.parametrize("capacity", [None, 4])
def test_a_batch_of_no_rows_steps_to_nothing(capacity: int | None) -> None:
    layer = build("attention", dim=8, heads=2)
    y, _ = layer(torch.randn(0, 1, 8), layer.initial_state(0, capacity=capacity))
    assert y.shape == (0, 1, 8)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_a_traced_step_does_not_remember_its_slot() -> None:
    layer = build("attention", dim=8, heads=2).double().eval().requires_grad_(False)
    x = torch.randn(2, 5, 8).double()
    with torch.no_grad():
        (_, third), (_, fourth) = (layer(x[:, :n], layer.initial_state(2, capacity=6)) for n in (3, 4))
        clones = [states.map(Tensor.clone, state) for state in (third, fourth)]
        traced = torch.jit.trace(
            lambda x, *s: layer(x, attention.Buffer(*s))[0], (x[:, 3:4], *clones[0]), check_trace=False
        )
        assert_close(traced(x[:, 4:], *clones[1]), layer(x[:, 4:], fourth)[0])


def test_rows_of_unequal_length_leave_a_buffer_as_it_lies() -> None:
    layer = build("attention", dim=8, heads=2).eval()
    with torch.no_grad():
        _, state = ragged.run(layer, torch.randn(2, 4, 8), torch.tensor([4, 2]), layer.initial_state(2, capacity=6))
    assert all(slots.transpose(1, 2).is_contiguous() for slots in state[:2])


@pytest.mark.parametrize("window", [None, 9])
@pytest.mark.parametrize("chunks", [[7], [6, 1], [4, 3], [1] * 7])
def test_a_full_buffer_says_so(chunks: list[int], window: int | None) -> None:
    layer = build("attention", dim=4, window=window).double().eval()
    x = torch.randn(2, 7, 4).double()
    with torch.no_grad():
        run(layer, x[:, :6], capacity=6)
        with pytest.raises(ContractError, match=r"expected at most 6 steps \(capacity\), found 7") as caught:
            run(layer, x, chunks, capacity=6)
    assert "\n" not in str(caught.value)


# Masks, dropout, explanations


def test_attention_without_its_mask_is_caught_by_the_law_of_cause() -> None:
    layer = build("attention", dim=4, masked=False).double().eval()
    x = torch.randn(2, 6, 4).double()
    with pytest.raises(laws.LawBroken, match="Cause law broken by Attention"):
        laws.cause(layer, x, 3)
    assert laws.cause(build("attention", dim=4).double().eval(), x, 3) <= 1e-10


def test_attention_without_its_mask_sees_everything_in_the_chunk() -> None:
    layer = build("attention", dim=4, heads=2, masked=False).double()
    x = torch.randn(2, 6, 4).double()
    q, k, v = (p(x).unflatten(-1, (2, 2)) for p in (layer.heads.q, layer.heads.k, layer.heads.v))
    y, _ = naive(q, k, v, scaled, lambda b, t, s: True)
    assert_close(run(layer, x), layer.heads.out(y.flatten(-2)))


@pytest.mark.parametrize("score", ["scaled", "additive"])
@pytest.mark.parametrize("steps", [1, 6])
def test_attention_dropout_acts_in_training_only(steps: int, score: str) -> None:
    layer = build("attention", dim=8, heads=4, dropout=0.5, score=score).double()
    plain = build("attention", dim=8, heads=4, score=score).double()
    plain.load_state_dict(layer.state_dict())
    x = torch.randn(4, steps, 8).double()
    assert (run(layer.train(), x) - run(plain, x)).abs().max() > 1e-3
    assert_close(run(layer.eval(), x), run(plain, x))


@pytest.mark.parametrize("score", ["scaled", "additive"])
def test_attention_dropout_drops_weights_and_scales_the_rest(score: str) -> None:
    layer = build("attention", dim=8, heads=8, dropout=0.5, score=score, project=False).double().train()
    x = torch.randn(16, 1, 8).double()
    ratio = run(layer, x) / x  # one key: its weight is 1, so each head gives x or nothing, doubled
    assert set(ratio.round(decimals=6).unique().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize(
    "options", [{}, {"positions": "rotary"}, {"positions": "alibi"}, {"window": 3}, {"kv_heads": 1}], ids=str
)
def test_explained_weights_sum_to_one_and_make_the_output(options: dict[str, Any]) -> None:
    layer = build("attention", dim=8, heads=2, **options).double()
    x = torch.randn(3, 7, 8).double()
    state = final(layer, x[:, :-1])
    weights = layer.explain(state, x[:, -1])["weights"]
    y, after = layer(x[:, -1:], state)
    assert weights.shape == (3, 2, after.keys.shape[1])
    assert (weights >= 0).all()
    assert_close(weights.sum(dim=-1), torch.ones(3, 2, dtype=torch.float64))
    values = after.values.repeat_interleave(2 // after.values.shape[2], dim=2)
    mixed = torch.stack([sum(weights[b, :, n, None] * values[b, n] for n in range(values.shape[1])) for b in range(3)])
    assert_close(layer.heads.out(mixed.flatten(-2)), y[:, 0])


def test_the_growing_form_is_the_default() -> None:
    layer = build("attention", dim=4)
    assert isinstance(layer.initial_state(2), attention.State)
    assert isinstance(layer.initial_state(2, capacity=3), attention.Buffer)


@pytest.mark.parametrize("bias", [True, False])
def test_one_product_gives_what_three_give(bias: bool) -> None:
    layer = build("attention", dim=12, heads=6, kv_heads=2, bias=bias).double()
    randomise(layer)
    x = torch.randn(2, 5, 12, dtype=torch.float64, requires_grad=True)
    three = layer.heads.query(x), layer.heads.key(x), layer.heads.value(x)
    one = layer.heads.project_joined(x)
    wanted = [torch.randn_like(part) for part in three]
    tensors = [x, *(p for name, p in layer.heads.named_parameters() if not name.startswith("out"))]
    for a, b in zip(one, three, strict=True):
        assert_close(a, b)
    for a, b in zip(
        torch.autograd.grad(one, tensors, wanted), torch.autograd.grad(three, tensors, wanted), strict=True
    ):
        assert_close(a, b)


def test_the_state_shares_no_storage_where_one_product_gave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, where queries, keys and values are parts of one tensor."""
    for places in ("none", "rotary"):
        layer = build("attention", dim=8, heads=2, positions=places).double()
        expected = final(layer, x := torch.randn(3, 5, 8, dtype=torch.float64))
        with monkeypatch.context() as patch:
            patch.setattr(layer.heads, "project_all", layer.heads.project_joined)
            state = final(layer, x)
        for tensor, other in zip(states.leaves(state), states.leaves(expected), strict=True):
            assert_close(tensor.double(), other.double())
            assert tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
