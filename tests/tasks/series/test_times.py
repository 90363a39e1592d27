"""Times of a table: how they go on, and those that cannot be read."""

from datetime import date, timedelta

import pytest

from recollect.data.files import DataError
from recollect.tasks.series import data
from recollect.tasks.series.tables.table import read_table
from tasks.series.cases import write


@pytest.mark.parametrize(
    ("times", "after"),
    [
        (["2024-01-30", "2024-01-31"], ["2024-02-01", "2024-02-02"]),
        (["2024-01-31", "2024-02-29", "2024-03-31"], ["2024-04-30", "2024-05-31"]),
        (["2024-11-15", "2024-12-15", "2025-01-15"], ["2025-02-15", "2025-03-15"]),
        (["2023-11", "2023-12", "2024-01"], ["2024-02", "2024-03"]),
        (["2024-01-01 23:30:00", "2024-01-01 23:45:00"], ["2024-01-02 00:00:00", "2024-01-02 00:15:00"]),
        (["2024-01-01T22:00", "2024-01-01T23:00"], ["2024-01-02T00:00", "2024-01-02T01:00"]),
        (["2024-01-01T22:00:00+02:00", "2024-01-01T23:00:00+02:00"], ["2024-01-02T00:00:00+02:00"]),
        (["1999", "2000", "2001"], ["2002", "2003"]),
        (["0.1", "0.2", "0.3"], ["0.4", "0.5"]),
        (["20240228", "20240229"], ["20240301"]),
        (["20240228T0600", "20240229T0600"], ["20240301T0600"]),
        (["20240228T060000+0200", "20240229T060000+0200"], ["20240301T060000+0200"]),
        (["2024-01-01T22:00:00Z", "2024-01-01T23:00:00Z"], ["2024-01-02T00:00:00Z"]),
        (["2024-01-01 00:00:00.500", "2024-01-01 00:00:00.750"], ["2024-01-01 00:00:01.000"]),
        (["2024-01-31", "2024-02-29"], ["2024-03-31", "2024-04-30"]),  # the last of the month, not the 29th
        (["2024-04-30", "2024-05-31", "2024-06-30"], ["2024-07-31", "2024-08-31"]),
        (["2024-01-30", "2024-02-29", "2024-03-30"], ["2024-04-30", "2024-05-30", "2024-06-30", "2024-07-30"]),
        (["2024-01-01", "2024-02-01", "2024-04-01", "2024-05-01"], ["2024-06-01", "2024-07-01"]),  # one month lacks
        (["2021-01-01", "2022-01-01", "2023-01-01"], ["2024-01-01", "2025-01-01"]),  # over a leap day
        (["2024-02-01", "2024-02-29", "2024-03-28"], ["2024-04-25"]),  # four weeks are no month
        (
            ["2024-03-07", "2024-03-08", "2024-03-11", "2024-03-12"],
            ["2024-03-13", "2024-03-14", "2024-03-15", "2024-03-18"],
        ),
        (["2024-03-07", "2024-03-08", "2024-03-09"], ["2024-03-10"]),  # a Saturday is among them
        (["2024-03-08", "2024-03-11", "2024-03-12", "2024-03-14", "2024-03-15"], ["2024-03-18"]),  # a holiday
        (["2024-03-05", "2024-03-08", "2024-03-11", "2024-03-14"], ["2024-03-17"]),  # every three days
        (["31.12.2023 23:00", "01.01.2024 00:00"], ["01.01.2024 01:00"]),
        (["1/11/2024", "1/12/2024", "1/13/2024"], ["01/14/2024"]),  # the last one shows that the month comes first
        (["11/01/2024", "12/01/2024", "13/01/2024"], ["14/01/2024"]),
        (["12/31/2023 22:00", "12/31/2023 23:00"], ["01/01/2024 00:00"]),
        (["12/31/2023 10:00 PM", "12/31/2023 11:00 PM"], ["01/01/2024 12:00 AM"]),
        (["2023-Q3", "2023-Q4"], ["2024-Q1", "2024-Q2"]),
        (["2023Q2", "2023Q3", "2023Q4"], ["2024Q1"]),
    ],
)
def test_times_go_on_as_they_came(tmp_path, times, after):
    text = "time,x\n" + "".join(f"{time},{i}\n" for i, time in enumerate(times))
    assert read_table(write(tmp_path, text)).times.after(len(after)) == after


def test_weekends_are_no_gaps_in_a_table_of_weekdays_and_holidays_are(tmp_path):
    days = [date(2024, 3, 4) + timedelta(days=n) for n in range(40)]
    weekdays = [day for day in days if day.weekday() < 5]
    rows = [f"{day},{n % 5}\n" for n, day in enumerate(weekdays)]
    assert data.load(write(tmp_path, "date,x\n" + "".join(rows)), even=True).notes == []
    del rows[10]
    note, _ = data.load(write(tmp_path, "date,x\n" + "".join(rows))).notes
    assert "1 of 30 rows are missing on the grid of 1 weekday, the first at 2024-03-18" in note


def test_times_that_may_have_the_day_or_the_month_first_are_refused(tmp_path):
    rows = "".join(f"{first:02}/01/2024,{first}\n" for first in range(1, 13))
    with pytest.raises(DataError, match="column 'date': .* the day or the month first; say which with --time-format"):
        read_table(write(tmp_path, "date,x\n" + rows))


def test_a_table_of_slashed_dates_without_a_header_keeps_its_first_row(tmp_path):
    found = read_table(write(tmp_path, "1/30/2024,1\n1/31/2024,2\n2/1/2024,3\n"))
    assert found.values.tolist() == [[1], [2], [3]]


def test_the_end_of_the_calendar_is_a_line(tmp_path):
    found = read_table(write(tmp_path, "date,x\n9998-12-31,1\n9999-12-31,2\n"))
    with pytest.raises(DataError, match="up to the year 9999"):
        found.times.after(3)


@pytest.mark.parametrize(
    "times",
    [
        ["1e999999", "2e999999", "3e999999"],
        ["9e999999", "10e999999"],
        ["1e-999999", "2e-999999"],
        ["0e999999", "1"],
        ["1e99999999999999999999", "2e99999999999999999999"],
        ["1" * 100_000, "2" * 100_000],
        ["1", "2", "3", "1e999999"],
    ],
    ids=["exponent", "overflow", "small", "zero", "no exponent", "digits", "one"],
)
def test_a_time_with_which_nobody_can_count_is_refused(tmp_path, times):
    text = "year,x\n" + "".join(f"{time},{i}\n" for i, time in enumerate(times))
    with pytest.raises(DataError, match=r"row \d, column 'year': expected a time") as caught:
        read_table(write(tmp_path, text))
    assert len(str(caught.value)) <= 1_000
