"""Matrix memories against the plain loops of their papers, and under all laws at the ends of their dials."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from oracles import assert_all_close, assert_close, gradients, inputs, randomise, refused
from recollect.core import laws, ragged
from recollect.kernels import matrix as chunks
from recollect.layers import build, matrix

STEPS = 150  # more than two chunks
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "retention": ("retention", {}),
    "retention without places, signed": ("retention", {"rotary": False, "signed": True}),
    "gla": ("gla", {"rank": 3}),
    "gla, signed": ("gla", {"rank": None, "signed": True}),
    "mamba2": ("mamba2", {}),
    "mamba2, without its shortcut, a norm for each head": ("mamba2", {"skip": False, "norm_last": False}),
    "mamba2, signed, keys of its own": ("mamba2", {"signed": True, "shared": False, "value_dim": 2}),
    "delta": ("delta", {}),
    "delta, reflecting": ("delta", {"beta": 2.0, "feature": "identity", "head_dim": 2}),
    "delta, whole": ("delta", {"beta": None}),
    "gated-delta": ("gated-delta", {}),
    "gated-delta, reflecting and signed": ("gated-delta", {"beta": 2.0, "signed": True}),
    "delta with a rate a channel": ("matrix", {"forget": "channel", "write": "delta", "unit": True, "beta": 1.0}),
    "normalised and fading": (
        "matrix",
        {"forget": "step", "feature": "elu", "normalise": True, "bias": True, "skip": True},
    ),
}
NAMES = ("retention", "gla", "mamba2", "delta", "gated-delta")


def make(name: str, **options: Any) -> Any:
    layer = build(name, **{"dim": 8, "heads": 2} | options).double()
    randomise(layer)
    return layer.eval()


def by_head(layer: Any, projection: Any, x: Tensor, heads: int) -> Tensor:
    return projection(x).unflatten(-1, (heads, -1))


def silu(x: Tensor) -> Tensor:
    return x / (1 + (-x).exp())


def turn(x: Tensor, place: int) -> Tensor:
    """One vector turned by its place, as complex numbers."""
    rates = 10_000.0 ** (-torch.arange(0, len(x), 2, dtype=torch.float64) / len(x))
    turned = torch.view_as_complex(x.unflatten(0, (-1, 2)).contiguous()) * torch.exp(1j * place * rates)
    return torch.view_as_real(turned).flatten()


def loop(layer: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """The paper's recurrence, one row, one head, one step after the other: outputs, and the last matrix of each."""
    c, rows, finals = layer.config, [], []
    for row in x:
        outputs = []
        for h in range(c.heads):
            at = 0 if c.shared else h
            S = x.new_zeros(c.key_size, c.value_size)
            total, read = x.new_zeros(c.key_size), []
            for t, now in enumerate(row):
                q, k = (by_head(layer, p, now, 1 if c.shared else c.heads)[at] for p in (layer.q, layer.k))
                v = by_head(layer, layer.v, now, c.heads)[h]
                if c.feature == "silu":
                    q, k = silu(q), silu(k)
                elif c.feature == "elu":
                    q, k = (torch.where(part > 0, part + 1, part.exp()) for part in (q, k))
                if c.unit:
                    q, k = q / (q @ q).sqrt(), k / (k @ k).sqrt()
                if c.rotary:
                    q, k = turn(q, t), turn(k, t)
                beta = torch.ones(())
                if c.beta is not None:
                    beta = c.beta / (1 + (-(layer.strength.weight[h] @ now + layer.strength_bias[h])).exp())
                decay = x.new_ones(1)
                if c.forget == "fixed":
                    decay = x.new_tensor([1 - 2 ** (-5 - h)])
                elif c.forget == "step":
                    step = (1 + (layer.rate.weight[h] @ now + layer.rate_bias[h]).exp()).log()
                    decay = (-layer.log_rate[h].exp() * step).exp()[None]
                    beta = step if c.tied else beta
                elif c.forget == "channel":
                    low = now if layer.low is None else layer.low.weight @ now
                    rate = (layer.rate.weight @ low + layer.rate_bias).unflatten(0, (c.heads, -1))[h]
                    decay = torch.sigmoid(rate) ** (1 / 16)
                if c.signed:
                    decay = 2 * decay - 1
                size = c.key_size
                if c.write == "delta":  # S_t = (I − β k kᵀ) Λ S_{t−1} + β k vᵀ
                    onward = torch.eye(size, dtype=x.dtype) - beta * torch.outer(k, k)
                    S = onward @ torch.diag(decay.expand(size)) @ S + beta * torch.outer(k, v)
                else:  # S_t = Λ S_{t−1} + β k vᵀ
                    S = torch.diag(decay.expand(size)) @ S + beta * torch.outer(k, v)
                total = decay * total + k * beta
                y = q @ S
                if c.normalise:
                    y = y / (q @ total)
                if c.skip:
                    y = y + layer.skip[h] * v
                if c.out_norm and not c.norm_last:
                    y = y / (y.square().mean() + 1e-6).sqrt() * layer.norm_weight[h]
                read.append(y)
            outputs.append(torch.stack(read))
            finals.append(torch.cat([S, total[:, None]], dim=1) if c.normalise else S)
        rows.append(torch.cat(outputs, dim=-1))
    y = torch.stack(rows)
    y = silu(layer.gate(x)) * y if c.out_gate else y
    if c.out_norm and c.norm_last:
        y = y / (y.square().mean(dim=-1, keepdim=True) + 1e-6).sqrt() * layer.norm_weight.flatten()
    return layer.out(y), torch.stack(finals).unflatten(0, (len(x), c.heads))


@pytest.mark.parametrize("options", OPTIONS)
def test_a_matrix_memory_equals_the_recurrence_of_its_paper(options: str) -> None:
    name, settings = OPTIONS[options]
    layer = make(name, **settings)
    x = inputs(2, 20, 8)
    expected, final = loop(layer, x)
    wrt = [x, *layer.parameters()]
    wanted = gradients([expected, final], wrt)
    for pieces in ([20], [1] * 20, [3, 16, 1]):
        state, parts = layer.initial_state(2), []
        for part in x.split(pieces, dim=1):
            y, state = layer(part, state)
            parts.append(y)
        y = torch.cat(parts, dim=1)
        assert y.abs().max() > 1e-2
        assert_close(y, expected, "outputs")
        assert_close(state.sums, final, "matrix")
        largest = max(float(gradient.abs().max()) for gradient in wanted)
        found = gradients([y, state.sums], wrt)
        assert_all_close([g / largest for g in found], [g / largest for g in wanted], "gradient")


@pytest.mark.parametrize("options", OPTIONS)
def test_many_chunks_equal_the_definition(options: str) -> None:
    name, settings = OPTIONS[options]
    layer = make(name, **settings)
    x = torch.randn(2, STEPS, 8, dtype=torch.float64)
    laws.chunk(layer, x, [STEPS])
    laws.chunk(layer, x[:, 5:], [65, 1, STEPS - 71], warm=x[:, :5])
    with torch.no_grad():
        laws.chunk_values(layer.float(), x.float(), [STEPS])


def turn_dials(layer: Any, forget: float | None, strength: float | None) -> None:
    """Biases that put decays and strengths at an end of their range, or halfway between (0)."""
    with torch.no_grad():
        if forget is not None:
            layer.rate_bias.copy_(forget + torch.randn_like(layer.rate_bias))
            layer.rate.weight.mul_(3)
        if strength is not None:
            layer.strength_bias.fill_(strength)


ENDS: list[Any] = [
    *(("mamba2", {"signed": signed}, forget, None) for signed in (False, True) for forget in (-30.0, 0.0, 40.0, 2e3)),
    *(("gla", {"signed": signed}, forget, None) for signed in (False, True) for forget in (-3e4, -40.0, -11.0, 40.0)),
    *(("delta", {"beta": beta}, None, strength) for beta in (1.0, 2.0) for strength in (-40.0, 0.0, 40.0)),
    *(
        ("gated-delta", {"beta": 2.0, "signed": signed}, forget, strength)
        for signed in (False, True)
        for forget, strength in ((-30.0, 40.0), (0.0, -40.0), (40.0, 40.0), (0.0, 40.0))
    ),
]


@pytest.mark.parametrize(("name", "options", "forget", "strength"), ENDS, ids=str)
def test_the_laws_hold_where_dials_stand_at_their_ends(
    name: str, options: dict[str, Any], forget: float | None, strength: float | None
) -> None:
    layer = make(name, **options)
    turn_dials(layer, forget, strength)
    x = torch.randn(2, 70, 8, dtype=torch.float64)
    laws.check(layer, x[:, :9])
    laws.cost(layer, x[:, :9])
    laws.chunk(layer, x[:, 2:], [68], warm=x[:, :2])
    with torch.no_grad():
        laws.chunk_values(layer.float(), x.float(), [70])


def test_a_decay_of_exactly_zero_has_its_slope() -> None:
    decay = torch.tensor([0.5, 0.0, -0.25, 1.0], dtype=torch.float64)[None, :, None, None].requires_grad_()
    q, k, v = inputs(1, 4, 1, 2), inputs(1, 4, 1, 2), inputs(1, 4, 1, 3)
    start = inputs(1, 1, 2, 3)
    y, state = chunks.run(q, k, v, start, decay=chunks.Decay.of(decay))
    S, read = start[0, 0], []
    for t in range(4):
        S = decay[0, t, 0] * S + torch.outer(k[0, t, 0], v[0, t, 0])
        read.append(q[0, t, 0] @ S)
    expected = torch.stack(read)[None, :, None]
    assert_close(y, expected, "outputs")
    wrt = [decay, q, k, v, start]
    assert_all_close(gradients([y, state], wrt), gradients([expected, S[None, None]], wrt), "gradient")


def test_strong_and_weak_decays_in_one_chunk_lose_no_digits() -> None:
    """A sum of logarithms in float32 would be of the size of the strong ones, and its error of theirs."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 64, 1, 8) for _ in range(3))
    log = torch.full((1, 64, 1, 1), -1e-3)
    log[:, 1:40:3] = -400.0
    y, _ = chunks.run(q, k, v, torch.zeros(1, 1, 8, 8), decay=chunks.Decay(log))
    exact, _ = chunks.run(
        *(part.double() for part in (q, k, v)),
        torch.zeros(1, 1, 8, 8, dtype=torch.float64),
        decay=chunks.Decay(log.double()),
    )
    assert float((y - exact).abs().max() / exact.abs().max()) < 2e-6


def test_a_key_that_comes_again_gets_its_new_value_alone() -> None:
    """With β = 1 and the same key, the delta rule replaces; adding piles up."""
    k = torch.nn.functional.normalize(torch.randn(1, 1, 1, 4, dtype=torch.float64), dim=-1).expand(1, 3, 1, 4)
    v = torch.randn(1, 3, 1, 2, dtype=torch.float64)
    nothing = torch.zeros(1, 1, 4, 2, dtype=torch.float64)
    replaced, _ = chunks.run(k, k, v, nothing, delta=True)
    assert_close(replaced, v)
    added, _ = chunks.run(k, k, v, nothing)
    assert_close(added, v.cumsum(dim=1))


@pytest.mark.parametrize("normalise", [False, True])
def test_linear_attention_is_a_setting_of_the_matrix_memory(normalise: bool) -> None:
    linear = build("linear-attention", dim=6, heads=2, normalise=normalise).double()
    layer = build("matrix", dim=6, heads=2, feature="elu", normalise=normalise).double()
    layer.load_state_dict(linear.state_dict())
    x = inputs(2, STEPS, 6)
    y, state = layer(x, layer.initial_state(2))
    expected, final = linear(x, linear.initial_state(2))
    assert_close(y, expected, "outputs")
    sums = torch.cat([final.sums, final.total[..., None]], dim=-1) if normalise else final.sums
    assert_close(state.sums, sums, "matrix")
    wrt = [*layer.parameters()], [*linear.parameters()]
    assert_all_close(gradients([y], wrt[0]), gradients([expected], wrt[1]), "gradient")


def test_rows_of_unequal_length_are_what_each_is_alone() -> None:
    for name in NAMES:
        layer = make(name)
        x, lengths = torch.randn(3, 130, 8, dtype=torch.float64), [130, 1, 70]
        y, state = ragged.run(layer, x, lengths)
        for row, length in enumerate(lengths):
            alone, final = layer.unroll(x[row : row + 1, :length], layer.initial_state(1))
            assert_close(y[row, :length], alone[0], f"{name}: outputs of row {row}")
            assert_close(state.sums[row], final.sums[0], f"{name}: matrix of row {row}")


@pytest.mark.parametrize("name", NAMES)
def test_operations_grow_by_the_chunk_and_not_by_the_step(name: str) -> None:
    from laws.test_fast_forms import operations

    layer = make(name).float()
    each = chunks.steps_together(layer.config.forget == "channel", layer.config.write == "delta")
    two, four, less, eight = (
        operations(layer, torch.randn(1, n, 8), None) for n in (2 * each, 4 * each, 4 * each - 1, 8 * each)
    )
    assert less == four
    assert eight - four == 2 * (four - two)
    assert four - two <= 2 * 4  # a few for each chunk


@pytest.mark.parametrize("name", NAMES)
def test_the_matrix_of_a_bfloat16_layer_stays_float32(name: str) -> None:
    layer = build(name, dim=6, heads=1).bfloat16()
    state = layer.initial_state(2)
    for steps in (1, 5):
        y, state = layer(torch.randn(2, steps, 6, dtype=torch.bfloat16), state)
        assert (y.dtype, state.sums.dtype) == (torch.bfloat16, torch.float32)


@pytest.mark.parametrize("name", NAMES)
def test_under_autocast_the_matrix_stays_float32_and_chunks_agree_with_steps(name: str) -> None:
    torch.manual_seed(0)
    layer = build(name, dim=8, heads=2).eval()
    x = torch.randn(2, 70, 8)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        y, state = layer(x, layer.initial_state(2))
        expected, final = layer.unroll(x, layer.initial_state(2))
    assert state.sums.dtype == final.sums.dtype == torch.float32
    assert float((state.sums - final.sums).abs().max() / final.sums.abs().max()) < 2e-2
    assert float((y.float() - expected.float()).abs().max() / expected.float().abs().max()) < 5e-2


def test_what_a_matrix_memory_explains_is_what_it_does() -> None:
    layer = make("gated-delta")
    x = torch.randn(3, 4, 8, dtype=torch.float64)
    _, state = layer(x[:, :3], layer.initial_state(3))
    found, after = layer.explain(state, x[:, 3]), layer.update(state, x[:, 3])
    assert_close(found["size"], after.sums.square().sum(dim=(2, 3)).sqrt())
    k = layer.key(x[:, 3:], state)[:, 0]
    faded = found["forget"][..., None, None] * state.sums
    missing = layer.value(x[:, 3:], state)[:, 0] - (k[:, :, None] @ faded)[:, :, 0]
    written = faded + found["strength"][..., None, None] * k[..., None] * missing[:, :, None]
    assert_close(written, after.sums)
    q = layer.query(x[:, 3:], state)[:, 0]
    assert_close(found["read"], (q[:, :, None] @ after.sums)[:, :, 0])
    assert set(layer.explain(state, x[:, 3])) == {"size", "written", "read", "forget", "strength"}


def test_heads_start_with_horizons_of_their_own() -> None:
    fixed = build("retention", dim=8, heads=4).double()
    decay = fixed.gates(torch.zeros(1, 1, 8, dtype=torch.float64), fixed.initial_state(1)).decay
    assert_close(decay.flatten(), 1 - 2.0 ** -torch.arange(5.0, 9.0, dtype=torch.float64))
    own = build("mamba2", dim=8, heads=4)
    decay = own.gates(torch.zeros(1, 1, 8), own.initial_state(1)).decay.detach().flatten()
    assert (decay[:-1] > decay[1:]).all()
    assert math.isclose(float(decay[0]), math.exp(-(0.001 * 100 ** (1 / 8)) * 16 ** (1 / 8)), rel_tol=1e-5)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"heads": 4}, ("expected heads to divide dim 6", "found 4 heads")),
        ({"normalise": True}, ("normalise=True", "feature='elu'")),
        ({"signed": True}, ("signed=True", "set forget")),
        ({"rank": 2}, ("rank", "forget='none'")),
        ({"tied": True}, ("tied=True", "forget='step'")),
        ({"write": "delta"}, ("keys of length 1", "set unit=True")),
        ({"write": "delta", "unit": True, "forget": "step", "tied": True}, ("beyond 2", "set beta")),
        ({"beta": 2.5}, ("expected beta over 0, up to 2, found 2.5",)),
        ({"rotary": True, "head_dim": 3}, ("even head width, found 3",)),
    ],
    ids=str,
)
def test_dials_that_do_not_go_together_are_refused(options: dict[str, Any], parts: tuple[str, ...]) -> None:
    with refused("matrix: ", *parts):
        matrix.Config(dim=6, **options)


@pytest.mark.parametrize("name", NAMES)
def test_outputs_agree_with_the_naive_form_of_flash_linear_attention(name: str) -> None:
    """A peer where it is installed: their naive recurrences, in float32, on our projections."""
    module = {"mamba2": "simple_gla", "delta": "delta_rule", "gated-delta": "gated_delta_rule"}.get(name, name)
    naive = pytest.importorskip(f"fla.ops.{module}.naive")
    layer = make(name, out_norm=False, out_gate=False, rotary=False)
    x = inputs(2, 70, 8)
    state = layer.initial_state(2)
    q, k, v, gates = layer.query(x, state), layer.key(x, state), layer.value(x, state), layer.gates(x, state)
    q_scaled, final = q * layer.config.key_size**0.5, None  # most of theirs divide by √d
    if name == "retention":
        found = naive.naive_retention(*(part.transpose(1, 2) for part in (q_scaled, k, v))).transpose(1, 2)
    elif name == "gla":
        found, final = naive.naive_recurrent_gla(q_scaled, k, v, gates.log, output_final_state=True)
    elif name == "mamba2":
        log = gates.log[..., 0]
        found, final = naive.naive_recurrent_simple_gla(q, k, v * gates.beta, log, scale=1.0, output_final_state=True)
    elif name == "delta":
        parts = (part.transpose(1, 2) for part in (q_scaled, k, v, gates.beta))
        found, final = naive.delta_rule_recurrence(*parts)
        found = found.transpose(1, 2)
    else:
        log, beta = gates.log[..., 0], gates.beta[..., 0]
        found, final = naive.naive_recurrent_gated_delta_rule(q, k, v, beta, log, scale=1.0, output_final_state=True)
    expected = layer.merge(found.double(), x, v)
    y, after = layer(x, state)
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-5)
    if final is not None:
        torch.testing.assert_close(after.sums, final.double(), rtol=1e-4, atol=1e-5)
    wrt = [x, layer.q.weight, layer.k.weight, layer.v.weight]
    for a, b in zip(gradients([y], wrt), gradients([expected], wrt), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4 * float(b.abs().max()))
