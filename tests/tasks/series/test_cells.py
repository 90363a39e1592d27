"""Numbers and times in local forms, and tables in other encodings."""

import re

import numpy as np
import pytest

from recollect.data.files import DataError
from recollect.tasks.series.tables.layout import Layout
from recollect.tasks.series.tables.table import read_table
from tasks.series.cases import write


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["1.234,5", "1.100", "7", ""], [1234.5, 1100, 7, np.nan]),
        (["1,234.5", "1,100", "7.25", "?"], [1234.5, 1100, 7.25, np.nan]),
        (["1 234,5", "1\u00a0100", "12\u202f000,25"], [1234.5, 1100, 12000.25]),
        (["1'234.5", "1’100", "7"], [1234.5, 1100, 7]),
        (["−1,5", "+2,25", "3"], [-1.5, 2.25, 3]),
        (["1.234.567", "2"], [1234567, 2]),
        (["0,125", "1,500"], [0.125, 1.5]),
        (["1.234", "2.345"], [1.234, 2.345]),
        (["1,5e3", "2"], [1500, 2]),
    ],
    ids=["german", "english", "french", "swiss", "signs", "groups", "small", "plain", "exponent"],
)
def test_numbers_are_read_as_they_are_written_where_they_live(tmp_path, cells, numbers):
    found = read_table(write(tmp_path, "a;b\n" + "".join(f"{cell};1\n" for cell in cells)), Layout(target=("a",)))
    assert found.values[:, 0].tolist() == pytest.approx(numbers, nan_ok=True)


def test_the_decimal_mark_is_one_for_the_whole_table(tmp_path):
    found = read_table(write(tmp_path, "a;b\n1.100;2,5\n1.200;3,5\n"))
    assert found.values.tolist() == [[1100, 2.5], [1200, 3.5]]
    assert "numbers such as '2,5' are read with a decimal comma" in found.notes[0]


def test_a_number_that_may_be_either_is_read_by_the_tables_own_separator_and_said(tmp_path):
    quoted = read_table(write(tmp_path, 'a,b\n"1,234",1\n"5,678",2\n'))
    assert quoted.values[:, 0].tolist() == [1234, 5678]
    assert "a decimal point; if it is a comma, set decimal=comma" in quoted.notes[0]
    apart = read_table(write(tmp_path, "a;b\n1,234;1\n5,678;2\n"))
    assert apart.values[:, 0].tolist() == [1.234, 5.678]
    assert "a decimal comma; if it is a point, set decimal=point" in apart.notes[0]
    named = read_table(write(tmp_path, "a;b\n1,234;1\n5,678;2\n"), Layout(decimal="point"))
    assert (named.values[:, 0].tolist(), named.notes) == ([1234, 5678], ())
    named = read_table(write(tmp_path, "a;b\n1.234;1\n5.678;2\n"), Layout(decimal="comma"))
    assert named.values[:, 0].tolist() == [1234, 5678]


@pytest.mark.parametrize("cell", ["1.23.4", "12,34,5", "1 2", "1.234,5,6", "abc", "1e999"])
def test_what_is_no_number_in_any_form_is_refused(tmp_path, cell):
    with pytest.raises(DataError, match="row 3, column 'a': expected a number, found "):
        read_table(write(tmp_path, f"a;b\n1;1\n{cell};2\n"))


@pytest.mark.parametrize(
    ("cells", "advice"),
    [
        (["m1", "m2", "m1"], "if it names the series of each row, say --id 'a'; else choose other columns"),
        (["25.09.24 00.00", "25.09.24 01.00", "25.09.24 02.00"], "--time 'a' and how they are written with --time-for"),
        (["1", "2", "x1"], "mend it, leave it empty if it is missing"),
        (["red", "green", "blue"], "'red'; choose other columns with --target"),
    ],
)
def test_a_column_that_is_no_number_is_told_from_a_cell_that_is_none(tmp_path, cells, advice):
    text = "a;b\n" + "".join(f"{cell};{i}\n" for i, cell in enumerate(cells))
    with pytest.raises(DataError, match=r"column 'a': expected a number, found .*" + re.escape(advice)):
        read_table(write(tmp_path, text), Layout(header="yes"))


@pytest.mark.parametrize(
    ("form", "times", "after"),
    [
        ("%d-%m-%y %H.%M", ["31-12-23 22.00", "31-12-23 23.00"], "01-01-24 00.00"),
        ("%Y年%m月%d日", ["2024年01月01日", "2024年01月02日"], "2024年01月03日"),
        ("%m/%d/%Y %I:%M %p", ["01/02/2024 11:00 AM", "01/02/2024 12:00 PM"], "01/02/2024 01:00 PM"),
        ("%d/%m/%Y", ["01/02/2024", "01/03/2024"], "01/04/2024"),
        ("%Y%m%d%H", ["2024010122", "2024010123"], "2024010200"),
    ],
)
def test_times_are_read_by_a_format_that_is_named(tmp_path, form, times, after):
    path = write(tmp_path, "x,when\n" + "".join(f"{i},{time}\n" for i, time in enumerate(times)))
    found = read_table(path, Layout(time_format=form))
    assert found.columns == ("x",)
    assert found.times.after(1) == [after]
    with pytest.raises(DataError, match=r"expected a time written as %H:%M, found .*; mend --time-format"):
        read_table(path, Layout(time_format="%H:%M"))


def test_chinese_dates_are_known_without_a_format(tmp_path):
    found = read_table(write(tmp_path, "日期,负荷\n2024年1月31日,1\n2024年2月1日,2\n"))
    assert (found.columns, found.times.after(1)) == (("负荷",), ["2024年02月02日"])


def test_a_table_in_another_encoding_is_read_by_its_name_which_the_error_gives(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes("日期,负荷\n2024-01-01,1\n2024-01-02,2\n".encode("gb18030"))
    with pytest.raises(DataError, match="looks like GBK .* name it with --encoding gb18030, or convert it with: iconv"):
        read_table(path)
    assert read_table(path, Layout(encoding="GB18030")).columns == ("负荷",)
    with pytest.raises(DataError, match="expected text in utf-8, found 0x.. at about byte"):
        read_table(path, Layout(encoding="utf-8"))
    with pytest.raises(DataError, match="--encoding: expected the name of an encoding, .* found 'hex'"):
        read_table(path, Layout(encoding="hex"))
    path.write_bytes("\ufefft,x\r\n1,2\r\n3,x\r\n".encode("utf-16"))
    with pytest.raises(DataError, match="row 3, column 'x'"):
        read_table(path, Layout(encoding="utf-16"))
