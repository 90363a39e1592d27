"""Missing values: trimmed at the ends, closed inside, bridged in a figure."""

import math

import pytest

from recollect.data.files import DataError
from recollect.report.series import plot
from recollect.tasks.series import data
from recollect.tasks.series.tables.gaps import bridged, close_gaps, trim
from recollect.tasks.series.tables.layout import Layout
from recollect.tasks.series.tables.table import read_table
from recollect.tasks.series.task import SeriesTask
from recollect.tasks.series.use import history
from tasks.series.cases import write


def test_missing_values_at_the_ends_are_left_out_with_a_note(tmp_path):
    path = write(tmp_path, "a,b\n,1\n2,2\n3,3\n4,4\n5,?\n6,\n")
    found, notes = trim(read_table(path))
    assert found.values.tolist() == [[2, 2], [3, 3], [4, 4]]
    assert found.times.after(1) == ["4"]
    assert "rows at the beginning that miss a value: 1;" in notes[0]
    assert "begins at row 3" in notes[0]
    assert "rows at the end that miss a value: 2;" in notes[1]
    assert "ends with row 5" in notes[1]


def test_gaps_inside_are_closed_by_lines_or_held_and_counted(tmp_path):
    path = write(tmp_path, "a,b\n0,1\n,2\n,\n6,8\n")
    table, _ = trim(read_table(path))
    values, _, notes = close_gaps(table, "linear")
    assert values.tolist() == [[0, 1], [2, 2], [4, 5], [6, 8]]
    assert "3 of 8 values are missing" in notes[0]
    held, counts, _ = close_gaps(table, "mask")
    assert held.tolist() == [[0, 1], [0, 2], [0, 2], [6, 8]]
    assert counts.tolist() == [[True, True], [False, True], [False, False], [True, True]]
    with pytest.raises(DataError, match="row 3, column 'a': expected a number, found a missing one"):
        close_gaps(table, "refuse")


def test_the_summary_counts_what_is_missing_in_the_table_whatever_fills_it(tmp_path):
    path = write(tmp_path, "x\n" + "".join(f"{'nan' if t % 10 == 5 else t % 7}\n" for t in range(100)))
    for fill in ("linear", "mask"):
        found = SeriesTask.data_summary(data.load(path, fill=fill))
        missing = {part: row["missing values"] for part, row in found.splits.items()}
        assert missing == {"train": 7, "valid": 1, "test": 2}


def test_columns_that_are_empty_or_never_meet_are_refused(tmp_path):
    with pytest.raises(DataError, match="numbers in column 'b', found none"):
        trim(read_table(write(tmp_path, "a,b\n1,\n2,\n")))
    with pytest.raises(DataError, match="overlap in time"):
        trim(read_table(write(tmp_path, "a,b\n1,\n2,\n,3\n,4\n")))


def test_gaps_are_drawn_from_what_was_measured_before_to_what_was_after_and_apart(tmp_path):
    text = "t,x\n" + "".join(f"{t},{'' if t in (2, 3, 6, 9) else t}\n" for t in range(10))
    table = read_table(write(tmp_path, text), Layout(time="t"))
    filled = [(str(t), "x", t + 0.5, t - 1.0, t + 2.0, "interpolated") for t in (2, 3, 6, 9)]
    rows = list(bridged(table, filled))
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "4", "5", "6", "7", "7", "8", "9"]
    assert rows[0] == ("1", "x", 1.0, 1.0, 1.0)
    assert rows[1] == ("2", "x", 2.5, 1.0, 4.0)
    assert [math.isnan(row[2]) for row in rows].count(True) == 2
    assert math.isnan(rows[4][2])
    assert math.isnan(rows[8][3])
    path = tmp_path / "gaps.svg"
    assert plot(history(table), rows, path, "number") == []
