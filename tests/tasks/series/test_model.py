"""Forecasters: the laws, both ways to look ahead, closed forms, intervals."""

import math
from statistics import NormalDist

import numpy as np
import pytest
import torch

from recollect.core import laws
from recollect.core.contract import ContractError
from recollect.models.body import KINDS
from recollect.tasks.series import model as forecaster
from recollect.tasks.series.window_scale import running_max, window_scale


def build(model="gru", **settings):
    torch.manual_seed(0)
    given = {"lookback": 12, "horizon": 5, "series": 2, "width": 8, "heads": 2, "layers": 1}
    return forecaster.Config(model=model, **given | settings).build().double().eval()


def past(batch=3, lookback=12, series=2):
    return torch.randn(batch, lookback, series, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("channels", ["independent", "joint"])
@pytest.mark.parametrize("model", KINDS)
def test_the_memory_of_every_recursive_forecaster_obeys_the_laws(model, channels):
    memory = build(model, ahead="recursive", segment=2, channels=channels, intervals="gaussian").memory
    laws.check(memory, torch.randn(3, 8, memory.dim, dtype=torch.float64))


@pytest.mark.parametrize(
    ("model", "head"),
    [("lstm", "parallel"), ("transformer", "flatten"), ("tcn", "last"), ("ar", "last"), ("mlp", "last")],
)
def test_the_memory_of_a_direct_forecaster_obeys_the_laws_too(model, head):
    memory = build(model, head=head, layers=2 if model == "tcn" else 1).memory
    laws.check(memory, torch.randn(3, 8, memory.dim, dtype=torch.float64))


@pytest.mark.parametrize("model", KINDS)
def test_what_is_fed_back_gives_what_reading_it_all_again_would(model):
    """One contract step for each prediction, against the whole prefix read anew each time."""
    found = build(model, ahead="recursive", series=1)
    x = past(series=1)
    expected = []
    seen = x
    for _ in range(5):
        y, _ = found.memory(seen)
        expected.append(y[:, -1:])
        seen = torch.cat([seen, y[:, -1:]], dim=1)
    assert torch.allclose(found.forecast(x, 5).mean, torch.cat(expected, dim=1), atol=1e-10)


@pytest.mark.parametrize("segment", [1, 2, 3])
@pytest.mark.parametrize("model", ["gru", "mlp", "transformer"])
def test_taught_with_its_own_words_a_recursive_forecaster_says_the_same(model, segment):
    found = build(model, ahead="recursive", segment=segment)
    alone = found(past())
    assert torch.allclose(found(past(), alone[..., 0]), alone, atol=1e-10)
    other = found(past(), alone[..., 0] + 1)
    assert torch.allclose(other[:, :segment], alone[:, :segment], atol=1e-10)
    assert not torch.allclose(other[:, segment:], alone[:, segment:], atol=1e-3)


def test_longer_forecasts_begin_as_shorter_ones():
    for settings in ({"ahead": "recursive"}, {"ahead": "direct"}):
        found = build(**settings)
        assert torch.allclose(found.forecast(past(), 17).mean[:, :5], found.forecast(past()).mean, atol=1e-12)


def test_a_direct_forecaster_goes_on_from_what_it_said():
    found = build()
    first = found.forecast(past()).mean
    second = found.forecast(torch.cat([past(), first], dim=1)[:, -12:]).mean
    assert torch.allclose(found.forecast(past(), 10).mean, torch.cat([first, second], dim=1), atol=1e-12)


def test_independent_series_do_not_see_each_other_and_joint_ones_do():
    x = past()
    changed = x.clone()
    changed[..., 1] += 1 + torch.arange(12)  # not only the level, which normalising takes out
    for model in ("gru", "ar", "tcn"):
        alone, other = (build(model)(window)[..., 0, 0] for window in (x, changed))
        assert torch.equal(alone, other)
        both, other = (build(model, channels="joint")(window)[..., 0, 0] for window in (x, changed))
        assert not torch.allclose(both, other, atol=1e-6)


def test_the_same_past_in_two_series_is_told_apart_only_by_identity():
    x = past(series=1).expand(-1, -1, 2)
    apart = build(identity=True)(x)
    assert not torch.allclose(apart[..., 0, :], apart[..., 1, :], atol=1e-6)
    same = build(identity=False)(x)
    assert torch.allclose(same[..., 0, :], same[..., 1, :], atol=1e-12)


@pytest.mark.parametrize(("kind", "scales"), [("last", False), ("mean", False), ("window", True)])
@pytest.mark.parametrize("settings", [{}, {"ahead": "recursive"}, {"intervals": "gaussian"}, {"intervals": "quantile"}])
def test_a_normalised_forecast_moves_with_its_window(kind, scales, settings):
    found = build(normalise=kind, **settings)
    x = past() * 100  # beside which the little that is added to the deviation does not show
    size = 3.0 if scales else 1.0
    before, after = found(x), found(x * size + 50)
    assert torch.allclose(after[..., 0], before[..., 0] * size + 50, rtol=1e-6)
    if settings.get("intervals") == "gaussian":
        assert torch.allclose(after[..., 1], before[..., 1] + math.log(size), rtol=1e-6)
    if settings.get("intervals") == "quantile":
        assert torch.allclose(after, before * size + 50, rtol=1e-6)
    plain = build(normalise="none", **settings)
    assert not torch.allclose(plain(x + 50)[..., 0], plain(x)[..., 0] + 50, rtol=1e-3)


def test_a_window_that_never_changes_has_a_scale():
    shift, scale = window_scale(torch.ones(1, 4, 1), "window")
    assert float(shift) == 1
    assert 0 < float(scale) < 0.01


def test_segments_and_patches_cut_the_newest_end_whole():
    x = torch.arange(12.0, dtype=torch.float64)[None, :, None]
    whole = build("gru", series=1, segment=5, head="last")._cut(x)
    assert whole.tolist() == [[[2, 3, 4, 5, 6], [7, 8, 9, 10, 11]]]
    patches = build("gru", series=1, segment=4, stride=3, head="last")._cut(x)
    assert patches.tolist() == [[[2, 3, 4, 5], [5, 6, 7, 8], [8, 9, 10, 11]]]
    joint = build("gru", segment=2, channels="joint", head="last")._cut(past())
    assert torch.equal(joint[:, -1], past()[:, -2:].flatten(1))


def test_parallel_decoding_takes_one_step_from_the_same_state_for_each_segment():
    found = build("gru", series=1, segment=2)
    x = past(series=1)
    shift = x[:, -1:]
    _, state = found.memory(found._cut(x - shift))
    parts = []
    for place in found.places:
        y, _ = found.memory.body(place.expand(3, 1, -1), state)
        parts.append(found.head(y[:, 0]))
    expected = torch.cat(parts, dim=1)[:, :5, None] + shift
    assert torch.allclose(found(x)[..., 0], expected, atol=1e-12)


def test_full_attention_sees_the_future_of_a_patch_and_causal_attention_does_not():
    x = torch.randn(1, 6, 2, dtype=torch.float64)
    later = x.clone()
    later[:, 4:] += 1
    for attention, same in (("full", False), ("causal", True)):
        memory = build("transformer", attention=attention, segment=2, series=1).memory
        before, after = (memory(window)[0][:, :4] for window in (x, later))
        assert torch.allclose(before, after, atol=1e-9) is same


def test_a_window_reads_only_the_steps_that_are_asked_for():
    """`tail` is a shortcut: it owes what the whole call gives."""
    for model in ("ar", "mlp"):
        for tau in (3, 12):
            memory = build(model, ahead="recursive", series=1, layer={"tau": tau}).memory
            x = past(series=1)
            y, state = memory(x)
            for count in (1, 4, 12):
                z, after = memory.tail(x, count)
                assert torch.allclose(z, y[:, -count:], atol=1e-12)
                assert torch.equal(after[0].window, state[0].window)


def windows(series, lookback, horizon):
    at = range(lookback, len(series) - horizon + 1)
    x = np.stack([series[t - lookback : t] for t in at])
    y = np.stack([series[t : t + horizon] for t in at])
    return torch.from_numpy(x), torch.from_numpy(y)


@pytest.mark.parametrize("ahead", ["recursive", "direct"])
def test_a_solved_autoregression_is_that_of_numpys_least_squares(ahead):
    noise = np.random.default_rng(0).normal(size=(200, 1))
    series = np.cumsum(noise, axis=0) * 0.1 + noise
    x, y = windows(series, 4, 1 if ahead == "recursive" else 3)
    found = build("ar", series=1, lookback=4, horizon=y.shape[1], ahead=ahead, normalise="none")
    found.solve([forecaster.Window(x[:100], y[:100]), forecaster.Window(x[100:], y[100:])])
    design = np.concatenate([x[..., 0].numpy(), np.ones((len(x), 1))], axis=1)
    expected, *_ = np.linalg.lstsq(design, y[..., 0].numpy(), rcond=None)
    layer = found.memory.body.layers[0].map
    assert np.allclose(layer.weight.detach().numpy(), expected[:-1].T, atol=1e-9)
    assert np.allclose(layer.bias.detach().numpy(), expected[-1], atol=1e-9)
    assert np.allclose(found(x)[..., 0, 0].detach().numpy(), design @ expected, atol=1e-9)


def test_an_autoregression_that_made_the_series_is_found_again():
    series = [1.0, 0.5]
    for _ in range(60):
        series.append(1.6 * series[-1] - 0.9 * series[-2])
    x, y = windows(np.array(series)[:, None], 2, 1)
    found = build("ar", series=1, lookback=2, horizon=1, ahead="recursive", normalise="none")
    found.solve([forecaster.Window(x, y)])
    assert np.allclose(found.memory.body.layers[0].map.weight.detach().numpy(), [[-0.9, 1.6]], atol=1e-6)
    beyond = found.forecast(x[:1], 40).mean[0, :, 0]
    assert np.allclose(beyond.numpy(), series[2:42], atol=1e-6)


def test_joint_autoregressions_solve_for_all_series_at_once():
    draw = np.random.default_rng(1)
    series = draw.normal(size=(150, 2))
    x, y = windows(series, 3, 2)
    found = build("ar", lookback=3, horizon=2, channels="joint", normalise="none")
    found.solve([forecaster.Window(x, y)])
    design = np.concatenate([x.flatten(1).numpy(), np.ones((len(x), 1))], axis=1)
    expected = design @ np.linalg.lstsq(design, y.flatten(1).numpy(), rcond=None)[0]
    assert np.allclose(found(x)[..., 0].flatten(1).detach().numpy(), expected, atol=1e-9)


def test_ridge_pulls_the_weights_towards_nothing_but_not_the_constant():
    series = np.random.default_rng(0).normal(size=(100, 1)) + 7
    x, y = windows(series, 3, 1)
    found = build("ar", series=1, lookback=3, horizon=1, normalise="none")
    found.solve([forecaster.Window(x, y)], ridge=1e9)
    assert float(found.memory.body.layers[0].map.weight.detach().abs().max()) < 1e-6
    assert float(found.memory.body.layers[0].map.bias.detach()) == pytest.approx(float(y.mean()), abs=1e-3)


def test_a_constant_series_is_solved_although_its_matrix_is_singular():
    x, y = windows(np.full((30, 1), 5.0), 3, 2)
    found = build("ar", series=1, lookback=3, horizon=2, normalise="none")
    found.solve([forecaster.Window(x, y)])
    assert torch.allclose(found(x)[..., 0], y, atol=1e-6)


def test_only_a_linear_autoregression_is_solved():
    with pytest.raises(ContractError, match="only one layer of ar"):
        build("mlp").solve([])


def test_gaussian_intervals_hold_their_share_of_gaussian_noise():
    """An autoregression of order 0 in all but name: the next value is noise around 3."""
    draw = np.random.default_rng(0)
    series = draw.normal(3, 0.5, size=(4000, 1))
    x, y = windows(series, 2, 2)
    found = build("ar", series=1, lookback=2, horizon=2, intervals="gaussian", level=0.9, normalise="none")
    found.solve([forecaster.Window(x, y)])
    mean, lower, upper = found.forecast(x)
    inside = ((lower <= y) & (y <= upper)).double().mean()
    assert float(inside) == pytest.approx(0.9, abs=0.01)
    assert float((upper - lower).mean()) == pytest.approx(2 * 0.5 * NormalDist().inv_cdf(0.95), rel=0.02)
    assert float(mean.mean()) == pytest.approx(3, abs=0.05)


def test_drawn_paths_widen_as_a_random_walks_do():
    """x ← x + N(0, σ²): after h steps the deviation is σ√h."""
    found = build("ar", series=1, lookback=1, horizon=1, ahead="recursive", intervals="gaussian", paths=4000)
    layer = found.memory.body.layers[0].map
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0], [0.0]]))
        layer.bias.copy_(torch.tensor([0.0, math.log(0.5)]))
    x = past(1, 1, 1)
    mean, lower, upper = found.forecast(x, 16)
    assert torch.allclose(mean, x.expand(-1, 16, -1))
    deviation = (upper - lower)[0, :, 0] / 2 / NormalDist().inv_cdf(0.9)
    assert np.allclose(deviation.numpy(), 0.5 * np.sqrt(np.arange(1, 17)), rtol=0.05)
    again = found.forecast(x, 16)
    assert torch.equal(again.lower, lower)


def test_an_interval_never_narrows_with_the_horizon():
    for settings in (
        {"intervals": "gaussian"},
        {"intervals": "quantile"},
        {"ahead": "recursive", "intervals": "gaussian"},
    ):
        found = build(horizon=9, **settings)
        mean, lower, upper = found.forecast(past())
        assert ((mean - lower).diff(dim=1) >= -1e-12).all()
        assert ((upper - mean).diff(dim=1) >= -1e-12).all()
    x = torch.randn(2, 13, 3)
    assert torch.equal(running_max(x), x.cummax(dim=1).values)


def test_an_interval_in_the_scale_of_its_window_grows_with_it():
    found = build(interval_scale="window", normalise="none")
    found.spread.fill_(1.5)
    for size in (1.0, 7.0):
        x = past() * size
        mean, _, upper = found.forecast(x)
        assert torch.allclose(upper - mean, 1.5 * x.std(dim=1, keepdim=True, correction=0).expand_as(mean), rtol=1e-3)


def test_quantiles_never_cross():
    found = build(intervals="quantile", horizon=9)
    mean, lower, upper = found.forecast(past())
    assert (lower <= mean).all()
    assert (mean <= upper).all()


def test_the_pinball_loss_is_least_at_the_quantiles():
    found = build("ar", series=1, horizon=1, intervals="quantile", level=0.8)
    values = torch.from_numpy(np.random.default_rng(0).normal(size=2001))[:, None, None]
    best = []
    for place, share in enumerate((0.5, 0.1, 0.9)):
        guesses = torch.linspace(-2, 2, 401, dtype=torch.float64)
        losses = []
        for guess in guesses:
            said = torch.zeros(2001, 1, 1, 3, dtype=torch.float64)
            said[..., place] = guess
            losses.append(float(found.losses(said, values).mean()))
        best.append((float(guesses[int(np.argmin(losses))]), float(values.flatten().quantile(share))))
    assert np.allclose(*zip(*best, strict=True), atol=0.02)


def test_the_gaussian_loss_is_the_negative_log_likelihood():
    found = build("ar", series=1, horizon=1, intervals="gaussian")
    said = torch.tensor([[[[1.0, math.log(2.0)]]]], dtype=torch.float64)
    future = torch.tensor([[[4.0]]], dtype=torch.float64)
    expected = -torch.distributions.Normal(1.0, 2.0).log_prob(future) - 0.5 * math.log(2 * math.pi)
    assert torch.allclose(found.losses(said, future), expected)


def test_without_errors_measured_there_is_no_interval():
    found = build()
    assert found.forecast(past()).lower.isnan().all()
    found.spread.fill_(0.5)
    mean, lower, upper = found.forecast(past(), 7)
    assert torch.allclose(upper[:, :5] - mean[:, :5], torch.tensor(0.5, dtype=torch.float64))
    assert lower[:, 5:].isnan().all()  # nobody measured how wrong it is that far ahead


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"segment": 13}, "segment of at most the look-back 12"),
        ({"model": "ar", "head": "flatten"}, "ar reads its window"),
        ({"ahead": "recursive", "stride": 2, "segment": 4}, "steps that do not overlap"),
        ({"ahead": "recursive", "head": "last"}, "expected no head"),
        ({"ahead": "recursive", "intervals": "quantile"}, "intervals other than quantile"),
        ({"attention": "full"}, "needs model transformer"),
        ({"model": "transformer", "attention": "full", "head": "parallel"}, "head last or flatten"),
        ({"level": 1.0}, "level between 0 and 1"),
        ({"width": 7}, "an even width"),
        ({"head": "lats"}, "one of 'last', 'flatten', 'parallel'"),
        ({"layer": {"tau": 3}}, "tau"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_in_a_line(settings, message):
    with pytest.raises(ContractError, match=message) as caught:
        build(**settings)
    assert "\n" not in str(caught.value)


def test_windows_of_another_size_are_refused_in_a_line():
    with pytest.raises(ContractError, match=r"windows of shape \(batch, 12, 2\), found \(3, 11, 2\)"):
        build()(past()[:, 1:])
    with pytest.raises(ContractError, match="expected steps of shape"):
        build().memory(torch.zeros(2, 3, 5, dtype=torch.float64))


@pytest.mark.parametrize("series", [1, 2])
@pytest.mark.parametrize("model", [name for name in KINDS if name != "ar"])
def test_the_width_is_found_for_a_number_of_parameters(model, series):
    config = forecaster.Config(model=model, series=series, lookback=48, horizon=24, segment=4, heads=2)
    found = config.sized(20_000, "it")
    # widths go in steps of 4 where there are heads
    assert sum(p.numel() for p in found.build().parameters()) == pytest.approx(20_000, rel=0.15)


@pytest.mark.parametrize("intervals", ["residual", "gaussian", "quantile"])
def test_beyond_its_own_horizon_a_direct_forecast_has_no_interval(intervals):
    """What is fed back is wrong already, and no interval of one look knows by how much."""
    config = forecaster.Config(model="gru", series=2, lookback=12, horizon=5, width=8, intervals=intervals)
    found = config.build().double().eval()
    found.spread.fill_(1.0)
    mean, lower, upper = found.forecast(torch.randn(3, 12, 2, dtype=torch.float64), 12)
    assert mean.isfinite().all()
    assert (lower[:, :5] <= upper[:, :5]).all()
    assert lower[:, 5:].isnan().all()
    assert upper[:, 5:].isnan().all()
