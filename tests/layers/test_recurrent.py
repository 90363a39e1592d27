"""rnn, lstm, gru and the bidirectional encoder against torch.nn, and against what is known in closed form."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.overrides import TorchFunctionMode

from laws.cases import every_layer
from oracles import assert_all_close, assert_close, gradients, inputs, random_state
from recollect.core import state as states
from recollect.core.contract import Cell, ContractError, Cost, Layer
from recollect.layers import build, build_encoder, gru, lstm, rnn

KINDS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "rnn, tanh": ("rnn", {"nonlinearity": "tanh"}, nn.RNN),
    "rnn, relu": ("rnn", {"nonlinearity": "relu"}, nn.RNN),
    "lstm": ("lstm", {}, nn.LSTM),
    "gru": ("gru", {}, nn.GRU),
}
CONFIGS = {"rnn": rnn.Config, "lstm": lstm.Config, "gru": gru.Config}


def by_steps(layer: Any, x: Tensor, state: Any) -> tuple[Tensor, Any]:
    """One call for each step."""
    outputs = []
    for part in x.split(1, dim=1):
        y, state = layer(part, state)
        outputs.append(y)
    return torch.cat(outputs, dim=1), state


FORMS: dict[str, Any] = {  # a whole chunk runs a fused kernel, a call with one step a cell, the definition neither
    "chunk": lambda layer, x, state: layer(x, state),
    "steps": by_steps,
    "definition": lambda layer, x, state: layer.unroll(x, state),
}


def torch_state(state: Any) -> Any:
    """A recollect state (B L W each) as torch wants it: h, or (h, c), L B W each."""
    parts = tuple(t.transpose(0, 1).contiguous() for t in state)
    return parts[0] if len(parts) == 1 else parts


def our_state(state: Any) -> list[Tensor]:
    """Torch's h or (h, c) as a list of B L W."""
    return [t.transpose(0, 1) for t in (state if isinstance(state, tuple) else (state,))]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("width", [5, 3])
@pytest.mark.parametrize("num_layers", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_every_option_of_an_rnn_an_lstm_and_a_gru_equals_torch(
    kind: str, num_layers: int, width: int, bias: bool, form: str
) -> None:
    name, options, module = KINDS[kind]
    oracle = module(5, width, num_layers, bias=bias, batch_first=True, **options).double()
    layer = build(name, dim=5, width=width, num_layers=num_layers, bias=bias, **options).double()
    layer.load_torch(oracle)
    x, state = inputs(3, 6, 5), random_state(layer.initial_state(3))
    names = [n for n, _ in oracle.named_parameters()]
    assert sorted(names) == sorted(n for n, _ in layer.named_parameters())

    y, after = FORMS[form](layer, x, state)
    expected, expected_after = oracle(x, torch_state(state))

    assert_close(y, expected, "outputs")
    assert_all_close(after, our_state(expected_after), "final state")
    ours, theirs = dict(layer.named_parameters()), dict(oracle.named_parameters())
    found = gradients([y, *after], [x, *state, *(ours[n] for n in names)])
    wanted = gradients([expected, *our_state(expected_after)], [x, *state, *(theirs[n] for n in names)])
    for what, a, b in zip(["x", *state._fields, *names], found, wanted, strict=True):
        assert_close(a, b, f"gradient of {what}")


@pytest.mark.parametrize("kind", KINDS)
def test_a_fresh_state_is_that_of_torch(kind: str) -> None:
    name, options, module = KINDS[kind]
    oracle = module(4, 3, 2, batch_first=True, **options).double()
    layer = build(name, dim=4, width=3, num_layers=2, **options).double()
    layer.load_torch(oracle)
    x = inputs(2, 5, 4)
    assert_close(layer(x, layer.initial_state(2))[0], oracle(x)[0])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_weights_go_to_torch_and_back_unchanged(kind: str, bias: bool) -> None:
    name, options, module = KINDS[kind]
    oracle = module(4, 3, 2, bias=bias, batch_first=True, dropout=0.25, **options).double()
    layer = build(name, dim=4, width=3, num_layers=2, bias=bias, dropout=0.25, **options).double()
    layer.load_torch(oracle)
    back = layer.to_torch()
    assert type(back) is module
    assert back.batch_first
    assert back.dropout == 0.25
    for n, weight in oracle.state_dict().items():
        assert torch.equal(back.state_dict()[n], weight), n
    x = inputs(2, 5, 4)
    assert_close(back.eval()(x)[0], oracle.eval()(x)[0])

    again = build(name, dim=4, width=3, num_layers=2, bias=bias, dropout=0.25, **options).double().eval()
    again.load_torch(back)
    assert_close(again(x, again.initial_state(2))[0], oracle(x)[0])


def test_what_goes_to_torch_is_a_copy() -> None:
    layer = build("lstm", dim=3)
    module = layer.to_torch()
    with torch.no_grad():
        module.weight_hh_l0.zero_()
    assert layer.weight_hh_l0.abs().min() > 0


@pytest.mark.parametrize(
    ("name", "module"),
    [("lstm", nn.GRU(4, 4)), ("gru", nn.RNN(4, 4)), ("rnn", nn.LSTM(4, 4)), ("gru", nn.GRU(4, 4, bidirectional=True))],
)
def test_weights_of_another_kind_of_module_are_refused(name: str, module: nn.RNNBase) -> None:
    with pytest.raises(ContractError, match=r"^load_torch: expected a one-way .* found .*") as caught:
        build(name, dim=4).load_torch(module)
    assert type(module).__name__ in str(caught.value)


def test_weights_trained_with_another_nonlinearity_are_refused() -> None:
    with pytest.raises(ContractError):
        build("rnn", dim=4, nonlinearity="tanh").load_torch(nn.RNN(4, 4, nonlinearity="relu"))


def test_a_gru_that_resets_before_the_product_does_not_pass_for_a_torch_gru() -> None:
    layer = build("gru", dim=4, reset="before")
    with pytest.raises(ContractError):
        layer.to_torch()


@pytest.mark.parametrize("lengths", [None, [6, 3, 1], [2, 6, 5]])
@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_bidirectional_encoder_equals_torch(kind: str, num_layers: int, lengths: list[int] | None) -> None:
    name, options, module = KINDS[kind]
    oracle = module(4, 3, num_layers, batch_first=True, bidirectional=True, **options).double()
    inner = CONFIGS[name](dim=4, width=3, **options)
    encoder = build_encoder("bidirectional", dim=4, layer=inner, num_layers=num_layers).double()
    encoder.load_torch(oracle)
    x = inputs(3, 6, 4)

    memory = encoder(x, lengths)
    if lengths is None:
        expected, final = oracle(x)
    else:
        packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
        packed, final = oracle(packed)
        expected, _ = pad_packed_sequence(packed, batch_first=True, total_length=6)

    assert_close(memory.values, expected, "values")
    ends = torch.tensor(lengths or [6, 6, 6])
    assert torch.equal(memory.valid, torch.arange(6) < ends[:, None])
    summary = [
        torch.cat([part for level in memory.summary for part in (level.forward[i], level.backward[i])], dim=1)
        for i in range(2 if name == "lstm" else 1)
    ]
    assert_all_close(summary, our_state(final), "summary")
    weights = [p for n, p in sorted(oracle.named_parameters())]
    ours = {
        n.replace("_l0", f"_l{level}") + suffix: p
        for way, suffix in ((encoder.forwards, ""), (encoder.backwards, "_reverse"))
        for level, layer in enumerate(way)
        for n, p in layer.named_parameters()
    }
    found = gradients([memory.values, *summary], [x, *(p for _, p in sorted(ours.items()))])
    assert_all_close(found, gradients([expected, *our_state(final)], [x, *weights]), "gradient")


@pytest.mark.parametrize("lengths", [[6, 6, 6], [6, 3, 1], [2, 6, 5], [4, 0, 6]], ids=str)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("rnn", {}),
        ("rnn", {"bias": False}),
        ("lstm", {}),
        ("lstm", {"num_layers": 2}),
        ("gru", {}),
        ("gru", {"reset": "before"}),
    ],
    ids=str,
)
def test_both_ways_at_once_equal_one_after_the_other(name: str, options: dict[str, Any], lengths: list[int]) -> None:
    onward, back = (build(name, dim=4, width=3, **options).double() for _ in range(2))
    ends = torch.tensor(lengths)
    x = (inputs(3, 6, 4) * (torch.arange(6) < ends[:, None])[..., None]).detach().requires_grad_()
    weights = [x, *onward.parameters(), *back.parameters()]
    found = states.leaves(onward.both_ways(back, x, ends))
    expected = states.leaves(Layer.both_ways(onward, back, x, ends))
    assert_all_close(found, expected, "outputs and states")
    assert_all_close(gradients(found, weights), gradients(expected, weights), "gradient")


def test_both_ways_of_a_cpu_are_one_call_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = build_encoder("bidirectional", dim=4, layer=lstm.Config(dim=4), num_layers=2)
    calls = []
    for layer in encoder.forwards:
        monkeypatch.setattr(layer, "kernel", lambda *args, **named: calls.append(1) or torch.lstm(*args, **named))
    for layer in encoder.backwards:
        monkeypatch.setattr(layer, "kernel", None)
    encoder(torch.randn(2, 5, 4), torch.tensor([5, 3]))
    assert len(calls) == 2, "one for each level"


def test_the_states_of_both_ways_share_no_storage() -> None:
    memory = build_encoder("bidirectional", dim=4, layer=lstm.Config(dim=4))(torch.randn(2, 5, 4))
    storages = [tensor.untyped_storage().data_ptr() for tensor in [memory.values, *states.leaves(memory.summary)]]
    assert len(set(storages)) == len(storages) == 5


def test_a_bidirectional_encoder_refuses_weights_of_another_depth() -> None:
    encoder = build_encoder("bidirectional", dim=4, layer=gru.Config(dim=4), num_layers=2)
    with pytest.raises(ContractError, match=r"expected a bidirectional module of 2 layers, found two ways, 1 layers"):
        encoder.load_torch(nn.GRU(4, 4, bidirectional=True))


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize(
    ("name", "options"), [("rnn", {}), ("lstm", {}), ("gru", {}), ("gru", {"reset": "before"})], ids=str
)
def test_dropout_acts_between_layers_and_in_training_only(name: str, options: dict[str, Any], steps: int) -> None:
    layer = build(name, dim=8, num_layers=2, dropout=0.5, **options).double()
    plain = build(name, dim=8, num_layers=2, **options).double()
    plain.load_state_dict(layer.state_dict())
    x = torch.randn(4, steps, 8, dtype=torch.float64)
    start = layer.initial_state(4)
    y, final = plain(x, start)

    dropped, after = layer.train()(x, start)
    assert (dropped - y).abs().max() > 1e-3, "training must drop"
    assert_close(after.h[:, 0], final.h[:, 0], "the first layer's own state is not dropped")
    assert (dropped == 0).sum() == 0, "the last layer's output is not dropped"
    assert_close(layer.eval()(x, start)[0], y, "nothing is dropped out of training")


def test_dropout_of_a_single_layer_drops_nothing() -> None:
    layer = build("lstm", dim=8, dropout=0.5).double().train()
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    trained, _ = layer(x, layer.initial_state(2))
    assert_close(trained, layer.eval()(x, layer.initial_state(2))[0])


class Draws(TorchFunctionMode):
    """Counts how often something is dropped."""

    count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is nn.functional.dropout
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("name", "options"), [("rnn", {}), ("lstm", {}), ("gru", {}), ("gru", {"reset": "before"})], ids=str
)
def test_weight_dropout_draws_one_mask_for_a_whole_chunk_and_in_training_only(
    name: str, options: dict[str, Any]
) -> None:
    layer = build(name, dim=8, weight_dropout=0.5, **options).double()
    plain = build(name, dim=8, **options).double()
    plain.load_state_dict(layer.state_dict())
    x, start = torch.randn(2, 6, 8).double(), layer.initial_state(2)
    expected, _ = plain(x, start)
    assert (layer.train()(x, start)[0] - expected).abs().max() > 1e-3
    counts = []
    for steps in (3, 6):
        with Draws() as draws:
            layer(x[:, :steps], start)
        counts.append(draws.count)
    assert counts[0] == counts[1] > 0, f"masks drawn for 3 and for 6 steps: {counts}"
    assert_close(layer.eval()(x, start)[0], expected)


def test_weight_dropout_drops_entries_of_u_and_scales_the_rest() -> None:
    layer = build("rnn", dim=6, weight_dropout=0.5, bias=False, nonlinearity="relu").double().train()
    with torch.no_grad():
        layer.weight_ih_l0.zero_()
        layer.weight_hh_l0.abs_()
    h = torch.eye(6, dtype=torch.float64)[:, None]  # row i reads column i of U
    y, _ = layer(torch.zeros(6, 2, 6).double(), rnn.State(h))
    ratio = y[:, 0] / layer.weight_hh_l0.T
    assert set(ratio.detach().round(decimals=9).unique().tolist()) == {0.0, 2.0}


def cho(layer: gru.GRU, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """Cho 2014, equations 5 to 8, layer by layer and step by step; h: B L W."""
    finals = []
    for level in range(h.shape[1]):
        weights = [getattr(layer, f"{n}_l{level}") for n in ("weight_ih", "weight_hh")]
        (W_r, W_z, W), (U_r, U_z, U) = (weight.chunk(3) for weight in weights)
        b_r = b_z = b = torch.zeros((), dtype=x.dtype)
        if layer.config.bias:
            together = getattr(layer, f"bias_ih_l{level}") + getattr(layer, f"bias_hh_l{level}")
            b_r, b_z, b = together.chunk(3)
        now, outputs = h[:, level], []
        for t in range(x.shape[1]):
            r = torch.sigmoid(x[:, t] @ W_r.T + now @ U_r.T + b_r)
            z = torch.sigmoid(x[:, t] @ W_z.T + now @ U_z.T + b_z)
            new = torch.tanh(x[:, t] @ W.T + (r * now) @ U.T + b)
            now = z * now + (1 - z) * new
            outputs.append(now)
        x = torch.stack(outputs, dim=1)
        finals.append(now)
    return x, torch.stack(finals, dim=1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("num_layers", [1, 2])
def test_a_gru_that_resets_before_the_product_keeps_chos_equations(num_layers: int, bias: bool, form: str) -> None:
    layer = build("gru", dim=4, width=3, num_layers=num_layers, bias=bias, reset="before").double()
    x, state = inputs(2, 5, 4), random_state(layer.initial_state(2))
    y, after = FORMS[form](layer, x, state)
    expected, final = cho(layer, x, state.h)
    assert_close(y, expected, "outputs")
    assert_close(after.h, final, "final state")
    wrt = [x, state.h, *layer.parameters()]
    assert_all_close(gradients([y, after.h], wrt), gradients([expected, final], wrt), "gradient")


def test_where_the_reset_gate_acts_makes_a_difference() -> None:
    before, after = (build("gru", dim=4, reset=reset).double() for reset in ("before", "after"))
    before.load_state_dict(after.state_dict())
    x = inputs(2, 5, 4)
    difference = before(x, before.initial_state(2))[0] - after(x, after.initial_state(2))[0]
    assert difference.abs().max() > 1e-3


class Plain(NamedTuple):
    h: Tensor  # B W


class LinearRnn(Cell[Plain]):
    """h ← U h + x, y = h: the RNN without its nonlinearity."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = self.width = dim
        self.weight = nn.Parameter(torch.randn(dim, dim))

    def initial_state(self, batch: int, memory: Any = None, like: Any = None, capacity: Any = None) -> Plain:
        return Plain(self.like(like).new_zeros(batch, self.dim))

    def update(self, state: Plain, x: Tensor) -> Plain:
        return Plain(state.h @ self.weight.T + x)

    def read(self, state: Plain, x: Tensor) -> Tensor:
        return state.h

    def cost(self, batch: int, steps: int, source: int = 0) -> Cost:
        return Cost(2 * batch * steps * self.dim**2, batch * self.dim * self.element_size())


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_the_gradient_of_a_linear_rnn_is_a_matrix_power(steps: int) -> None:
    layer = LinearRnn(4).double()
    x, h = torch.randn(1, steps, 4).double(), torch.randn(4).double()
    found = torch.autograd.functional.jacobian(lambda h: layer(x, Plain(h[None]))[1].h[0], h)
    assert_close(found, torch.linalg.matrix_power(layer.weight.detach(), steps))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_the_gradient_of_a_relu_rnn_in_its_linear_range_is_a_matrix_power(steps: int, form: str) -> None:
    layer = build("rnn", dim=4, nonlinearity="relu").double()
    with torch.no_grad():
        layer.bias_ih_l0.fill_(1e3)  # far above anything the weights can pull below zero
    U = layer.weight_hh_l0.detach().clone()
    x, h = torch.randn(1, steps, 4).double(), torch.randn(4).double()

    def final(h: Tensor) -> Tensor:
        y, after = FORMS[form](layer, x, rnn.State(h[None, None]))
        assert (y > 0).all(), "the relu must stay open"
        return after.h[0, 0]

    assert_close(torch.autograd.functional.jacobian(final, h), torch.linalg.matrix_power(U, steps))


def test_the_gradient_of_a_tanh_rnn_is_the_product_of_its_slopes_and_weights() -> None:
    layer = build("rnn", dim=4).double()
    x, h = torch.randn(1, 6, 4).double(), torch.randn(4).double()
    found = torch.autograd.functional.jacobian(lambda h: layer(x, rnn.State(h[None, None]))[1].h[0, 0], h)
    expected, state = torch.eye(4, dtype=torch.float64), rnn.State(h[None, None])
    with torch.no_grad():
        for x_t in x.unbind(1):
            slope = layer.explain(state, x_t)["slope"][0, 0]
            expected = slope[:, None] * layer.weight_hh_l0 @ expected
            _, state = layer(x_t[:, None], state)
    assert_close(found, expected)


@pytest.mark.parametrize("form", FORMS)
def test_the_cell_path_of_an_lstm_carries_the_product_of_its_forget_gates(form: str) -> None:
    layer = build("lstm", dim=4).double()
    with torch.no_grad():
        layer.weight_hh_l0.zero_()  # leaves the cell path alone
    x, c = torch.randn(1, 6, 4).double(), torch.randn(4).double()
    h = torch.zeros(1, 1, 4, dtype=torch.float64)

    def final(c: Tensor) -> Tensor:
        return FORMS[form](layer, x, lstm.State(h, c[None, None]))[1].c[0, 0]

    found = torch.autograd.functional.jacobian(final, c)
    rows = slice(4, 8)  # the forget gate's, in torch's order i, f, g, o
    with torch.no_grad():
        sums = x[0] @ layer.weight_ih_l0[rows].T + layer.bias_ih_l0[rows] + layer.bias_hh_l0[rows]
    assert_close(found, torch.diag(torch.sigmoid(sums).prod(dim=0)))


def test_the_gates_that_an_lstm_explains_make_its_next_state() -> None:
    layer = build("lstm", dim=4, width=3, num_layers=2).double()
    state = random_state(layer.initial_state(2))
    x = torch.randn(2, 4, dtype=torch.float64)
    gates, after = layer.explain(state, x), layer.update(state, x)
    c = gates["forget"] * state.c + gates["input"] * gates["candidate"]
    assert_close(after.c, c)
    assert_close(after.h, gates["output"] * torch.tanh(c))


@pytest.mark.parametrize("reset", ["before", "after"])
def test_the_gates_that_a_gru_explains_make_its_next_state(reset: str) -> None:
    layer = build("gru", dim=4, width=3, num_layers=2, reset=reset).double()
    state = random_state(layer.initial_state(2))
    x = torch.randn(2, 4, dtype=torch.float64)
    gates = layer.explain(state, x)
    assert_close(layer.update(state, x).h, gates["keep"] * state.h + (1 - gates["keep"]) * gates["candidate"])


@pytest.mark.parametrize("forget_bias", [1.0, -2.0, 0.5])
def test_the_forget_bias_is_where_every_forget_gate_starts(forget_bias: float) -> None:
    torch.manual_seed(1)
    layer = build("lstm", dim=5, width=4, num_layers=2, forget_bias=forget_bias).double()
    torch.manual_seed(1)
    plain = build("lstm", dim=5, width=4, num_layers=2).double()
    nothing = layer.initial_state(1)
    gates = layer.explain(nothing, torch.zeros(1, 5, dtype=torch.float64))
    first = gates["forget"][:, 0]  # of the upper layer the input is not zero
    assert_close(first, torch.sigmoid(torch.full((1, 4), forget_bias, dtype=torch.float64)))
    for level in range(2):
        ours, theirs = (getattr(m, f"bias_ih_l{level}") + getattr(m, f"bias_hh_l{level}") for m in (layer, plain))
        assert_close(ours[4:8], torch.full((4,), forget_bias, dtype=torch.float64))
        assert_close(ours[:4], theirs[:4])
        assert_close(ours[8:], theirs[8:])


@pytest.mark.parametrize("name", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("steps", [1, 5])
def test_writing_into_an_output_does_not_change_the_state(name: str, steps: int) -> None:
    layer = build(name, dim=4)
    with torch.no_grad():
        y, state = layer(torch.randn(2, steps, 4), layer.initial_state(2))
        h = state.h.clone()
        y.fill_(9.0)
    assert torch.equal(state.h, h)


@pytest.mark.parametrize("steps", [1, 5])
def test_the_cell_of_a_bfloat16_lstm_stays_float32(steps: int) -> None:
    layer = build("lstm", dim=4, num_layers=2).bfloat16()
    state = layer.initial_state(2)
    for _ in range(2):
        assert (state.h.dtype, state.c.dtype) == (torch.bfloat16, torch.float32)
        y, state = layer(torch.randn(2, steps, 4, dtype=torch.bfloat16), state)
        assert y.dtype == torch.bfloat16
    assert (state.h.dtype, state.c.dtype) == (torch.bfloat16, torch.float32)


def test_one_step_of_a_bfloat16_lstm_does_not_round_its_cell() -> None:
    """A float32 cell is worth its bytes only if it is not rounded: with the input shut, c must come back as it was."""
    layer = build("lstm", dim=4).bfloat16()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.bias_ih_l0.copy_(torch.tensor([-100.0, 100.0, 0.0, 0.0]).repeat_interleave(4))  # i shut, f open
    start = layer.initial_state(2)
    start = start._replace(c=torch.rand_like(start.c) + 1)
    assert (start.c != start.c.bfloat16()).any()
    _, after = layer(torch.randn(2, 1, 4, dtype=torch.bfloat16), start)
    assert torch.equal(after.c, start.c)


@pytest.mark.parametrize("made", ["outside", "inside"])
@pytest.mark.parametrize("steps", [1, 5])
@every_layer
def test_the_dtype_of_a_state_never_changes_under_autocast(config: Any, steps: int, made: str) -> None:
    layer = config.build().eval()
    example = config.example(2, 2 * steps, dtype=torch.float32)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        with torch.autocast("cpu", enabled=made == "inside"):
            state = layer.initial_state(2, memory=example.memory, like=example.x)
        before = [(name, tensor.dtype) for name, tensor in states.named(state)]
        assert made == "inside" or all(dtype != torch.bfloat16 for _, dtype in before)
        for x in example.x.split(steps, dim=1):
            y, state = layer(x, state)
            assert [(name, tensor.dtype) for name, tensor in states.named(state)] == before
            assert y.isfinite().all()


@pytest.mark.parametrize(
    ("name", "settings", "dtype", "batch", "expected"),
    [
        ("lstm", {"dim": 768}, torch.float16, 16, True),
        ("rnn", {"dim": 1024}, torch.float16, 128, True),
        ("lstm", {"dim": 768}, torch.bfloat16, 16, False),
        ("gru", {"dim": 512}, torch.float16, 64, False),
        ("lstm", {"dim": 700}, torch.float16, 16, False),
        ("lstm", {"dim": 1152}, torch.float16, 16, False),
        ("lstm", {"dim": 512, "num_layers": 2}, torch.float16, 16, False),
        ("lstm", {"dim": 512}, torch.float16, 20, False),
        ("lstm", {"dim": 512}, torch.float16, 256, False),
    ],
    ids=str,
)
def test_where_cudnn_keeps_the_weights_on_the_chip_it_is_left_to_it(name, settings, dtype, batch, expected):
    """What was found out on an H200: one layer of float16, no gru, widths and batches of certain sizes."""
    assert build(name, **settings).is_persistent_in_cudnn(dtype, batch) is expected
