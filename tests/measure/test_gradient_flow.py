"""Gradients through time against matrix powers, finite differences and receptive fields."""

import copy

import pytest
import torch

from measure.probes import VOCAB, Hidden, LinearRnn, build, every_kind, subject
from recollect import layers
from recollect.core import state as states
from recollect.core.contract import ContractError
from recollect.core.inspection import Probe
from recollect.measure import gradient_flow


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


@pytest.mark.parametrize("steps", [4, 8, 60])
@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(0.809, "vanishing"), (0.893, "vanishing"), (0.94, "carried"), (1.06, "carried"), (1.09, "exploding")],
)
def test_a_factor_has_one_name_however_long_the_input_is(factor, verdict, steps):
    norms = factor ** torch.arange(steps, dtype=torch.float64)[None]
    found = gradient_flow.summarise(norms)
    assert found.factor == pytest.approx(factor)
    assert found.verdict == verdict
    rule = {
        "vanishing": "less than a tenth over 32 steps",
        "carried": "between a tenth and ten times as much over 32 steps",
        "exploding": "more than ten times as much over 32 steps",
    }
    made = f"× {factor:.3f} a step, fitted over {steps - 1} steps, makes × {factor**32:.2g} over 32"
    assert found.words == f"{verdict}, {rule[verdict]}: {made}"


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


def test_every_layer_of_the_registry_can_be_asked_for_its_flow():
    for name in layers.LINEAGE:
        config = layers.LINEAGE[name](dim=6)
        torch.manual_seed(0)
        layer = copy.deepcopy(config.build()).double().eval()
        example = config.example(2, 7)
        found = gradient_flow.flow(layer, example.x, example.memory)
        assert found.shape == (2, 7)
        assert float(found[:, 0].min()) > 0, name
