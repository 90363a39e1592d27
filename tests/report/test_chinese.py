"""Pages, tables and figures in Chinese: no English is left but what stands in the data."""

import json
import re

import pytest

from recollect.core.language import columns, localize, speaking
from recollect.racing.summary import summarize
from recollect.report import inspection, table
from recollect.report.drawing import chart, figure
from recollect.report.drawing.looks import Keys
from recollect.report.pages import claims, race
from web import made

ENGLISH = re.compile(r"[A-Za-z]{2,}(?: [a-z]{2,}){2,}")


@pytest.fixture(autouse=True)
def _chinese():
    with speaking("zh"):
        yield


def english_of(page, data):
    """Runs of three English words in what a page shows that do not stand in the data that it was made of."""
    plain = re.sub(r"<(style|script|code|svg).*?</\1>", " ", page, flags=re.S)
    texts = re.findall(r">([^<]+)<", plain) + re.findall(r'aria-label="([^"]*)"', page)
    given = re.sub(r"\\u00a0|\s+", " ", json.dumps(data, ensure_ascii=False)).lower()
    found = {words for text in texts for words in ENGLISH.findall(text.replace("&#39;", "'"))}
    return sorted(words for words in found if words.lower() not in given)


def test_the_page_of_a_race_is_chinese():
    about, rows = made.full()
    page = race.render(about, rows)
    assert '<html lang="zh-Hans">' in page
    assert english_of(page, [about, rows]) == []


def test_the_page_of_claims_is_chinese():
    rows = made.claims()
    page = claims.render(rows)
    assert "在这里不成立" in page
    assert english_of(page, rows) == []


def test_what_is_left_is_found():
    assert english_of("<p>every model does better</p><p>a good text</p>", ["a good text"]) == [
        "every model does better"
    ]


def test_who_won_is_told_in_chinese():
    for heat in summarize(*made.full()):
        assert not re.search(r"\b(won|level|ahead|first|guess|network)\b", heat.told()), heat.told()
        assert all(standing.name in heat.told() for standing in heat.ranked[:1])


def test_a_line_looks_alike_in_both_languages():
    one = {
        "title": "loss", "x": "step", "y": "loss", "lines": [
            {"name": "before clipping", "x": [1, 2], "y": [1.0, 2.0]}, {"name": "gru", "x": [1, 2], "y": [2.0, 1.0]},
        ],
    }  # fmt: skip
    keys = Keys()
    drawn = chart.inline(one, 860, keys)
    assert "裁剪之前" in drawn
    assert "gru" in drawn
    assert keys.of("裁剪之前") == keys.of("before clipping")


def test_what_comes_from_data_is_not_translated():
    lines = [{"name": "loss", "x": ["loss"], "y": [1.0]}]
    one = {"title": "value", "x": "", "y": "step", "kind": "bars", "lines": lines, "kept": ("names", "title")}
    drawn = chart.standalone(one)
    assert "loss" in drawn
    assert "损失" not in drawn
    assert "步" in drawn


def test_a_figure_of_an_inspection_is_chinese():
    lines = [{"name": "layer 1", "x": [1, 2], "y": [1.0, 2.0]}]
    one = {"title": "how much each step changes the state", "x": "step", "y": "norm", "lines": lines}
    drawn = inspection.draw("state", [inspection.Inspected("run", "gru", [one])])
    assert "状态: gru" in drawn
    assert "每一步使状态改变多少" in drawn


def test_a_figure_without_glyphs_names_the_package(monkeypatch):
    monkeypatch.setattr(figure, "glyphs", lambda path: frozenset(range(0x250)))
    with pytest.raises(figure.FigureError, match=r"glyphs .+ found none .+apt-get install fonts-noto-cjk") as found:
        figure.families([localize("loss")])
    assert "\n" not in str(found.value)


def test_columns_of_a_table_stand_in_line():
    lines = table.render("loss", ("model", "loss"), [["gru", "0.5"]]).splitlines()
    assert len({columns(line.rstrip()) for line in lines[1:] if line.strip()}) == 1
    assert "模型" in lines[2]


def test_chinese_entries_are_broken_where_the_terminal_ends():
    text = localize(
        "The gated recurrent unit (Cho 2014): one vector, each unit of which is kept or replaced by its gate."
    )
    lines = table.write_entries("gru", {localize("state"): text * 4}).splitlines()
    assert len(lines) > 3
    assert max(map(columns, lines)) <= 120
    assert "".join(line.strip() for line in lines[1:]).replace("状态", "", 1).replace(" ", "") == (text * 4).replace(
        " ", ""
    )
