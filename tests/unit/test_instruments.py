"""The instruments against what is known from outside: closed forms, finite differences, brute force, reach."""

import copy
import json
import math
from typing import NamedTuple

import pytest
import torch
from torch import nn

from recollect import layers
from recollect.core import state as states
from recollect.core.attribution import normalize_rows
from recollect.core.chart import Chart, Line
from recollect.core.contract import Cell, ContractError, Cost
from recollect.core.inspection import Probe, Reading, slope
from recollect.data.files import Unreachable
from recollect.measure import attention, cost, gradient_flow, horizon, influence, instruments
from recollect.measure import state as state_of
from recollect.measure.flops import Counter
from recollect.measure.inputs import counted, traced, without
from recollect.models import classifier, language, ngram
from recollect.tasks.series import model as forecaster
from recollect.tasks.series.probe import Whole
from recollect.tasks.text import data as corpus
from recollect.tasks.text import mixture

KINDS = tuple(language.KINDS)
VOCAB = 7


class Hidden(NamedTuple):
    h: torch.Tensor  # B W


class LinearRnn(Cell[Hidden]):
    """h ← W x + U h: its gradients are powers of U."""

    def __init__(self, dim=3, width=4, radius=0.9):
        super().__init__()
        self.dim, self.width = dim, width
        torch.manual_seed(3)
        self.W = nn.Parameter(torch.randn(width, dim, dtype=torch.float64))
        U = torch.randn(width, width, dtype=torch.float64)
        self.U = nn.Parameter(U * radius / torch.linalg.eigvals(U).abs().max())
        self.double()

    def initial_state(self, batch, memory=None, like=None, capacity=None):
        return Hidden(self.like(like).new_zeros(batch, self.width))

    def update(self, state, x):
        return Hidden(x @ self.W.T + state.h @ self.U.T)

    def read(self, state, x):
        return state.h

    def cost(self, batch, steps, source=0):
        return Cost(2 * batch * steps * self.width * (self.dim + self.width), batch * self.width * 8)


def build(model, seed=0, **settings):
    """A language model with weights large enough that everything matters."""
    torch.manual_seed(seed)
    given = {"width": 8, "layers": 2, "heads": 2} | settings
    found = language.Config(vocab=VOCAB, model=model, **given).build().double().eval()
    with torch.no_grad():
        for weight in found.parameters():
            if weight.dim() > 1:
                weight.mul_(3 if model in ("transformer", "linear-transformer", "ttt-linear", "ttt-mlp") else 1.2)
    return found


def counting(order=3):
    torch.manual_seed(0)
    return ngram.Config(order=order, vocab=VOCAB).build().train_on(torch.randint(VOCAB, (400,)).numpy()).eval()


def subject(model, rows=2, steps=10, seed=0):
    x = torch.randint(VOCAB, (rows, steps + 1), generator=torch.Generator().manual_seed(seed))
    names = [str(int(token)) for token in x[0]]
    return Probe(
        model=model,
        x=x[:, :-1],
        y=x[:, 1:],
        places=range(steps),
        inputs=names[:-1],
        outputs=names[1:],
        stepper=model,
        steps=x[:, :-1],
    )


every_kind = pytest.mark.parametrize("kind", KINDS)


# ------------------------------------------------------------------------------------------------ where inputs enter


@every_kind
def test_tokens_enter_where_their_vectors_are(kind):
    model = build(kind)
    x = torch.randint(VOCAB, (2, 5))
    y, (seen,) = traced(lambda x: model(x)[0], model, x)
    assert torch.equal(seen, model.embedding(x))
    assert torch.allclose(y, model(x)[0])
    assert not model.embedding._forward_hooks, "nothing is left behind"


def test_what_counts_and_what_has_several_tables_is_refused():
    x = torch.randint(VOCAB, (1, 4))
    for model, why in ((counting(), "one that counts"), (mixture.Mixture(build("gru"), build("rnn")), "found several")):
        with pytest.raises(ContractError, match=why):
            traced(lambda x, model=model: model(x)[0], model, x)
    assert counted(mixture.Mixture(build("gru"), counting()))
    assert not counted(build("gru"))


def test_zeros_take_the_place_of_a_vector():
    model = build("gru")
    x = torch.tensor([[1, 2, 3], [1, 2, 3]])
    gone = torch.tensor([[False, True, False], [False, False, False]])
    found = without(lambda x: model(x)[0], model, x, gone)
    vectors = model.embedding(x).masked_fill(gone[..., None], 0)
    assert torch.allclose(found, model.head(model.body(vectors, model.initial_state(2))[0]))
    assert not torch.allclose(found[0, 1:], found[1, 1:])


# ------------------------------------------------------------------------------------------------ gradients


def test_the_flow_of_a_linear_rnn_is_a_matrix_power():
    """∂h_T/∂x_{T−k} = Uᵏ W."""
    layer = LinearRnn()
    found = gradient_flow.flow(layer, torch.randn(2, 9, 3, dtype=torch.float64))
    with torch.no_grad():
        expected = torch.stack([(torch.linalg.matrix_power(layer.U, k) @ layer.W).norm() for k in range(9)])
    assert torch.allclose(found, expected.expand(2, -1), rtol=1e-12)


def test_one_step_of_a_linear_rnn_has_the_jacobian_and_the_spectrum_of_its_matrix():
    layer = LinearRnn()
    state = Hidden(torch.randn(1, 4, dtype=torch.float64))
    found = gradient_flow.jacobian(layer, torch.randn(1, 1, 3, dtype=torch.float64), state)
    assert torch.allclose(found, layer.U)
    given = subject(None)
    x = torch.randn(1, 6, 3, dtype=torch.float64)
    own = Probe(**vars(given) | {"model": layer, "stepper": layer, "x": x, "steps": x, "categorical": False})
    spectrum = gradient_flow.spectrum(own)
    assert spectrum.radius == pytest.approx([0.9] * len(spectrum.steps))
    assert spectrum.singular[0] == pytest.approx(torch.linalg.svdvals(layer.U.detach()).tolist())


@pytest.mark.parametrize(("radius", "verdict"), [(0.5, "vanishing"), (1.6, "exploding"), (1.0, "carried")])
def test_vanishing_and_exploding_are_named_and_the_factor_is_the_spectral_radius(radius, verdict):
    layer = LinearRnn(radius=radius)
    found = gradient_flow.summarise(gradient_flow.flow(layer, torch.randn(1, 60, 3, dtype=torch.float64)))
    assert found.verdict == verdict
    assert found.words.startswith(verdict)
    assert found.factor == pytest.approx(radius, rel=0.02)


@every_kind
def test_the_flow_is_how_far_a_small_change_of_each_vector_goes(kind):
    """Finite differences in every direction, in float64."""
    model, x, step = build(kind), torch.randint(VOCAB, (1, 6)), 1e-5
    found = gradient_flow.flow(model, x)[0].flip(0)
    with torch.no_grad():
        vectors = model.embedding(x)

        def last(vectors):
            return model.head(model.body(vectors, model.initial_state(1))[0][:, -1])[0]

        for t in range(6):
            columns = []
            for e in range(vectors.shape[2]):
                up, down = vectors.clone(), vectors.clone()
                up[0, t, e] += step
                down[0, t, e] -= step
                columns.append((last(up) - last(down)) / (2 * step))
            assert float(found[t]) == pytest.approx(float(torch.stack(columns).norm()), rel=1e-4, abs=1e-9)


def test_random_directions_estimate_what_all_of_them_give(monkeypatch):
    model, x = build("gru"), torch.randint(VOCAB, (2, 6))
    exact = gradient_flow.flow(model, x)
    monkeypatch.setattr(gradient_flow, "EXACT", 0)
    monkeypatch.setattr(gradient_flow, "PROBES", 400)
    assert torch.allclose(gradient_flow.flow(model, x), exact, rtol=0.15)


@pytest.mark.parametrize(
    ("kind", "settings", "reach"),
    [
        ("ar", {"layers": 1, "layer": {"tau": 3}}, 2),
        ("ar", {"layers": 2, "layer": {"tau": 3}}, 4),
        ("mlp", {"layers": 1, "layer": {"tau": 4}}, 3),
        ("tcn", {"layers": 2, "layer": {"kernel": 2}}, 2 * 1 + 2 * 2),  # two convolutions a block, dilated by 1 and 2
        ("transformer", {"layers": 1, "layer": {"window": 4}}, 3),
        ("transformer", {"layers": 2, "layer": {"window": 3}}, 4),
    ],
)
def test_no_gradient_comes_from_beyond_a_receptive_field(kind, settings, reach):
    found = gradient_flow.summarise(gradient_flow.flow(build(kind, **settings), torch.randint(VOCAB, (8, 12))))
    assert found.reach == reach
    assert found.verdict == "cut off"
    assert not any(found.mean[reach + 1 :])


@every_kind
def test_the_jacobian_of_a_state_is_that_of_finite_differences(kind):
    model, step = build(kind, layers=1, width=4), 1e-6
    x = torch.randint(VOCAB, (1, 5))
    with torch.no_grad():
        _, state = model(x[:, :-1])
    if kind == "transformer":
        with pytest.raises(ContractError, match="fixed size"):
            gradient_flow.jacobian(model, x[:, -1:], state)
        return
    found = gradient_flow.jacobian(model, x[:, -1:], state)
    floats = [i for i, tensor in enumerate(states.leaves(state)) if tensor.is_floating_point()]

    def after(place, entry, by):
        parts = [tensor.clone() for tensor in states.leaves(state)]
        parts[place].view(-1)[entry] += by
        waiting = iter(parts)
        with torch.no_grad():
            _, new = model(x[:, -1:], states.map(lambda _: next(waiting), state))
        return torch.cat([states.leaves(new)[i].flatten() for i in floats])

    columns = [
        (after(place, entry, step) - after(place, entry, -step)) / (2 * step)
        for place in floats
        for entry in range(states.leaves(state)[place].numel())
    ]
    assert torch.allclose(found, torch.stack(columns, dim=1), atol=1e-6)


def test_a_state_too_large_is_told():
    model = build("lstm", width=600)
    with pytest.raises(ContractError, match="1 to 2,048 numbers, found 2,4"):
        gradient_flow.jacobian(model, torch.zeros(1, 1, dtype=torch.int64), model.initial_state(1))


# ------------------------------------------------------------------------------------------------ influence


@every_kind
def test_no_input_matters_to_an_output_before_it_by_either_measure(kind):
    given = subject(build(kind))
    above = torch.ones(10, 10).triu(1).bool()
    for found in (influence.by_gradient(given), influence.by_ablation(given), influence.by_ablation(given, by="zero")):
        assert float(found[above].max()) < 1e-12
        assert float(found.diagonal().min()) > 0


@every_kind
def test_influence_is_the_gradient_of_what_came(kind):
    given = subject(build(kind), rows=1, steps=5)
    found = influence.by_gradient(given)
    model = given.model
    vectors = model.embedding(given.x).detach().requires_grad_()
    likely = model.head(model.body(vectors, model.initial_state(1))[0])[0].log_softmax(dim=-1)
    for t in range(5):
        (slope,) = torch.autograd.grad(likely[t, given.y[0, t]], vectors, retain_graph=True)
        assert torch.allclose(found[t], slope[0].norm(dim=-1).float(), atol=1e-6)


@pytest.mark.parametrize("kind", ["ngram", "gru", "transformer"])
def test_ablation_is_what_replacing_each_token_by_hand_does(kind):
    """With two kinds of tokens there is only one other to draw."""
    model = counting() if kind == "ngram" else build(kind)
    x = torch.tensor([[1, 4, 4, 1, 4, 1, 1]])
    given = Probe(**vars(subject(model, rows=1, steps=6)) | {"x": x[:, :-1], "y": x[:, 1:]})
    found = influence.by_ablation(given, draws=3)
    with torch.no_grad():
        before = model(x[:, :-1])[0].log_softmax(dim=-1)[0]
        for s in range(6):
            other = x[:, :-1].clone()
            other[0, s] = 5 - other[0, s]
            after = model(other)[0].log_softmax(dim=-1)[0]
            expected = (before.exp() * (before - after)).sum(dim=-1)
            assert torch.allclose(found[:, s], expected.float(), atol=1e-6)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_an_ngram_model_rests_on_its_last_tokens_alone(order):
    found = influence.by_ablation(subject(counting(order), steps=8), draws=2)
    for t in range(8):
        assert not found[t, : max(0, t - order + 2)].any()
    if order > 1:
        assert float(found.diagonal().min()) > 0


def test_influence_on_numbers_is_a_length():
    """A forecaster that says twice its last value."""

    class Twice(nn.Module):
        config = forecaster.Config(lookback=4, horizon=2)

        def forward(self, past):
            return 2 * past[:, -1:].expand(-1, 2, -1)[..., None]

    x = torch.randn(2, 4, 1, dtype=torch.float64)
    names = ["a", "b", "c", "d"]
    given = Probe(
        model=Whole(Twice()),
        x=x,
        y=x[:, :2],
        places=range(2),
        inputs=names,
        outputs=names[:2],
        categorical=False,
        ahead=True,
    )
    assert influence.by_gradient(given).tolist() == [[0, 0, 0, 2], [0, 0, 0, 2]]
    found = influence.by_ablation(given, by="zero")
    assert torch.allclose(found, torch.tensor([0, 0, 0, 2 * abs(float(x[0, -1, 0]))]).expand(2, -1).float())
    assert horizon.by_gradient(gradient_flow.flow_of(given)).reach == 1
    assert horizon.by_ablation(given).reach == 1, "what lies before is not missed"


def test_rows_become_shares_and_nothing_stays_nothing():
    found = normalize_rows(torch.tensor([[1.0, 3.0], [0.0, 0.0]]))
    assert found.tolist() == [[0.25, 0.75], [0, 0]]


# ------------------------------------------------------------------------------------------------ attention


@pytest.mark.parametrize("window", [None, 3])
def test_attention_weights_stand_at_the_steps_they_look_at(window):
    """Against the weights of the layer's own equations, ring or no ring."""
    own = {} if window is None else {"layer": {"window": window}}
    model = build("transformer", layers=1, **own)
    given = subject(model, rows=1, steps=7)
    found = attention.weights(given)
    assert list(found) == ["layer 1 head 1", "layer 1 head 2"]
    block = model.body.layers[0]
    layer = block.layer
    x = block.norm.apply_to(model.embed(given.x))
    now = torch.arange(7)[None]
    q, (k, _) = layer.query(x, now)[0], layer.project_keys_values(x, now)
    for head in range(2):
        scores = q[:, head] @ k[0, :, head].T / math.sqrt(q.shape[-1])
        far = torch.arange(7)[:, None] - torch.arange(7)
        seen = (far >= 0) & (far < (window or 99))
        expected = scores.masked_fill(~seen, -math.inf).softmax(dim=-1)
        assert torch.allclose(found[f"layer 1 head {head + 1}"], expected.float(), atol=1e-6)


def test_a_model_without_attention_has_no_weights_and_a_layer_that_is_not_there_is_told():
    assert attention.weights(subject(build("lstm"))) == {}
    given = subject(build("transformer"))
    heads = attention.weights(given)
    assert len(heads) == 4
    assert len(attention.maps(given, heads, layer=2)) == 3, "two heads and their mean"
    with pytest.raises(ContractError, match="from 1 to 2, found 5"):
        attention.maps(given, heads, layer=5)


# ------------------------------------------------------------------------------------------------ horizon


@pytest.mark.parametrize("tau", [1, 2, 4])
def test_the_horizon_of_a_window_is_at_most_the_window(tau):
    given = subject(build("ar", layers=1, layer={"tau": tau}), rows=40, steps=12)
    assert horizon.by_gradient(gradient_flow.flow_of(given)).reach <= tau
    found = horizon.by_ablation(given)
    assert found.lengths == [1, 2, 4, 8, 12]
    assert found.reach <= tau
    beyond = [loss for k, loss in zip(found.lengths, found.curve, strict=True) if k >= tau]
    assert beyond == pytest.approx([found.curve[-1]] * len(beyond))


def test_the_horizon_of_an_ngram_model_is_its_order_less_one():
    """A text in which each token follows from the two before it: with fewer, nothing is sure."""
    draw = torch.Generator().manual_seed(0)
    table = torch.stack([torch.randperm(VOCAB, generator=draw) for _ in range(VOCAB)])
    tokens = [0, 1]
    while len(tokens) < 3000:
        if len(tokens) % 6 < 2:
            tokens.append(int(torch.randint(VOCAB, (), generator=draw)))
        else:
            tokens.append(int(table[tokens[-2], tokens[-1]]))
    model = ngram.Config(order=3, vocab=VOCAB).build().train_on(torch.tensor(tokens).numpy()).eval()
    rows = torch.tensor(tokens[: 12 * 200]).view(200, 12)[:, :9]
    given = Probe(**vars(subject(model, steps=8)) | {"x": rows[:, :-1], "y": rows[:, 1:]})
    found = horizon.by_ablation(given)
    assert found.reach == 2
    assert found.curve[0] > 1.5 * found.curve[1]
    assert found.curve[1] == pytest.approx(found.curve[-1])


def test_the_horizon_by_ablation_is_brute_force_over_windows():
    given = subject(build("lstm"), rows=5, steps=6)
    found = horizon.by_ablation(given)
    for k, loss in zip(found.lengths, found.curve, strict=True):
        each = []
        for row in range(5):
            with torch.no_grad():
                logits, _ = given.model(given.x[row : row + 1, 6 - k :])
            each.append(-float(logits[0, -1].log_softmax(dim=-1)[given.y[row, -1]]))
        assert loss == pytest.approx(sum(each) / 5)


@pytest.mark.parametrize(
    ("curve", "reach"),
    [
        ([2.0, 1.5, 1.01, 1.0], 4),
        ([2.0, 1.5, 1.011, 1.0], 8),
        ([1.005, 1.01, 1.0, 1.0], 1),  # nothing is gained by more
        ([20.0, 5.0, 0.002, 0.0007], 4),  # of a loss near 0, 1 % would be nothing
        ([20.0, 5.0, 0.3, 0.0007], 8),
        ([1.0, 1.2, 1.1, 1.0], 1),
        ([0.0, 0.0, 0.0, 0.0], 1),
        ([math.nan] * 4, 8),
    ],
)
def test_enough_is_within_a_hundredth_of_the_loss_or_of_what_all_inputs_save(curve, reach):
    assert horizon.enough([1, 2, 4, 8], curve) == reach


def test_the_horizon_by_gradient_is_where_the_share_is_reached():
    found = horizon.by_gradient(torch.tensor([[80.0, 10.0, 5.0, 4.0, 1.0]]))
    assert found.reach == 3
    assert found.curve == pytest.approx([0.8, 0.9, 0.95, 0.99, 1.0])


# ------------------------------------------------------------------------------------------------ the state


@every_kind
def test_the_state_is_followed_to_where_the_whole_text_leads(kind):
    given = subject(build(kind))
    track = state_of.follow(given)
    y, last = given.model(given.x[:1])
    assert torch.allclose(track.outputs, y[0], atol=1e-10)
    final = {name: tensor for name, tensor in states.named(last) if tensor.is_floating_point()}
    assert set(track.tensors) == set(final)
    for name, tensor in final.items():
        assert torch.allclose(track.tensors[name][-1], tensor[0], atol=1e-10)
        assert len(track.tensors[name]) == 10
    assert all(track.grows(name) == (kind == "transformer") for name in track.tensors)


@every_kind
def test_a_changed_input_moves_nothing_before_it_and_something_at_it(kind):
    given = subject(build(kind))
    found = state_of.effect(given, at=4)
    for way in found["states"].values():
        assert max(way[:4]) < 1e-12
    assert max(way[4] for way in found["states"].values()) > 0
    assert max(map(abs, found["outputs"][:4])) < 1e-12
    assert found["outputs"][4] > 0
    assert found["token"] != int(given.x[0, 4])


def test_a_window_forgets_a_change_after_its_length():
    found = state_of.effect(subject(build("ar", layers=1, layer={"tau": 3})), at=2)
    (way,) = found["states"].values()
    assert [distance > 0 for distance in way] == [False, False, True, True, True, *[False] * 5]


def test_a_change_in_a_linear_rnn_fades_by_its_matrix():
    layer = LinearRnn()
    x = torch.randn(1, 8, 3, dtype=torch.float64)
    base = vars(subject(layer, rows=1, steps=8))
    given = Probe(**base | {"x": x, "steps": x, "categorical": False})
    found = state_of.effect(given, at=2)["states"]["h"]
    track = state_of.follow(given).tensors["h"]
    ones = torch.ones(3, dtype=torch.float64)
    for t in range(2, 8):
        moved = (torch.linalg.matrix_power(layer.U, t - 2) @ layer.W @ ones).detach()
        assert found[t] == pytest.approx(float(moved.norm() / track[t].norm()))


def test_steps_outside_the_text_and_words_that_are_several_tokens_are_told():
    given = subject(build("gru"))
    with pytest.raises(ContractError, match="from 1 to 10, found 12"):
        state_of.effect(given, at=11)
    with pytest.raises(ContractError, match="reads words"):
        given.token("a")
    with pytest.raises(ContractError, match="one token, found 2 in 'ab'"):
        Probe(**vars(given) | {"encode": lambda text: [0] * len(text)}).token("ab")


# ------------------------------------------------------------------------------------------------ cost


@every_kind
def test_declared_and_measured_stand_side_by_side(kind):
    model, x = build(kind).float(), torch.randint(VOCAB, (1, 12))
    found = cost.measure(model, x, tries=1)
    assert cost.step_flops(model, x, None, [5, 12]) == {steps: model.cost(1, steps).flops for steps in (5, 12)}
    assert found["flops"]["parallel"] >= found["flops"]["declared"]
    assert found["state"]["measured"] == found["state"]["declared"]
    assert all(seconds > 0 for seconds in found["seconds"].values())
    assert found["kept"] > 0


def test_a_cache_takes_two_vectors_a_layer_and_token():
    model = build("transformer", layers=3, width=8).float()
    for length in (4, 16):
        found = cost.measure(model, torch.randint(VOCAB, (1, length)), tries=1)
        assert found["state"]["measured"] == 3 * (2 * length * 8 * 4 + 8)


def test_what_training_keeps_is_what_autograd_saves_of_a_product():
    """y = x·W, z = y²: x is kept for W's gradient and y for the square; W itself is a weight."""
    layer = nn.Linear(4, 5, bias=False)
    x = torch.randn(3, 4)
    assert cost.saved_bytes(layer, lambda: layer(x).square()) == 4 * (3 * 4 + 3 * 5)


def test_exponents_are_those_of_powers():
    lengths = [8, 16, 32, 64]
    assert cost.exponent(lengths, [3 * n**2 for n in lengths]) == pytest.approx(2)
    assert cost.exponent(lengths, [5.0] * 4) == pytest.approx(0)
    assert cost.exponent(lengths, [0.0] * 4) is None


@pytest.mark.slow
def test_attention_costs_more_and_more_a_step_and_recurrence_does_not():
    given = {kind: subject(build(kind, layers=1, width=4).float(), rows=1) for kind in ("transformer", "lstm")}
    found = {kind: cost.read(own, lengths=(64, 128, 256), tries=1).figures for kind, own in given.items()}
    assert found["lstm"]["exponents"]["flops, declared"] == pytest.approx(1)
    assert found["lstm"]["exponents"]["state, measured"] == pytest.approx(0)
    assert found["transformer"]["exponents"]["flops, declared"] > 1.5
    assert found["transformer"]["exponents"]["state, measured"] == pytest.approx(1, abs=0.01)


def test_positions_that_end_are_told_and_what_was_measured_stays():
    model = build("transformer", positions="learned", max_positions=20).float()
    found = cost.read(subject(model), lengths=(8, 16, 32), tries=1)
    assert [row["length"] for row in found.figures["rows"]] == [8, 16]
    assert found.summary[-1].startswith("no further than 16")


def test_the_counter_sees_a_fused_lstm():
    model = build("lstm", layers=1).float()
    x = torch.randint(VOCAB, (1, 9))
    with torch.no_grad(), Counter() as counter:
        model(x)
    assert counter.flops == model.cost(1, 9).flops


# ------------------------------------------------------------------------------------------------ readings


def test_a_reading_is_json_without_numbers_that_json_lacks():
    line = Line(name="a", x=[1, 2], y=[math.inf, 1.0])
    found = Reading(
        summary=["said"], figures={"a": (math.nan, 2)}, charts=[Chart(title="t", x="x", y="y", lines=[line])]
    ).to_json()
    assert found["a"] == [None, 2]
    assert found["charts"][0]["lines"][0]["y"] == [None, 1.0]


def test_a_slope_is_that_of_least_squares():
    assert slope([0, 1, 2], [1, 3, 5]) == pytest.approx(2)
    assert math.isnan(slope([1], [1]))


def test_a_subject_in_float64_leaves_the_model_as_it_was():
    model = build("gru").float()
    exact = subject(model).double()
    assert exact.model is exact.stepper is not model
    assert next(exact.model.parameters()).dtype == torch.float64
    assert next(model.parameters()).dtype == torch.float32


@pytest.mark.parametrize("pool", ["last", "mean", "attention"])
def test_a_classifier_is_looked_at_as_any_other_model(pool):
    torch.manual_seed(0)
    config = classifier.Config(model="gru", inputs=VOCAB, outputs=3, width=8, layers=1, pool=pool)
    model = config.build().double().eval()
    given = Probe(**vars(subject(model)) | {"y": torch.ones(2, 10, dtype=torch.int64)})
    found = influence.by_gradient(given)
    assert not found.triu(1).any()
    assert found.diagonal().all()
    with torch.no_grad():
        expected = -model(given.x)[0][:, -1].log_softmax(dim=-1)[:, 1].mean()
    assert horizon.by_ablation(given).curve[-1] == pytest.approx(float(expected))
    assert gradient_flow.spectrum(given).size == 8 + (0 if pool == "last" else 9)


def test_every_layer_of_the_registry_can_be_asked_for_its_flow():
    for name in layers.LINEAGE:
        config = layers.LINEAGE[name](dim=6)
        torch.manual_seed(0)
        layer = copy.deepcopy(config.build()).double().eval()
        example = config.example(2, 7)
        found = gradient_flow.flow(layer, example.x, example.memory)
        assert found.shape == (2, 7)
        assert float(found[:, 0].min()) > 0, name


@pytest.mark.parametrize("what", ["gradients", "horizon"])
def test_a_shipped_run_can_be_looked_into_where_its_data_cannot_be_had(what, monkeypatch):
    """It reads a text of its own, the same every time, and says so."""

    def nowhere(*_, **__):
        raise Unreachable("expected to download it, found nothing")

    monkeypatch.setattr(corpus.TextSet, "find", nowhere)
    first, second = (instruments.inspect("demo-text", what, steps=12, rows=2) for _ in range(2))
    assert any("a text of the model's own is read" in note for note in first.notes)
    assert "its own writing" in json.dumps(first.to_json())
    assert first.figures == second.figures
