"""Covariates: the calendar, columns known ahead and only so far, of one table and of several series in one file."""

import numpy as np
import pytest
import torch

from recollect import load
from recollect.core.contract import ContractError
from recollect.core.inspection import Request
from recollect.data.files import DataError
from recollect.tasks.series import data
from recollect.tasks.series import model as forecaster
from recollect.tasks.series.covariates import Covariates, calendar_numbers, count_known, find_cycles, read_beside
from recollect.tasks.series.effect import Beside, Effect
from recollect.tasks.series.probe import probe
from recollect.tasks.series.scaler import Scaler
from recollect.tasks.series.tables.layout import Layout
from recollect.tasks.series.tables.table import read_table
from recollect.tasks.series.task import SeriesTask
from recollect.training import run as runs
from tasks.series.cases import configure, write

ROWS = 400


def draw(seed=0):
    return np.random.default_rng(seed)


def warmth(rows=ROWS):
    """A temperature that nothing but a forecast of it can tell."""
    return draw().normal(size=rows)


def driven(rows=ROWS, ahead=0):
    """A table of a load that follows the temperature of the same hour, which is known `ahead` of its end."""
    t = warmth(rows + ahead)
    noise = draw(1).normal(0, 0.1, rows)
    lines = ["hour,load,temperature"]
    lines += [f"{i},{10 + 3 * t[i] + noise[i]:.4f},{t[i]:.4f}" for i in range(rows)]
    lines += [f"{rows + i},,{t[rows + i]:.4f}" for i in range(ahead)]
    return "\n".join(lines) + "\n"


def long(rows=120, late=40):
    """A long table of two places, one of which begins late, each with a temperature of its own."""
    lines = ["place,day,load,temperature"]
    for place, first, level in (("north", 0, 1.0), ("south", late, -1.0)):
        t = draw(int(level) + 1).normal(size=rows)
        lines += [f"{place},{i},{5 * level + level * 2 * t[i]:.4f},{t[i]:.4f}" for i in range(first, rows)]
    return "\n".join(lines) + "\n"


def train(tmp_path, text, model="ar", **settings):
    columns = {name: settings.pop(name) for name in ("known", "past", "target", "id", "time") if name in settings}
    path = write(tmp_path, text)
    config = configure(path, model, **settings)
    config = runs.replace(config, data=runs.replace(config.data, **columns))
    runs.train(SeriesTask, config, str(tmp_path / "run"))
    return load(tmp_path / "run")


# The calendar


def test_a_cycle_is_made_where_the_training_part_has_two(tmp_path):
    def cycles(step, rows):
        times = np.arange(rows) * np.timedelta64(step, "h") + np.datetime64("2021-01-01T00")
        text = "time,x\n" + "".join(f"{time},1\n" for time in times)
        return find_cycles(read_table(write(tmp_path, text)), 0, rows)

    assert cycles(1, 40) == ()
    assert cycles(1, 48) == ("day",)
    assert cycles(1, 24 * 14) == ("day", "week")
    assert cycles(24, 731) == ("week", "year")
    assert cycles(24 * 7, 120) == ("year",)


def test_the_waves_of_a_cycle_come_back_with_it_and_tell_its_points_apart(tmp_path):
    text = "time,x\n" + "".join(f"2024-03-{4 + h // 24:02} {h % 24:02}:00,1\n" for h in range(24 * 15))
    walls = read_table(write(tmp_path, text)).times.walls()
    waves = calendar_numbers(walls, ("day", "week"))
    assert waves.shape == (24 * 15, 13)
    assert np.allclose(waves[: 24 * 8], waves[24 * 7 :])
    assert np.allclose(waves[:24, :6], waves[24:48, :6])
    assert waves[:48, 6:].argmax(axis=1).tolist() == [0] * 24 + [1] * 24
    apart = np.linalg.norm(waves[:, None, :6] - waves[None, :24, :6], axis=-1)[:24] + np.eye(24)
    assert apart.min() > 0.2


def test_a_calendar_is_made_with_columns_that_are_known_and_where_it_is_asked_for(tmp_path):
    rows = "".join(f"2024-01-{1 + h // 24:02} {h % 24:02}:00,{h % 24},{h % 5}\n" for h in range(24 * 19))
    path = write(tmp_path, "time,x,k\n" + rows)
    known = Layout(target=("x",), known=("k",))
    assert data.load(path, Layout(target=("x",))).scaler.covariates.cycles == ()
    found = data.load(path, known)
    assert found.scaler.covariates.cycles == ("day",)
    assert found.beside.known.shape == (456, 1, 7)
    assert any("cycles of the calendar that the model is given: day" in note for note in found.notes)
    assert data.load(path, known, calendar=False).scaler.covariates.cycles == ()
    with pytest.raises(DataError, match="times that are dates, which calendar=true needs, found numbers"):
        data.load(write(tmp_path, driven()), Layout(time="hour"), calendar=True)


# Models


KINDS = [
    ("gru", {"segment": 3}),
    ("gru", {"ahead": "recursive", "intervals": "gaussian"}),
    ("transformer", {"attention": "full"}),
    ("tcn", {"intervals": "quantile"}),
    ("mlp", {"channels": "joint"}),
    ("ar", {"ahead": "recursive"}),
]


def build(model, own, **settings):
    torch.manual_seed(0)
    given = {"lookback": 12, "horizon": 5, "series": 2, "width": 8, "heads": 2, "known_inputs": 3, "past_inputs": 2}
    made = forecaster.Config(model=model, **given | {"own_covariates": own} | settings).build().double().eval()
    made.effect.weight.data.normal_()
    return made


def beside(own, rows=3, length=17):
    generator = torch.Generator().manual_seed(3)
    groups = 2 if own else 1
    shapes = ((rows, length, groups, 3), (rows, 12, groups, 2))
    return Beside(*(torch.randn(*shape, dtype=torch.float64, generator=generator) for shape in shapes))


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("model", "settings"), KINDS, ids=[f"{m} {s}" for m, s in KINDS])
def test_every_forecaster_takes_covariates_at_their_points_and_no_later_ones(model, settings, own):
    found = build(model, own, **settings)
    x = torch.randn(3, 12, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    given = beside(own)
    before = found.forecast(x, beside=given).mean
    for at in (12, 14):
        changed = given.known.clone()
        changed[:, at] += 1
        after = found.forecast(x, beside=given._replace(known=changed)).mean
        same = [h for h in range(5) if h != at - 12]
        assert torch.allclose(after[:, same], before[:, same], atol=1e-10)
        assert not torch.allclose(after[:, at - 12], before[:, at - 12], atol=1e-3)
    changed = given.past.clone()
    changed[:, -1] += 1
    assert not torch.allclose(found.forecast(x, beside=given._replace(past=changed)).mean, before, atol=1e-6)
    longer = found.forecast(x, 9, beside=beside(own, length=21)._replace(past=given.past))
    assert longer.mean.shape == (3, 9, 2)
    with pytest.raises(ContractError, match="expected 3 numbers known ahead beside each point, found 0"):
        found.forecast(x)


def test_what_is_taken_from_the_past_is_what_is_added_ahead():
    """A series that is its effect alone is forecast without error by the last value."""
    found = build("gru", False, past_inputs=0, normalise="last")
    for part in found.head.parameters():
        part.data.zero_()
    known = beside(False).known
    whole = found.effect(known)
    ahead = found.forecast(whole[:, :12], beside=Beside(known, None)).mean
    assert torch.allclose(ahead, whole[:, 12:], atol=1e-10)


def test_a_linear_effect_is_solved_by_least_squares():
    known = torch.randn(200, 1, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weights = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]], dtype=torch.float64)
    effect = Effect(3, 2, 0).double()
    values = known[:, 0] @ weights.T + 7
    values[10, 1] = 1e6
    counts = torch.ones(200, 2, dtype=torch.bool)
    counts[10, 1] = False
    effect.solve(known, values, counts, ridge=0.0)
    assert torch.allclose(effect.weight, weights, atol=1e-8)


# Runs


def test_a_run_uses_what_is_known_ahead_and_needs_it_to_forecast(tmp_path):
    given = {"target": ("load",), "known": ("temperature",), "time": "hour"}
    with_it = train(tmp_path, driven(), **given)
    blind = SeriesTask.load_data(configure(write(tmp_path, driven(), "b.csv"), "ar", target="load").data, None)
    noise = 0.1**2 / blind.scaler.deviation[0] ** 2
    assert with_it.evaluate("test")["figures"]["mse"] == pytest.approx(noise, rel=0.5)
    longer = write(tmp_path, driven(ahead=4), "ahead.csv")
    ahead = with_it.forecast(longer)
    assert ahead.times == ("400", "401", "402", "403")
    assert ahead.mean[:, 0] == pytest.approx(10 + 3 * warmth(ROWS + 4)[-4:], abs=0.4)
    assert ahead.notes == ()
    short = with_it.forecast(write(tmp_path, driven(ahead=2), "short.csv"))
    assert short.times == ("400", "401")
    assert "2 points are forecast, as far as what is known ahead goes" in short.notes[0]
    for text, horizon in ((driven(), None), (driven(ahead=2), 3)):
        with pytest.raises(DataError, match=r"expected temperature for \d rows after the last value of the series"):
            with_it.forecast(write(tmp_path, text, "none.csv"), horizon)


def test_what_is_known_only_so_far_is_read_with_the_past(tmp_path):
    """The load follows the price of the hour before; the price is drawn anew each hour."""
    price = draw().normal(size=ROWS)
    text = "hour,load,price\n" + "".join(f"{i},{5 + 2 * price[i - 1]:.5f},{price[i]:.5f}\n" for i in range(ROWS))
    found = train(tmp_path, text, target=("load",), past=("price",), time="hour", normalise="none", lookback=3)
    figures = found.evaluate("test")["figures"]["by_horizon"]
    assert figures["1"]["mse"] < 1e-6
    assert figures["4"]["mse"] > 0.5
    assert found.forecast(tmp_path / "table.csv").mean[0, 0] == pytest.approx(5 + 2 * price[-1], abs=0.01)


def test_several_series_in_a_long_table_share_a_model_and_keep_their_own_covariates(tmp_path):
    table = read_table(
        write(tmp_path, long()), Layout(id="place", time="day", target=("load",), known=("temperature",))
    )
    assert (table.columns, table.values.shape, table.given.shape) == (("north", "south"), (120, 2), (120, 2, 1))
    assert np.isnan(table.values[:40, 1]).all()
    given = {"id": "place", "target": ("load",), "known": ("temperature",), "time": "day"}
    found = train(tmp_path, long(), **given, lookback=2, horizon=1, normalise="none")
    assert found.evaluate("test")["figures"]["mse"] < 0.05
    task = runs.load(tmp_path / "run").task
    late = task.window([30, 45])
    assert late.counts[:, 0].tolist() == [[True, False], [True, True]]
    both = read_table(write(tmp_path, long()), Layout(id="place", time="day"))
    assert both.columns == ("north load", "north temperature", "south load", "south temperature")


@pytest.mark.parametrize("model", ["gru", "mlp"])
def test_a_trained_network_and_its_instruments_take_covariates(tmp_path, model):
    given = {"target": ("load",), "known": ("temperature",), "time": "hour"}
    found = train(tmp_path, driven(), model, **given, steps=60, lr=0.03, lookback=4, horizon=2)
    figures = found.evaluate("test")
    assert figures["figures"]["mse"] < 0.3 * figures["rivals"]["mean"]["mse"]
    assert max(found.verify().values()) < 1e-10
    run = runs.load(tmp_path / "run")
    looked = probe(run, Request(rows=3))
    batch = run.task.window(list(run.task.origins("valid"))[:1])
    effect = run.model.effect(batch.known)[0]
    answer = looked.model(looked.x[:1].repeat(5, 1, 1), ())[0]  # any number of rows, as instruments ask
    whole = run.model.forecast(batch.x, beside=batch.beside).mean[0]
    assert torch.allclose(answer[4] + effect[4:], whole, atol=1e-5)


def test_gaps_are_filled_with_what_is_known_there(tmp_path):
    lines = driven().split("\n")
    hour, _, temperature = lines[101].split(",")
    lines[101] = f"{hour},,{temperature}"
    found = train(tmp_path, driven(), target=("load",), known=("temperature",), time="hour")
    (row,) = found.fill(write(tmp_path, "\n".join(lines), "gap.csv"))
    assert (row.time, row.mean) == ("100", pytest.approx(10 + 3 * warmth()[100], abs=0.5))


def test_a_column_has_one_place(tmp_path):
    with pytest.raises(ContractError, match="expected column 'x' in one place, found it in target and known"):
        Layout(target=("x",), known=("x",)).check_names()
    with pytest.raises(DataError, match="a column 'temprature', found .* did you mean 'temperature'"):
        read_table(write(tmp_path, driven()), Layout(known=("temprature",)))


def test_covariates_are_kept_with_the_scaler_and_read_strictly(tmp_path):
    found = data.load(write(tmp_path, driven()), Layout(target=("load",), known=("temperature",), time="hour")).scaler
    found.save(tmp_path / "scaler.json")
    assert Scaler.load(tmp_path / "scaler.json") == found
    assert found.covariates.mean[0] == pytest.approx(warmth()[:280].mean(), abs=1e-4)
    text = (tmp_path / "scaler.json").read_text()
    (tmp_path / "scaler.json").write_text(text.replace('"cycles": []', '"cycles": ["moon"]'))
    with pytest.raises(DataError, match="expected a scaler in JSON, found something else"):
        Scaler.load(tmp_path / "scaler.json")


def test_gaps_of_what_is_known_are_closed_by_lines_and_of_what_is_not_by_the_last_value(tmp_path):
    table = read_table(write(tmp_path, "x,k,p\n1,0,0\n2,,3\n3,4,\n4,6,5\n"), Layout(known=("k",), past=("p",)))
    plain = Covariates(known=("k",), past=("p",), mean=(0.0, 0.0), deviation=(1.0, 1.0))
    found = read_beside(table, plain, 4, 0)
    assert found.known[:, 0, 0].tolist() == [0, 2, 4, 6]
    assert found.past[:, 0, 0].tolist() == [0, 3, 3, 5]
    assert count_known(table, plain, 1) == 0
    assert count_known(table, plain, 2) == 2
