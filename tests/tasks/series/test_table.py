"""Tables of numbers, however they are written, and what is wrong with them."""

import gzip

import numpy as np
import pytest

from recollect.data.files import DataError
from recollect.tasks.series import data
from recollect.tasks.series.tables.layout import Layout
from recollect.tasks.series.tables.table import read_table
from tasks.series.cases import write


@pytest.mark.parametrize(
    "text",
    [
        "date,a,b\n2024-01-01,1.5,2\n2024-01-02,2.5,3\n",
        "\ufeffdate,a,b\r\n2024-01-01,1.5,2\r\n2024-01-02,2.5,3\r\n",
        "date;a;b\n2024-01-01;1,5;2\n2024-01-02;2,5;3\n",
        "date\ta\tb\n2024-01-01\t1.5\t2\n2024-01-02\t2.5\t3\n\n\n",
        'date,"a",b\n"2024-01-01", 1.5 ,2\n2024-01-02,"2.5",3',
        "date;a;b\n01.01.2024;1.5;2\n02.01.2024;2.5;3\n",
        "date,a,b\n2024/01/01,1.5,2e0\n2024/01/02,+2.5,.3e1\n",
        "date|a|b\n2024-01-01|1,5|2\n2024-01-02|2,5|3\n",
        "a,b,when\n1.5,2,2024-01-01\n2.5,3,2024-01-02\n",
        "date,a,b,\n2024-01-01,1.5,2,\n2024-01-02,2.5,3,\n",
        ",date,a,b\n0,2024-01-01,1.5,2\n1,2024-01-02,2.5,3\n",
    ],
    ids=[
        *("plain", "mark and crlf", "decimal comma", "tabs", "quotes", "dotted dates", "slashes", "bars"),
        *("time last", "trailing separators", "row numbers"),
    ],
)
def test_a_table_is_read_however_it_is_written(tmp_path, text):
    found = read_table(write(tmp_path, text))
    assert found.columns == ("a", "b")
    assert found.values.tolist() == [[1.5, 2], [2.5, 3]]
    assert "2024" in found.times.after(2)[0]


def test_a_column_without_a_name_is_read_where_it_is_asked_for_or_alone(tmp_path):
    path = write(tmp_path, "date,,a\n2024-01-01,1,2\n2024-01-02,3,4\n")
    assert read_table(path).columns == ("a",)
    assert read_table(path, Layout(target=("column 2",))).values.tolist() == [[1], [3]]
    assert read_table(write(tmp_path, "date,\n2024-01-01,1\n2024-01-02,3\n")).values.tolist() == [[1], [3]]


def test_digits_in_another_column_than_the_first_are_numbers_even_where_they_could_be_a_date(tmp_path):
    found = read_table(write(tmp_path, "a,b\n1,20240101\n2,20240102\n"))
    assert found.columns == ("a", "b")
    assert found.times.after(1) == ["2"]


def test_a_packed_table_is_read_as_a_plain_one(tmp_path):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n3,4\n"))
    assert read_table(path).values.tolist() == [[1, 2], [3, 4]]


def test_without_a_header_columns_are_numbered_and_rows_are_the_time(tmp_path):
    found = read_table(write(tmp_path, "1,2\n3,4\n5,6\n"))
    assert found.columns == ("1", "2")
    assert found.times.after(2) == ["3", "4"]
    assert read_table(write(tmp_path, "1,2\n3,4\n"), Layout(header="yes")).values.tolist() == [[3, 4]]
    assert read_table(write(tmp_path, "1,2\n3,4\n5,6\n"), Layout(target=("2",))).values.tolist() == [[2], [4], [6]]


def test_only_the_columns_asked_for_are_read(tmp_path):
    path = write(tmp_path, "when,what,x,y\n1,one,1,2\n2,two,3,4\n")
    found = read_table(
        path,
        Layout(
            target=(
                "y",
                "x",
            ),
            time="when",
        ),
    )
    assert (found.columns, found.values.tolist()) == (("y", "x"), [[2, 1], [4, 3]])
    assert found.times.after(1) == ["3"]


@pytest.mark.parametrize("text", ["", "NaN", "na", "?", "null", "N/A", " ", "-"])
def test_what_says_that_a_number_is_missing_is_understood(tmp_path, text):
    found = read_table(write(tmp_path, f"a,b\n1,2\n{text},3\n4,5\n"))
    assert np.isnan(found.values).tolist() == [[False, False], [True, False], [False, False]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("date,a\n2024-01-01,1\n2024-01-02,oops\n", "row 3, column 'a': expected a number, found 'oops'"),
        ("a,b\n1,2\n1,inf\n", "row 3, column 'b': expected a number, found 'inf'"),
        ("date,a\n1/14/2024,1\n1/1x/2024,2\n", "row 3, column 'date': expected a time like '1/14/2024'"),
        ("a,b\n1,2\n1,1_000\n", "row 3, column 'b': expected a number, found '1_000'"),
        ("a;b\n1;2\n1;1.00,5\n", "row 3, column 'b': expected a number, found '1.00,5'"),
        ("a,b\n1,2\n3\n", "row 3: expected 2 columns as in the first row, found 1"),
        ("a,b\n1,2\n3,4,5\n", "row 3: expected 2 columns as in the first row, found 3"),
        ("a,a\n1,2\n", "row 1: expected each column's name once, found 'a' twice"),
        ("a,b\n", "found only a header"),
        ("\n \n", "found blank lines"),
        ("date,x\n2024-01-02,1\nsoon,2\n", "row 3, column 'date': expected a time like '2024-01-02'"),
        ("date,x\n2024-01-02,1\n2024-02-30,2\n", "row 3, column 'date': expected a time like"),
        ("date,x\n2024-01-02,1\n,2\n", "row 3, column 'date': expected a time like"),
        ("date,x\n01-02-2024,1\n", r"row 2, column 'date': expected a time \(2016-07-01.*, found '01-02-2024'"),
        ("date,x\n2024-01-01T00:00,1\n2024-01-02T00:00+01:00,2\n", "row 3, .* all with a zone or all without"),
        ("date\n2024-01-01\n2024-01-02\n", "a column of numbers beside the time column 'date'"),
        ('a,b\n1,2\n"3,4\n', "row 3: expected 2 columns"),
    ],
    ids=lambda value: value[:24].replace("\n", "/") if "\n" in value else "",
)
def test_what_is_wrong_with_a_table_is_said_with_its_row_and_column(tmp_path, text, message):
    with pytest.raises(DataError, match=message) as caught:
        read_table(write(tmp_path, text))
    assert "table.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rows_are_counted_as_an_editor_counts_them(tmp_path):
    """Blank lines and cells of several lines too."""
    with pytest.raises(DataError, match="row 6, column 'a'"):
        read_table(write(tmp_path, '"a","the\nb"\n\n1,2\n\nx,3\n'))


def test_a_column_that_is_not_there_is_refused_with_a_suggestion(tmp_path):
    path = write(tmp_path, "date,load,price\n2024-01-01,1,2\n")
    with pytest.raises(DataError, match="a column 'laod', found date, load, price; did you mean 'load'"):
        read_table(path, Layout(target=("laod",)))
    with pytest.raises(DataError, match="a column 'dat', found .*; did you mean 'date'"):
        read_table(path, Layout(time="dat"))
    with pytest.raises(DataError, match="each --target once, found 'load' twice"):
        read_table(
            path,
            Layout(
                target=(
                    "load",
                    "price",
                    "load",
                )
            ),
        )
    with pytest.raises(DataError, match="other columns than the time column"):
        read_table(path, Layout(target=("date",)))


def test_what_is_no_text_is_refused_with_its_place(tmp_path):
    (tmp_path / "table.csv").write_bytes(b"a,b\n1,\xff\n")
    with pytest.raises(DataError, match="expected UTF-8"):
        read_table(tmp_path / "table.csv")
    with pytest.raises(DataError, match="expected a CSV file or one of sine, .* did you mean etth1"):
        data.load("eth1")


def test_a_table_of_too_many_columns_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("recollect.tasks.series.tables.table.COLUMNS", 20, raising=False)
    assert read_table(write(tmp_path, ",".join("1" * 20) + "\n" + ",".join("2" * 20))).values.shape == (2, 20)
    with pytest.raises(DataError, match="row 1: expected at most 20 columns, found 21; give fewer"):
        read_table(write(tmp_path, ",".join("1" * 21) + "\n"))


def test_a_table_that_cannot_be_held_is_refused_with_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr("recollect.core.limits.LARGE", 0)
    monkeypatch.setattr("recollect.core.limits.free_memory", lambda: 5_000)
    with pytest.raises(ValueError, match="the table .*: expected at most the .* of memory that are free, found"):
        read_table(write(tmp_path, "t,x\n" + "1,2\n" * 200))


def test_a_name_that_comes_twice_is_found_among_many(tmp_path):
    names = [f"c{i}" for i in range(30_000)]
    with pytest.raises(DataError, match="expected each column's name once, found 'c29999' twice"):
        read_table(write(tmp_path, ",".join([*names, "c29999"]) + "\n" + ",".join("1" * 30_001)))
