"""The kernels of a decoding step against float64 and the layers, on a GPU or, without one, in Triton's interpreter."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, relu

from oracles import randomise
from recollect import kernels
from recollect.kernels.decode import block as step
from recollect.layers.attention import Config as AttentionConfig
from recollect.layers.position import angles
from recollect.layers.transformer import Config as BlockConfig

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
ACTIVATIONS: dict[Any, Any] = {
    "none": lambda y: y,
    "gelu": gelu,
    "gelu_tanh": lambda y: gelu(y, approximate="tanh"),
    "relu": relu,
}


def random(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape).to(DEVICE, dtype)


def expected_linear(
    x: Tensor,
    gain: Tensor | None,
    shift: Tensor | None,
    eps: float,
    weight: Tensor,
    bias: Tensor | None,
    activation: str = "none",
    kind: str = "none",
) -> Tensor:
    x = x.double()
    if kind == "layer":
        x = layer_norm(x, x.shape[1:], eps=eps)
    elif kind == "rms":
        x = x / (x.square().mean(1, keepdim=True) + eps).sqrt()
    x = x if gain is None else x * gain.double()
    x = x if shift is None else x + shift.double()
    y = x @ weight.double().T
    return ACTIVATIONS[activation](y if bias is None else y + bias.double())


def assert_close(found: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    assert found.isfinite().all()
    error = float((found.double() - expected).abs().max() / expected.abs().max())
    assert error <= TOLERANCE[dtype], f"off by {error:.3g}"


def parameters(size: int, count: int, dtype: torch.dtype, *, affine: bool = True) -> dict[str, Any]:
    return {
        "gain": 1 + 0.5 * random(size, dtype=dtype) if affine else None,
        "shift": random(size, dtype=dtype) if affine else None,
        "weight": random(count, size, dtype=dtype) / math.sqrt(size),
        "bias": random(count, dtype=dtype) if affine else None,
    }


@pytest.mark.triton
@pytest.mark.parametrize("kind", ["layer", "rms", "none"])
@pytest.mark.parametrize(
    ("batch", "size", "count"),
    [(1, 64, 20), (2, 100, 33), (4, 24, 5), (5, 100, 33), (17, 48, 3), (40, 320, 20)],
)
def test_a_product_of_normed_rows_is_that_of_float64(batch, size, count, kind):
    torch.manual_seed(batch)
    x = 3 + 2 * random(batch, size)  # a mean that the norm has to take away
    for activation in ACTIVATIONS:
        given = parameters(size, count, torch.float32, affine=activation != "none")
        y = step.norm_linear(x, eps=1e-3, activation=activation, kind=kind, **given)
        assert_close(y, expected_linear(x, eps=1e-3, activation=activation, kind=kind, **given), torch.float32)


@pytest.mark.triton
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("batch", "size"), [(1, 768), (3, 512), (8, 768), (20, 512), (40, 768), (64, 1100)])
def test_narrow_numbers_are_summed_in_float32(batch, size, dtype):
    if dtype == torch.bfloat16 and batch > step.SUMMED and DEVICE == "cpu":
        pytest.skip("the interpreter has no product of bfloat16")
    torch.manual_seed(0)
    x, residual = random(batch, size, dtype=dtype), random(batch, 12, dtype=dtype)
    given = parameters(size, 12, dtype)
    y = step.norm_linear(x, eps=1e-5, activation="gelu", **given)
    assert y.dtype == dtype
    assert_close(y, expected_linear(x, eps=1e-5, activation="gelu", kind="layer", **given), dtype)
    added = step.linear_add(x, given["weight"], given["bias"], residual)
    plain = expected_linear(x, None, None, 0.0, given["weight"], given["bias"])
    assert_close(added, plain + residual.double(), dtype)


@pytest.mark.triton
@pytest.mark.parametrize("batch", [1, 3, 6])
@pytest.mark.parametrize("size", [40, 3072])
def test_a_product_is_added_to_the_residual(batch, size):
    torch.manual_seed(1)
    x, residual, weight = random(batch, size), random(batch, 9), random(9, size) / math.sqrt(size)
    kept = residual.clone()
    y = step.linear_add(x, weight, None, residual)
    assert_close(y, expected_linear(x, None, None, 0.0, weight, None) + residual.double(), torch.float32)
    assert torch.equal(residual, kept)


@pytest.mark.triton
@pytest.mark.parametrize(
    "launch",
    [
        {"form": "sum", "rows": 1, "block": 16, "warps": 1},
        {"form": "sum", "rows": 16, "block": 128, "warps": 2},
        {"form": "dot", "rows": 8, "block": 32, "warps": 2, "tall": 16},
        {"form": "dot", "rows": 32, "block": 128, "warps": 4, "tall": 32},
        {"overlap": False},
    ],
    ids=str,
)
def test_every_launch_computes_the_same(launch):
    torch.manual_seed(2)
    x, given = random(3, 100), parameters(100, 21, torch.float32)
    y = step.norm_linear(x, eps=1e-5, **given, **launch)
    assert_close(y, expected_linear(x, eps=1e-5, kind="layer", **given), torch.float32)


@pytest.mark.parametrize("kind", ["layer", "rms", "none"])
def test_without_triton_a_wide_head_is_a_product_of_torch(kind):
    torch.manual_seed(7)
    x, given = random(5, 12), parameters(12, step.MANY + 1, torch.float32)
    y = step.norm_linear(x, eps=1e-3, activation="relu", kind=kind, **given)
    assert_close(y, expected_linear(x, eps=1e-3, activation="relu", kind=kind, **given), torch.float32)


def test_without_triton_many_rows_are_products_of_torch():
    torch.manual_seed(7)
    x, given = random(step.MOST + 1, 12), parameters(12, 10, torch.float32)
    y = step.norm_linear(x, eps=1e-3, activation="gelu", **given)
    assert_close(y, expected_linear(x, eps=1e-3, kind="layer", activation="gelu", **given), torch.float32)
    weight, bias, residual = random(10, 12), random(10), random(len(x), 10)
    for own in (bias, None):
        y = step.linear_add(x, weight, own, residual)
        expected = residual.double() + x.double() @ weight.double().T + (0 if own is None else own.double())
        assert_close(y, expected, torch.float32)


def turn(x: Tensor, position: int) -> Tensor:
    """Each pair of neighbours as a complex number, turned."""
    angle = angles(torch.tensor(position), x.shape[-1]).to(x.device)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)


def expected_attention(
    qkv: Tensor, keys: Tensor, values: Tensor, clock: Tensor, heads: int, groups: int, rotary: bool, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Row by row and head by head, in float64."""
    size = keys.shape[3]
    keys, values, found = keys.double().clone(), values.double().clone(), []
    for b, now in enumerate(clock.tolist()):
        q, k, v = qkv[b].double().view(-1, size).split([heads, groups, groups])
        keys[b, now], values[b, now] = (turn(k, now) if rotary else k), v
        for head, query in enumerate(turn(q, now) if rotary else q):
            group = head // (heads // groups)
            weights = (keys[b, : now + 1, group] @ query * scale).softmax(0)
            found.append(weights @ values[b, : now + 1, group])
    return torch.cat(found).view(len(qkv), -1), keys, values


def tables(slots: int, size: int, twice: bool) -> tuple[Tensor, Tensor]:
    angle = angles(torch.arange(slots), size).to(DEVICE)
    angle = angle.repeat_interleave(2, dim=1) if twice else angle
    return angle.cos().float(), angle.sin().float()


@pytest.mark.triton
@pytest.mark.parametrize("rotary", [None, "for each pair", "for each number"])
@pytest.mark.parametrize(
    ("heads", "groups", "size", "slots", "launch"),
    [
        (2, 2, 16, 40, {}),
        (3, 1, 12, 33, {"span": 16, "block": 16}),
        (4, 2, 6, 100, {"span": 32, "block": 16}),
        (2, 1, 8, 300, {"span": 16, "block": 16, "warps": 2}),  # more spans than are put together at a time
    ],
    ids=str,
)
def test_attention_of_a_step_is_that_of_float64(heads, groups, size, slots, launch, rotary):
    torch.manual_seed(slots)
    clock = torch.tensor([0, 1, 15, 16, slots // 2, slots - 1], device=DEVICE)
    for _ in range(2):  # the second finds the counters as the first left them
        qkv = random(len(clock), (heads + 2 * groups) * size)
        keys, values = (random(len(clock), slots, groups, size) for _ in range(2))
        scale = 1.3 / math.sqrt(size)
        expected = expected_attention(qkv, keys, values, clock, heads, groups, rotary is not None, scale)
        table = None if rotary is None else tables(slots, size, rotary == "for each number")
        y = step.attend_step(qkv, keys, values, clock, heads, groups, table, scale, **launch)
        for found, wanted in zip((y, keys, values), expected, strict=True):
            assert_close(found, wanted, torch.float32)


@pytest.mark.triton
def test_only_the_slot_at_the_clock_is_written():
    torch.manual_seed(3)
    clock = torch.tensor([0, 7, 19, 20, 35], device=DEVICE)  # the last two have no room
    qkv, (keys, values) = random(5, 4 * 8), (random(5, 20, 1, 8) for _ in range(2))
    before = keys.clone(), values.clone()
    step.attend_step(qkv, keys, values, clock, 2, 1, tables(20, 8, False), 1.0, span=16, block=16)
    for after, old in zip((keys, values), before, strict=True):
        changed = (after != old).any(dim=3)[..., 0]
        assert changed.nonzero().tolist() == [[0, 0], [1, 7], [2, 19]]


@pytest.mark.triton
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_narrow_cache_is_attended_to_in_float32(dtype):
    torch.manual_seed(4)
    qkv, (keys, values) = random(2, 6 * 16, dtype=dtype), (random(2, 70, 2, 16, dtype=dtype) for _ in range(2))
    clock = torch.tensor([69, 20], device=DEVICE)
    expected = expected_attention(qkv, keys, values, clock, 2, 2, False, 0.25)[0]
    y = step.attend_step(qkv, keys, values, clock, 2, 2, None, 0.25, span=16, block=16)
    assert y.dtype == dtype
    assert_close(y, expected, dtype)


@pytest.mark.triton
def test_a_score_far_above_the_others_does_not_overflow():
    clock = torch.tensor([33], device=DEVICE)
    qkv = torch.cat([torch.full((1, 8), 30.0), torch.full((1, 8), -30.0), torch.ones(1, 8)], dim=1).to(DEVICE)
    keys, values = random(1, 40, 1, 8), random(1, 40, 1, 8)
    keys[0, 3] = 30
    y = step.attend_step(qkv, keys, values, clock, 1, 1, None, 1.0, span=16, block=16)
    assert_close(y, values[:, 3].reshape(1, 8).double(), torch.float32)


@pytest.mark.triton
def test_two_steps_give_the_same_bits():
    torch.manual_seed(5)
    qkv, (keys, values) = random(3, 6 * 16), (random(3, 100, 2, 16) for _ in range(2))
    clock = torch.tensor([99, 50, 3], device=DEVICE)
    found = [step.attend_step(qkv, keys, values, clock, 2, 2, None, 0.25, span=16, block=16) for _ in range(3)]
    assert all(torch.equal(found[0], other) for other in found)


@pytest.mark.triton
@pytest.mark.parametrize("batch", [1, 6])
@pytest.mark.parametrize("options", [{"norm": "layer", "activation": "gelu"}, {"norm": "rms", "activation": "relu"}])
@torch.no_grad()
def test_five_kernels_are_one_step_of_a_transformer_block(batch, options):
    torch.manual_seed(6)
    attention = AttentionConfig(dim=24, heads=4, kv_heads=2, positions="rotary", bias=True)
    block = BlockConfig(dim=24, attention=attention, **options).build().to(DEVICE)
    randomise(block)
    (attention, feed), norms = zip(*((part.layer, part.norm.norm) for part in block.layers), strict=True)
    heads = attention.heads
    projected = [
        torch.cat([getattr(part, name) for part in (heads.q, heads.k, heads.v)]) for name in ("weight", "bias")
    ]
    keys, values = (torch.zeros(batch, 10, 2, 6, device=DEVICE) for _ in range(2))
    clock = torch.zeros(batch, dtype=torch.int64, device=DEVICE)
    wide = copy.deepcopy(block).double()
    state = wide.initial_state(batch)

    def normed(norm: Any, x: Tensor, weight: Tensor, bias: Tensor, activation: Any) -> Tensor:
        return step.norm_linear(
            x, norm.weight, getattr(norm, "bias", None), norm.eps, weight, bias, activation, options["norm"]
        )

    for _ in range(5):
        x = random(batch, 24)
        expected, state = wide(x.double()[:, None], state)
        qkv = normed(norms[0], x, *projected, activation="none")
        y = step.attend_step(qkv, keys, values, clock, 4, 2, tables(10, 6, False), 1 / math.sqrt(6))
        x = step.linear_add(y, heads.out.weight, heads.out.bias, x)
        hidden = normed(norms[1], x, feed.up.weight, feed.up.bias, options["activation"])
        y = step.linear_add(hidden, feed.down.weight, feed.down.bias, x)
        assert_close(y, expected[:, 0], torch.float32)
        clock += 1


@pytest.mark.parametrize("item", [2, 4])
@pytest.mark.parametrize("size", [8, 64, 100, 512, 768, 3072, 4096])
def test_without_triton_a_launch_is_found_for_every_shape(size, item):
    for count in (1, 768, 50_304):
        for batch in (1, 5, 32, 33, 64):
            launch = step.for_sum(count, size, item) if batch == 1 else step.for_dot(batch, count, size, item)
            numbers = [number for number in launch.values() if number]
            assert all(number == step.power(number) for number in numbers)
            kept = launch["rows"] * size * item / (launch["warps"] * 32)
            assert kept <= (768 if batch > 32 else 256)  # bytes of W that a thread holds, of the 1,024 it may have


@pytest.mark.skipif(kernels.interpreted(), reason="the interpreter makes them usable")
def test_without_a_gpu_the_kernels_are_not_usable():
    assert not step.usable(torch.zeros(1))


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
@pytest.mark.parametrize(("dtype", "good"), [(torch.bfloat16, True), (torch.float64, False), (torch.int64, False)])
def test_on_a_gpu_floats_of_up_to_32_bits_are_usable(dtype, good):
    assert step.usable(torch.zeros(1, device=DEVICE, dtype=dtype)) is good


def test_without_triton_wrong_shapes_are_said_in_one_line():
    x, weight = torch.zeros(2, 8), torch.zeros(3, 9)
    with pytest.raises(ValueError, match=r"expected weight of shape \(3, 8\), contiguous; found \(3, 9\)"):
        step.norm_linear(x, None, None, 1e-5, weight)
    with pytest.raises(ValueError, match=r"expected weight of shape \(9, 8\).*not contiguous"):
        step.linear_add(x, torch.zeros(8, 9).T, None, torch.zeros(2, 9))
    cache, clock = torch.zeros(2, 5, 1, 4), torch.zeros(2, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"expected qkv of shape \(2, 12\)"):
        step.attend_step(torch.zeros(2, 8), cache, cache, clock, 1, 1, None, 1.0)
    with pytest.raises(ValueError, match="tables of 5 positions, found 4 and 3"):
        step.attend_step(torch.zeros(2, 12), cache, cache, clock, 1, 1, (torch.zeros(3, 2), torch.zeros(3, 2)), 1.0)
    with pytest.raises(ValueError, match="multiple of the block, found 40 and 16"):
        step.attend_step(torch.zeros(2, 12), cache, cache, clock, 1, 1, None, 1.0, span=40, block=16)
