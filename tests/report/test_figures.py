"""Figures and tables for a paper, from the rows of a race."""

import csv
import io
import json
import re
import statistics
from xml.etree import ElementTree

import pytest
from PIL import Image

from recollect.racing.summary import summarize
from recollect.report import figures, results
from recollect.report.drawing import figure
from tiny import invoke
from web import made

SHOWN = {"results", "learning", "learning-time", "positions", "work", "state", "gradient"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made.save(tmp_path_factory.mktemp("race") / "r", *made.full())


def test_every_chart_of_the_page_has_a_name():
    heats = summarize(*made.full())
    assert set(figures.name_charts(heats[0])) == SHOWN
    assert set(figures.name_charts(heats[2])) == SHOWN | {"worth-of-state"}


def test_a_figure_in_svg_is_as_wide_as_asked_in_the_font_asked_and_light(folder, tmp_path):
    path = tmp_path / "f.svg"
    figures.write(folder, str(path), names="learning", width="3.25in", font="DejaVu Serif")
    tree = ElementTree.parse(path).getroot()
    assert tree.get("width") == "3.25in"
    across, down = (float(n) for n in tree.get("viewBox").split()[2:])
    assert float(tree.get("height").removesuffix("in")) == pytest.approx(3.25 * down / across, rel=0.01)
    text = path.read_text("utf-8")
    assert '"DejaVu Serif"' in text or "&quot;DejaVu Serif&quot;" in text
    assert "prefers-color-scheme" not in text, "paper is white"
    assert 12.5 / across * 3.25 * 72 == pytest.approx(8, rel=0.05), "letters of 8 points"


def test_a_figure_in_pdf_is_as_wide_as_asked_with_fonts_that_can_be_read(folder, tmp_path):
    path = tmp_path / "f.pdf"
    figures.write(folder, str(path), width="84mm", font="DejaVu Serif")
    content = path.read_bytes()
    assert content.startswith(b"%PDF")
    assert content.rstrip().endswith(b"%%EOF")
    box = re.search(rb"/MediaBox \[\s*0 0 ([\d.]+) ([\d.]+)", content)
    assert float(box[1]) == pytest.approx(84 / 25.4 * 72, abs=0.1)
    assert b"/FontFile2" in content, "letters that can be selected, not shapes"
    assert b"DejaVuSerif" in content


def test_a_figure_in_png_is_as_wide_as_asked_at_300_dots_an_inch(folder, tmp_path):
    path = tmp_path / "f.png"
    figures.write(folder, str(path), names="results,work", width="2.5in")
    with Image.open(path) as picture:
        assert abs(picture.width - 750) <= 1
        assert picture.height > picture.width


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"names": "learn"}, "--chart: expected one of results, learning, .*did you mean 'learning'"),
        ({"heat": "recal"}, "--heat: expected one of recall, .*did you mean 'recall'"),
        ({"width": "3.25"}, "--width: expected 1 to 40 inches with their unit"),
        ({"width": "0in"}, "--width: expected 1 to 40 inches"),
        ({"font": "DejaVu Serf"}, "--font: expected a font of this machine, found 'DejaVu Serf'; near it are DejaVu S"),
        ({"size": 0.0}, "--font-size: expected 4 to 40 points"),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_one_line(folder, tmp_path, given, told):
    with pytest.raises(figure.FigureError, match=told) as caught:
        figures.write(folder, str(tmp_path / "f.pdf"), **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "inches"), [("3.25in", 3.25), ("84 mm", 84 / 25.4), (".9cm", None), ("241pt", 3.335)])
def test_a_width_is_read_with_its_unit(text, inches):
    if inches is None:
        with pytest.raises(figure.FigureError):
            figures.parse_width(text)
    else:
        assert figures.parse_width(text) == pytest.approx(inches, rel=1e-3)


def test_the_csv_holds_the_figures_of_the_rows_with_their_interval():
    race, rows = made.full()
    table = list(csv.DictReader(io.StringIO(results.write_csv(summarize(race, rows)))))
    found = {(line["heat"], line["name"]): line for line in table}
    assert set(results.COLUMNS) == set(table[0])
    for model in made.LINEAGE:
        values = [row["metric"]["value"] for row in rows if (row["heat"], row["entry"]) == ("recall", model)]
        line = found["recall", model]
        assert float(line["mean"]) == statistics.fmean(values)
        half = 4.303 * statistics.stdev(values) / 3**0.5
        assert float(line["high"]) - float(line["mean"]) == pytest.approx(half)
        assert float(line["mean"]) - float(line["low"]) == pytest.approx(half)
        assert int(line["seeds"]) == 3
    assert found["text", "rnn"]["low"] == "", "one seed has no interval"
    assert found["recall", "tcn-deep"]["mean"] == "", "what failed has no figure"


def test_the_latex_table_holds_the_figures_and_no_text_of_a_row_is_a_command():
    race, rows = made.full()
    rows = [row | {"entry": "50%_of\\input{x}"} if row.get("entry") == "rnn" else row for row in rows]
    recall, *_ = summarize(race, rows)
    text = results.write_latex([recall])
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    lines = [line for line in text.split("\n") if line.endswith(r" \\")]
    assert {line.count(" & ") for line in lines} == {7}
    for standing in recall.ranked:
        found = results.measure_interval(standing.values)
        half = "" if found.high is None else rf" $\pm$ {100 * (found.high - found.mean):.1f}"
        assert f" & {100 * standing.mean:.1f}{half} & {len(standing.rows)} & " in text
    assert r"50\%\_of\textbackslash{}input\{x\} & " in text
    assert r"\input{x}" not in text


def test_quantiles_join_the_normal_distribution():
    assert results._quantile(30) == pytest.approx(results._quantile(31), rel=3e-3)
    assert results._quantile(10**9) == pytest.approx(1.96, abs=1e-3)


def test_the_command_writes_what_it_is_asked_for(folder, tmp_path):
    table = tmp_path / "t.tex"
    done = invoke("report", folder, "--latex", table, "--csv", "-", "--heat", "text", "--figure", tmp_path / "f.svg")
    assert done.exit_code == 0, done.output
    assert done.stdout == results.write_csv(figures.select_heats(folder, "text"))
    assert table.read_text().count(r"\toprule") == 1
    assert (tmp_path / "f.svg").is_file()
    assert not (folder / "report.html").exists()
    assert json.loads((folder / "race.json").read_text())
