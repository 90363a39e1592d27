"""Rows on a regular grid: missing, repeated and unordered ones, resampling, and clocks that change."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from recollect.data.files import DataError
from recollect.tasks.series.tables.layout import Layout
from recollect.tasks.series.tables.table import read_table
from tasks.series.cases import write

BERLIN = ZoneInfo("Europe/Berlin")


def hours(start, count, zone=None):
    """Hours in UTC from `start` on, as a clock in the zone shows them."""
    first = datetime.fromisoformat(start).replace(tzinfo=UTC)
    moments = [first + timedelta(hours=k) for k in range(count)]
    return [moment.astimezone(zone) for moment in moments] if zone else moments


def table(tmp_path, times, values=None):
    values = range(len(times)) if values is None else values
    return write(tmp_path, "time,x\n" + "".join(f"{t},{v}\n" for t, v in zip(times, values, strict=True)))


def read(tmp_path, times, values=None, **layout):
    return read_table(table(tmp_path, times, values), Layout(**layout))


def test_a_missing_row_is_put_in_at_its_place(tmp_path):
    found = read(tmp_path, [f"2024-03-01 {h:02}:00" for h in (0, 1, 2, 5, 6)])
    assert found.times.texts == [f"2024-03-01 {h:02}:00" for h in range(7)]
    assert np.isnan(found.values[:, 0]).tolist() == [False] * 3 + [True] * 2 + [False] * 2
    assert found.rows == [2, 3, 4, None, None, 5, 6]
    (note,) = found.notes
    assert "2 of 7 rows are missing on the grid of 1 hour, the first at 2024-03-01 03:00" in note


@pytest.mark.parametrize(
    ("times", "missing"),
    [
        (["2024-01", "2024-02", "2024-04", "2024-05"], ["2024-03"]),
        (["2024-01-31", "2024-02-29", "2024-04-30", "2024-05-31"], ["2024-03-31"]),
        (["2020", "2021", "2024", "2025"], ["2022", "2023"]),
        (["2024-03-07", "2024-03-08", "2024-03-12", "2024-03-13", "2024-03-14"], ["2024-03-09", "2024-03-10"]),
        (["2024-03-07", "2024-03-08", "2024-03-11", "2024-03-13", "2024-03-14", "2024-03-15"], ["2024-03-12"]),
    ],
    ids=["months", "ends of months", "numbers", "days", "weekdays"],
)
def test_every_kind_of_step_has_its_grid(tmp_path, times, missing):
    found = read(tmp_path, times)
    put_in = [text for text, row in zip(found.times.texts, found.rows, strict=True) if row is None]
    assert put_in[: len(missing)] == missing
    assert set(put_in) | set(times) == set(found.times.texts)


def test_rows_in_any_order_are_sorted_with_a_note(tmp_path):
    found = read(tmp_path, ["2024-03-04", "2024-03-03", "2024-03-05", "2024-03-02"])
    assert found.values[:, 0].tolist() == [3, 1, 0, 2]
    assert found.rows == [5, 3, 2, 4]
    assert "rows that stand after a later one: 2, the first row 3; sorted by time" in found.notes[0]


@pytest.mark.parametrize(("aggregate", "value"), [("mean", 3.0), ("sum", 6.0), ("last", 4.0)])
def test_a_time_that_comes_twice_is_aggregated_with_a_note(tmp_path, aggregate, value):
    found = read(tmp_path, [1, 2, 2, 3], [1, 2, 4, 5], aggregate=aggregate)
    assert found.values[:, 0].tolist() == [1, value, 5]
    assert f"more than once: 1, with other values 1, again first in row 4; the {aggregate} of each" in found.notes[0]


def test_copies_of_a_row_are_told_from_rows_that_contradict_each_other(tmp_path):
    found = read(tmp_path, [1, 2, 2, 3, 3, 3, 4, 4], [1, 2, 2, 5, 5, 6, 7, ""])
    assert "times that come more than once: 3, with other values 1, again first in row 4" in found.notes[0]
    assert found.values[:, 0].tolist() == [1, 2, pytest.approx(16 / 3), 7]


def test_what_is_missing_in_one_of_two_rows_is_taken_from_the_other(tmp_path):
    assert read(tmp_path, [1, 2, 2, 3], [1, "", 4, 5]).values[:, 0].tolist() == [1, 4, 5]


@pytest.mark.parametrize(
    ("every", "aggregate", "values", "texts"),
    [
        ("1h", "mean", [1.0, 4.0, 7.0], ["2024-03-01 00:00", "2024-03-01 01:00", "2024-03-01 02:00"]),
        ("60min", "sum", [3.0, 12.0, 21.0], ["2024-03-01 00:00", "2024-03-01 01:00", "2024-03-01 02:00"]),
        ("1d", "last", [8.0], ["2024-03-01 00:00"]),
        ("1mo", "sum", [36.0], ["2024-03-01 00:00"]),
        ("2h", "mean", [2.5, 7.0], ["2024-03-01 00:00", "2024-03-01 02:00"]),
    ],
)
def test_rows_are_resampled_to_any_step(tmp_path, every, aggregate, values, texts):
    times = [f"2024-03-01 0{h}:{m}" for h in range(3) for m in ("05", "21", "59")]
    found = read(tmp_path, times, every=every, aggregate=aggregate)
    assert found.values[:, 0].tolist() == values
    assert found.times.texts == texts


def test_a_finer_step_leaves_rows_to_be_filled_and_numbers_are_resampled_too(tmp_path):
    found = read(tmp_path, ["2024-03-01 00:00", "2024-03-01 01:00"], every="30min")
    assert np.isnan(found.values[:, 0]).tolist() == [False, True, False]
    found = read(tmp_path, [0.1, 0.9, 2.5], every="1")
    assert found.times.texts == ["0", "1", "2"]
    assert found.values[[0, 2], 0].tolist() == [0.5, 2.0]


@pytest.mark.parametrize("every", ["", "h1", "0h", "1 fortnight", "3", "0.5mo", "999999999y"])
def test_a_step_that_is_none_is_refused(tmp_path, every):
    with pytest.raises(DataError, match=r"--every: expected a step such as 15min, 1h, .*, found"):
        read(tmp_path, ["2024-03-01", "2024-03-02"], every=every)


def test_a_lonely_row_far_away_does_not_make_a_huge_grid(tmp_path):
    with pytest.raises(DataError, match="rows that fill a grid of 1 day, found 4 for .* steps; name a longer step"):
        read(tmp_path, ["1700-01-01", "2024-03-01", "2024-03-02", "2024-03-03"])


@pytest.mark.parametrize(("start", "twice"), [("2024-10-26T22:00", True), ("2024-03-30T22:00", False)])
def test_hours_of_a_zone_are_even_when_its_clocks_change(tmp_path, start, twice):
    walls = [moment.strftime("%Y-%m-%d %H:%M") for moment in hours(start, 12, BERLIN)]
    found = read(tmp_path, walls, zone="Europe/Berlin")
    assert found.values[:, 0].tolist() == list(range(12))
    assert found.times.texts == walls
    assert any("come twice where the clocks of Europe/Berlin go back: 1; both" in note for note in found.notes) is twice
    after = [moment.strftime("%Y-%m-%d %H:%M") for moment in hours(start, 15, BERLIN)]
    assert found.times.after(3) == after[12:]
    assert found.times.walls()[5].hour == int(walls[5][11:13])


def test_without_a_zone_a_repeated_hour_is_averaged_and_the_zone_is_asked_for(tmp_path):
    walls = [moment.strftime("%Y-%m-%d %H:%M") for moment in hours("2024-10-26T22:00", 8, BERLIN)]
    found = read(tmp_path, walls)
    assert len(found.values) == 7
    assert "if clocks were put back there, name the --zone" in found.notes[0]


@pytest.mark.parametrize("minutes", [60, 15])
def test_without_a_zone_an_hour_that_is_skipped_in_spring_asks_for_it_too(tmp_path, minutes):
    first = datetime.fromisoformat("2024-03-30T20:00+00:00")
    moments = [first + timedelta(minutes=k * minutes) for k in range(12 * 60 // minutes)]
    walls = [moment.astimezone(BERLIN).strftime("%Y-%m-%d %H:%M") for moment in moments]
    found = read(tmp_path, walls)
    assert "the first at 2024-03-31 02:00: put in as empty rows; if clocks were put forward" in found.notes[0]
    day_before = [f"2024-03-30 {hour:02}:00" for hour in range(24) if hour != 2]
    assert "clocks" not in read(tmp_path, day_before).notes[0]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Sydney", "Asia/Kolkata"])
def test_a_year_of_local_hours_is_the_same_as_one_in_utc(tmp_path, zone):
    moments = hours("2024-01-01T00:00", 24 * 366, ZoneInfo(zone))
    local = read(tmp_path, [moment.strftime("%d.%m.%Y %H:%M") for moment in moments], zone=zone)
    offset = read(tmp_path, [moment.isoformat() for moment in moments])
    assert local.values[:, 0].tolist() == offset.values[:, 0].tolist() == list(range(24 * 366))
    assert local.times.moments == offset.times.moments


def test_offsets_that_change_keep_hours_even_and_days_on_the_wall(tmp_path):
    texts = [moment.isoformat() for moment in hours("2024-03-30T22:00", 8, BERLIN)]
    assert {text[-6:] for text in texts} == {"+01:00", "+02:00"}
    found = read(tmp_path, texts)
    assert len(found.values) == 8
    (note,) = found.notes
    assert "offsets from UTC change between +01:00 and +02:00" in note
    assert "times ahead keep +02:00; name the --zone for its clocks" in note
    named = read(tmp_path, texts, zone="Europe/Berlin")
    assert (named.values.tolist(), named.notes) == (found.values.tolist(), ())
    assert found.times.after(1) == ["2024-03-31T08:00:00+02:00"]
    days = [f"2024-03-{day}T00:00:00+01:00" for day in range(28, 32)]
    days.append("2024-04-01T00:00:00+02:00")
    found = read(tmp_path, days)
    assert (len(found.values), found.notes) == (5, ())
    assert found.times.after(1) == ["2024-04-02T00:00:00+02:00"]


def test_times_that_a_zone_never_had_are_left_out_with_their_row(tmp_path):
    found = read(tmp_path, [f"2024-03-31 0{h}:30" for h in (0, 1, 2, 3)], zone="Europe/Berlin")
    assert found.values[:, 0].tolist() == [0, 1, 3]
    assert "rows with a time that the clocks of Europe/Berlin skip: 1, the first row 4; left out" in found.notes[0]
    with pytest.raises(DataError, match="--zone: expected a time zone such as Europe/Berlin or UTC, found 'Mars'"):
        read(tmp_path, ["2024-03-31 00:30"], zone="Mars")


def test_without_times_there_is_nothing_to_resample(tmp_path):
    path = write(tmp_path, "x,y\n1,2\n3,4\n")
    with pytest.raises(DataError, match="a column of times for --every and --zone, found none; name --time"):
        read_table(path, Layout(every="1h"))
