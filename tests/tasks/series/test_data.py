"""Series as data: notes, parts, known sets and the noisy sine."""

import math
import os

import numpy as np
import pytest

from recollect.core.contract import ContractError
from recollect.data.files import DataError
from recollect.tasks.series import data
from recollect.tasks.series.settings import Config, DataConfig
from recollect.tasks.series.sources import noisy_sine
from recollect.tasks.series.task import SeriesTask
from recollect.training import run as runs
from tasks.series.cases import configure, write


def test_rows_beside_the_grid_are_noted_or_refused(tmp_path):
    text = "time,x\n" + "".join(f"{t},{t}\n" for t in (1, 2, 3, 4.5, 5, 6, 7.2, 8, 9))
    path = write(tmp_path, text)
    found = data.load(path)
    assert len(found.values) == 9
    assert any("2 rows beside the grid of 1, the first row 5; put them on one with --every" in n for n in found.notes)
    assert found.times.after(2) == ["10", "11"]
    with pytest.raises(DataError, match="expected even time steps, found 2 rows beside the grid"):
        data.load(path, even=True)


def test_missing_rows_are_noted_or_refused(tmp_path):
    path = write(tmp_path, "time,x\n" + "".join(f"{t},{t}\n" for t in (1, 2, 3, 5, 6, 7, 8, 9, 10, 12)))
    found = data.load(path)
    assert found.values[:, 0].tolist() == list(range(1, 13))
    assert any("2 of 12 rows are missing on the grid of 1, the first at 4: put in" in note for note in found.notes)
    with pytest.raises(DataError, match="expected even time steps, found that 2 of 12 rows are missing"):
        data.load(path, even=True)


def test_what_is_masked_does_not_count_in_the_scale(tmp_path):
    """b climbs by 1 with each row, where it was measured."""
    rows = [f"{t % 5},{'' if 10 <= t < 20 else t}\n" for t in range(40)]
    found = data.load(write(tmp_path, "a,b\n" + "".join(rows)), fill="mask", period=1).scaler
    measured = np.array([*range(10), *range(20, 28)])
    assert found.mean[1] == pytest.approx(measured.mean())
    assert found.deviation[1] == pytest.approx(measured.std())
    assert found.naive[1] * found.deviation[1] == pytest.approx(1)
    late = "a,b\n" + "".join(f"{t},{'' if 0 < t < 35 else t}\n" for t in range(40))
    assert data.load(write(tmp_path, late), fill="mask").scaler.mean[1] == 0


def test_a_constant_column_keeps_its_scale_with_a_note(tmp_path):
    path = write(tmp_path, "a,b\n" + "".join(f"{t % 3},0.1\n" for t in range(40)))
    found = data.load(path)
    assert found.scaler.deviation[1] == 1
    assert found.scaler.mean[1] == pytest.approx(0.1)
    assert any("constant in the training part, so left unscaled: 'b'" in note for note in found.notes)
    figures = SeriesTask(Config(lookback=3, horizon=1), found).rivals("test")
    assert all(math.isfinite(figures[name]["mase"]) for name in figures)


def test_numbers_too_large_to_square_are_refused(tmp_path):
    with pytest.raises(DataError, match="of a size that can be squared, found 1e.300 in 'a'"):
        data.load(write(tmp_path, "a\n" + "1e300\n-1e300\n" * 10))


def test_the_scale_is_that_of_the_training_part_alone(tmp_path):
    values = np.concatenate([np.random.default_rng(0).normal(5, 2, 70), np.full(30, 1e6)])
    found = data.load(write(tmp_path, "x\n" + "".join(f"{v!r}\n" for v in values.tolist())))
    assert found.splits == {"train": (0, 70), "valid": (70, 80), "test": (80, 100)}
    assert found.scaler.mean[0] == pytest.approx(values[:70].mean())
    assert found.scaler.deviation[0] == pytest.approx(values[:70].std())
    assert np.allclose(found.scaler.stretch(found.scaler.shrink(found.values)), found.values)


def test_the_yearly_sunspot_numbers_have_the_published_mean_and_deviation():
    """309 years of the international (Zürich) number, before its revision of 2015."""
    found = data.load("sunspots")
    assert (found.times.texts[0], found.times.texts[-1], len(found.values)) == ("1700", "2008", 309)
    assert found.values.mean() == pytest.approx(49.752104, abs=1e-6)
    assert found.values.std(ddof=1) == pytest.approx(40.452595, abs=1e-6)
    assert found.values.max() == found.values[1957 - 1700, 0] == 190.2
    assert found.scaler.period == 11


def test_the_noisy_sine_is_drawn_anew_with_each_draw():
    first, second = noisy_sine(draw=0), noisy_sine(draw=1)
    clean = np.sin(0.01 * np.arange(1, 1001))
    assert (first - clean).std() == pytest.approx(0.2, abs=0.01)
    assert not np.allclose(first, second)
    assert np.array_equal(first, noisy_sine(draw=0))
    changed = noisy_sine(draw=0, change=500)
    assert np.array_equal(changed[:500], first[:500])
    assert np.abs(changed[500:] - first[500:]).max() > 1


@pytest.mark.skipif("RECOLLECT_DATA" not in os.environ, reason="needs the known sets (RECOLLECT_DATA)")
@pytest.mark.parametrize(
    ("name", "rows", "parts"),
    [("etth1", 17_420, (8_640, 2_880, 2_880)), ("exchange", 7_588, (5_311, 760, 1_517))],
)
def test_the_known_sets_are_cut_as_the_papers_cut_them(name, rows, parts):
    found = data.load(name)
    assert len(found.values) == rows
    assert tuple(stop - start for start, stop in found.splits.values()) == parts
    assert found.notes == []
    task = SeriesTask(Config(lookback=336, horizon=96), found)
    assert len(task.origins("test")) == parts[2] - 96 + 1


def test_data_that_cannot_be_is_refused():
    with pytest.raises(ContractError, match="one file or known set, found 2"):
        DataConfig(data=("a.csv", "b.csv"))
    with pytest.raises(ContractError, match="target to be names"):
        DataConfig(target=(1,))  # type: ignore[arg-type]
    with pytest.raises(ContractError, match="as many as its look-back"):
        runs.train(SeriesTask, configure("sine", "ar"), "nowhere", params=1000)
