"""The pages: what is drawn is what the axes say, what is written is what the rows say, and nothing leaves the file."""

import copy
import io
import itertools
import json
import math
import re
import subprocess
import sys
from base64 import b64decode
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from recollect.core import numbers
from recollect.report.drawing import chart, colour, figure, scale
from recollect.report.drawing.colour import Keys
from recollect.report.pages import claims, page, race, standing
from web import made

VOID = {"meta", "link", "br"}
LINES = {
    "title": "Curves",
    "x": "length",
    "y": "loss",
    "lines": [
        {"name": "a", "x": [1, 2, 4, 8], "y": [4.0, 2.0, 1.0, 0.5], "low": [3.5, 1.5, 0.5, 0.25], "high": [5, 3, 2, 1]},
        {"name": "b", "x": [1, 2, 4, 8], "y": [3.0, None, 3.0, 2.5], "low": None, "high": None},
    ],
    "kind": "lines",
    "log_x": False,
    "log_y": False,
    "level": 3.5,
    "level_name": "chance",
}


class Outline(HTMLParser):
    """Refuses a page whose elements do not close in order; gathers what the tests ask about."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.headings, self.attributes, self.texts = [], [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        assert len(found) == len(attrs), f"{tag} has an attribute twice"
        self.attributes += attrs
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if tag == "a" else []
        self.headings += [int(tag[1])] if re.fullmatch(r"h\d", tag) else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).replace("\u00a0", " ").split())


def svg(drawn):
    return ElementTree.fromstring(drawn)


def of(tree, class_):
    return [one for one in tree.iter() if class_ in (one.get("class") or "").split()]


def rendered(rows=None, *heats):
    heats = heats or (made.heat(),)
    return Outline(race.render(made.race(*heats), made.recall_rows() if rows is None else rows))


# Numbers and scales


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (numbers.fixed(0.0, numbers.decimals([0.0, 0.0])), "0.0"),
        (numbers.count(950), "950"),
        (numbers.count(12_345), "12.3 k"),
        (numbers.count(1_234_567), "1.23 M"),
        (numbers.count(999_999), "1.00 M"),
        (numbers.flops(4.5e9), "4.50 GFLOP"),
        (numbers.size(512), "512 B"),
        (numbers.size(65_536), "65.5 kB"),
        (numbers.duration(0.42), "0.420 s"),
        (numbers.duration(200), "3 min 20 s"),
        (numbers.duration(7500), "2 h 5 min"),
        (numbers.duration(3599.9), "1 h"),
        (numbers.duration(None), "–"),
        (numbers.fixed(-0.5, 2), "−0.50"),
        (numbers.fixed(-0.0001, 2, sign=True), "0.00"),
        (numbers.fixed(float("nan"), 2), "–"),
        (numbers.power(1.5e-7), "1.5 × 10⁻⁷"),
        (numbers.power(9.99e-8), "10⁻⁷"),
        (numbers.brief(30_000), "30 k"),
    ],
)
def test_numbers_are_written_for_people(written, expected):
    assert written.replace("\u00a0", " ") == expected


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(3, 9))
def test_even_ticks_stand_at_equal_distances_inside_the_axis(low, length, most):
    found = [value for value, _ in scale.even_ticks(low, low + length, most)]
    assert 1 <= len(found) <= most + 1
    assert all(low - 1e-6 * length <= value <= low + length * (1 + 1e-6) for value in found)
    steps = [b - a for a, b in itertools.pairwise(found)]
    assert all(step == pytest.approx(steps[0], rel=1e-6) for step in steps)


@given(st.floats(-9, 9), st.floats(0.05, 14))
def test_the_label_of_a_log_tick_is_its_value(exponent, decades):
    low, high = 10**exponent, 10 ** (exponent + decades)
    found = scale.log_ticks(low, high, 6)
    assert len(found) >= 1
    for value, label in found:
        assert low * 0.999 <= value <= high * 1.001
        assert said(label) == pytest.approx(value, rel=1e-2)


def said(label):
    """The number that a label means."""
    label = label.replace("\u00a0", " ").replace("−", "-").replace(",", "")
    prefixes = dict(zip("kMGTPEZ", (1e3, 1e6, 1e9, 1e12, 1e15, 1e18, 1e21), strict=True))
    if raised := re.fullmatch(r"(?:([\d.]+) × )?10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", label):
        exponent = int(raised[2].translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))
        return float(raised[1] or 1) * 10**exponent
    number, _, prefix = label.partition(" ")
    return float(number) * prefixes.get(prefix, 1)


@given(st.lists(st.floats(0, 300), min_size=1, max_size=16))
def test_names_moved_apart_keep_their_order_and_their_distance(wanted):
    placed = scale.apart(wanted, 17, 0, 300)
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    for a, b in itertools.pairwise(order):
        assert placed[b] - placed[a] >= 17 - 1e-9
    assert min(placed) >= -1e-9
    assert scale.apart([10, 100, 200], 17, 0, 300) == [10, 100, 200]  # nothing moves without need


# Colours


def linear(colour_):
    parts = [int(colour_[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def luminance(colour_):
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear(colour_), strict=True))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


EYES = {  # Machado, Oliveira & Fernandes 2009, severity 1
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def lab(colour_, eye):
    r, g, b = (min(1, max(0, sum(a * c for a, c in zip(row, linear(colour_), strict=True)))) for row in EYES[eye])
    whites = ((0.4124, 0.3576, 0.1805, 0.9505), (0.2126, 0.7152, 0.0722, 1.0), (0.0193, 0.1192, 0.9505, 1.089))
    ratios = [(p * r + q * g + s * b) / white for p, q, s, white in whites]
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in ratios)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("theme", [0, 1])
def test_colours_stay_apart_for_every_eye_and_stand_out_from_their_paper(theme):
    paper = colour.INKS["paper"][theme]
    series = [pair[theme] for pair in colour.SERIES]
    for eye in EYES:
        for one, other in itertools.combinations(series, 2):
            assert math.dist(lab(one, eye), lab(other, eye)) > 20, (eye, one, other)
    assert all(contrast(one, paper) >= 3 for one in series)
    for ink in ("ink", "soft", "link", "good", "bad", "mixed"):
        for ground in ("paper", "panel"):
            assert contrast(colour.INKS[ink][theme], colour.INKS[ground][theme]) >= 4.5, (ink, ground)


def test_a_name_keeps_its_look_and_those_that_share_a_chart_share_no_colour():
    keys = Keys()
    keys.together([f"first {i}" for i in range(9)])
    before = {name: keys.of(name) for name in keys.names}
    keys.together(["first 5", "x", "y", "z", "first 0"])
    assert {name: keys.of(name) for name in before} == before
    looks = [keys.of(name) for name in ("first 5", "x", "y", "z", "first 0")]
    assert len({look % len(colour.SERIES) for look in looks}) == 5
    assert len(set(keys.names.values())) == 12


def test_a_name_of_several_claims_looks_alike_in_all_and_others_take_the_first_colours():
    results = made.claims()
    results[3]["charts"] = [LINES | {"lines": [{"name": n, "x": [1], "y": [2]} for n in ("own", "lstm", "other")]}]
    keys = claims.shared(results)
    assert list(keys.names) == ["lstm"]
    assert keys.within(["own", "lstm", "other"]).names == {"lstm": 0, "own": 1, "other": 2}
    assert keys.within(["rnn"]).names == {"rnn": 0}


# Charts


def axis(tree, vertical):
    """From a coordinate to a number, by nothing but the labels beside the axis."""
    ends = "end" if vertical else "middle"
    labels = [one for one in tree.iter("text") if one.get("text-anchor") == ends and re.match(r"[−\d]", one.text or "")]
    found = [(float(one.get("y" if vertical else "x")) - (4 if vertical else 0), said(one.text)) for one in labels]
    return sorted(found)


def between(found, at, log):
    (p, a), (q, b) = found[0], found[-1]
    share = (at - p) / (q - p)
    return a * (b / a) ** share if log else a + share * (b - a)


@pytest.mark.parametrize("wide", [page.FULL, page.HALF, page.PHONE])
@pytest.mark.parametrize("log", [False, True])
def test_a_curve_lies_where_the_labels_of_its_axes_say(wide, log):
    given_ = LINES | {"log_x": log, "log_y": log}
    tree = svg(chart.inline(given_, wide))
    across, up = axis(tree, False), axis(tree, True)
    path = of(tree, "line")[0].get("points")
    seen = [[float(v) for v in point.split(",")] for point in path.split()]
    assert len(seen) == 4
    for (x, y), (right, height) in zip(seen, zip(*(given_["lines"][0][k] for k in "xy"), strict=True), strict=True):
        assert between(across, x, log) == pytest.approx(right, rel=0.02, abs=0.0 if log else 0.02)
        assert between(up, y, log) == pytest.approx(height, rel=0.02, abs=0.0 if log else 0.02)


def test_bars_begin_at_zero_and_end_at_their_value():
    bars = LINES | {"kind": "bars", "level": None, "lines": [{"name": "a", "x": ["p", "q"], "y": [2.0, -1.0]}]}
    tree = svg(chart.inline(bars, page.FULL))
    up = axis(tree, True)
    tops = [(float(one.get("y")), float(one.get("height"))) for one in of(tree, "bar") if one.find("title") is not None]
    found = [tuple(round(between(up, y + dy, False), 1) for dy in (0, height)) for y, height in tops]
    assert found == [(2.0, 0.0), (0.0, -1.0)]


def test_bars_with_long_names_lie_down():
    names = [f"a rather long name of a place {i}" for i in range(4)]
    bars = LINES | {"kind": "bars", "lines": [{"name": n, "x": names, "y": [1, 2, None, 4]} for n in "ab"]}
    for wide in (page.FULL, page.PHONE):
        tree = svg(chart.inline(bars, wide))
        words = [one.text for one in tree.iter("text")]
        assert all(name in words for name in names)
        assert words.count("no result") == 2
        boxes = [float(one.get("width")) for one in of(tree, "bar")]
        assert boxes[2] / boxes[0] == pytest.approx(2, rel=0.02)


def test_bars_that_lie_keep_a_log_axis():
    names = [f"a rather long name of a place {i}" for i in range(3)]
    lines = [{"name": "a", "x": names, "y": [0.01, 1.0, 100.0]}]
    tree = svg(chart.inline(LINES | {"kind": "bars", "log_y": True, "level": None, "lines": lines}, page.PHONE))
    ends = [float(one.get("x")) + float(one.get("width")) for one in of(tree, "bar")]
    assert ends[2] - ends[1] == pytest.approx(ends[1] - ends[0], abs=0.2)
    found = axis(tree, False)
    assert between(found, ends[1], True) == pytest.approx(1, rel=0.02)


def test_a_gap_breaks_the_curve_and_a_lone_point_is_marked():
    tree = svg(chart.inline(LINES, page.FULL))
    curves = [one for one in of(tree, "line") if one.tag == "polyline"]
    assert [len(one.get("points").split()) for one in curves] == [4, 2]
    assert sum(one.find("title") is not None for one in of(tree, "mark")) == 7


def test_what_a_log_axis_cannot_show_is_said():
    lines = [{"name": "a", "x": [1, 2, 3], "y": [1.0, 0.0, -2.0]}]
    words = [one.text for one in svg(chart.inline(LINES | {"log_y": True, "lines": lines}, page.FULL)).iter("text")]
    assert "2 points are not shown: not above 0" in words


@pytest.mark.parametrize("wide", [page.FULL, page.PHONE])
@pytest.mark.parametrize("count", [1, 2, 12, 25])
def test_names_never_lie_on_data_or_on_each_other(wide, count):
    lines = [{"name": f"model 记忆 {i}", "x": [0, 1], "y": [1.0, 1.0 + i / 1000]} for i in range(count)]
    tree = svg(chart.inline(LINES | {"lines": lines}, wide))
    names = [one for one in tree.iter("text") if (one.text or "").startswith("model")]
    places = [(float(one.get("x")), float(one.get("y"))) for one in names]
    points = [p.split(",") for one in of(tree, "line") if one.tag == "polyline" for p in one.get("points").split()]
    assert len(names) == count
    for x, y in places:
        assert x > max(float(p) for p, _ in points) or y > max(float(q) for _, q in points)
    for (x, y), (u, v) in itertools.combinations(places, 2):
        assert abs(y - v) >= 12 or abs(x - u) >= 60
    assert max(y for _, y in places) < float(tree.get("height"))


def test_a_map_is_as_strong_as_its_numbers():
    grid = {
        "title": "m",
        "x": "x",
        "y": "y",
        "values": [[0.0, 0.5], [1.0, float("nan")]],
        "columns": None,
        "rows": None,
    }
    image = next(svg(chart.inline(grid, page.PHONE)).iter("image"))
    found = Image.open(io.BytesIO(b64decode(image.get("href").split(",", 1)[1])))
    assert [found.getpixel(at)[3] for at in ((0, 0), (1, 0), (0, 1), (1, 1))] == [0, 128, 255, 0]
    assert "nothing was measured" in chart.inline(grid | {"values": []}, page.PHONE)


def test_a_dot_has_its_range_its_seeds_and_the_baselines():
    heat = race.heats(made.race(made.heat()), made.recall_rows(("rnn", "lstm")))[0]
    tree = svg(chart.inline(heat.dots(), page.FULL, heat.keys))
    assert len(of(tree, "seed")) == 6
    assert len(of(tree, "reach")) == 2
    assert len(of(tree, "level")) == 2
    assert {"chance", "most frequent"} <= {one.text for one in tree.iter("text")}


def test_a_baseline_far_from_all_results_is_told_and_not_drawn():
    about = made.heat()
    about["metric"] = about["metric"] | {"name": "nats_per_token", "better": "lower", "unit": ""}
    about["learning"] = about["metric"]
    rows = made.recall_rows(("rnn", "lstm"))
    for row, value in zip(rows, (1.5, 1.6, 1.7, 2.0, 2.1, 2.2), strict=True):
        row["metric"] = row["metric"] | {"name": "nats_per_token", "value": value}
        row["baselines"] = {"bigram": 2.6, "unigram": 3.3, "uniform": 4.2}
    heat = race.heats(made.race(about), rows)[0]
    near, far = heat.guesses_near()
    assert [name for name, _ in near] == ["bigram"]
    assert [name for name, _ in far] == ["unigram", "uniform"]
    tree = svg(chart.inline(heat.dots(), page.FULL, heat.keys))
    assert len(of(tree, "level")) == 1
    assert "beyond this picture: unigram 3.3" in heat._dots_note()
    for row in rows:
        row["metric"]["value"] = 1.5
    near, far = race.heats(made.race(about), rows)[0].guesses_near()
    assert not near, "also where all results are the same"
    assert len(far) == 3


@pytest.mark.parametrize("ending", ["svg", *(pytest.param(name, marks=pytest.mark.slow) for name in ("png", "pdf"))])
def test_every_kind_of_chart_becomes_a_file(tmp_path, ending):
    for result in made.claims():
        for i, one in enumerate(result["charts"]):
            path = tmp_path / f"{result['id']}-{i}.{ending}"
            chart.draw(one, str(path))
            assert path.stat().st_size > 1000
            if ending == "svg":
                assert one["title"] in "".join(ElementTree.parse(path).getroot().itertext())


def test_a_figure_in_no_folder_is_refused_before_anything_is_computed(tmp_path):
    with pytest.raises(figure.FigureError, match=r"expected a folder for the figure, found no .*none; make it first"):
        figure.check_path(str(tmp_path / "none" / "a.png"))


def test_a_figure_without_a_known_ending_is_refused(tmp_path):
    with pytest.raises(figure.FigureError, match="expected a figure that ends in"):
        chart.draw(LINES, str(tmp_path / "a.gif"))


# The race's page


def test_the_page_is_whole_and_asks_nothing_of_any_other_place():
    text = race.render(*made.full())
    found = Outline(text)
    assert len(text.encode()) < 3_000_000
    assert len(set(found.ids)) == len(found.ids)
    assert found.links
    assert all(link[1:] in found.ids and link[0] == "#" for link in found.links)
    assert found.headings[0] == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(found.headings))
    for name, value in found.attributes:
        assert name not in ("src", "srcset", "action")
        assert not name.startswith("on")
        assert name not in ("href", "xlink:href") or value[0] == "#" or value.startswith("data:")
    assert not re.search(r"url\(|@import|https?://", text)


def test_every_run_stands_in_the_page_with_its_number():
    rows = made.recall_rows()
    text = rendered(rows).text
    for row in rows:
        assert f"{row['metric']['value']:.6g}" in text
        assert row["run"] in text
        assert f"{row['params']:,}" in text
    for words in (rows[0]["metric"]["rule"], rows[0]["commit"], "recollect race --seeds 3", "torch 2.13.0"):
        assert words in text


def test_means_and_ranges_are_those_of_the_seeds():
    rows = made.recall_rows()
    text = rendered(rows).text
    for model in made.LINEAGE:
        values = [100 * row["metric"]["value"] for row in rows if row["model"] == model]
        assert f"{sum(values) / 3:.1f} %" in text
        assert f"{min(values):.1f} to {max(values):.1f} %" in text


def told(**values):
    """The answer to who won, for these values over seeds."""
    rows = [made.row("recall", model, seed, v) for model, vs in values.items() for seed, v in enumerate(vs)]
    text = race.heats(made.race(made.heat()), rows)[0].answer()
    return re.sub(r"<[^>]+>", "", text).replace("\u00a0", " ")


def test_a_lead_is_told_with_whether_it_is_more_than_luck():
    clear = told(lstm=[0.9, 0.92], rnn=[0.5, 0.6])
    assert "lstm won: share recalled 91.00 %, ahead of rnn (55.00 %) by 36.00 points" in clear
    assert "more than the spread over seeds" in clear
    assert "within the spread over seeds" in told(lstm=[0.9, 0.5], rnn=[0.6, 0.7])
    assert "One seed shows no spread" in told(lstm=[0.9], rnn=[0.5])
    level = told(lstm=[0.9, 0.9], rnn=[0.899, 0.899], gru=[0.5, 0.5])
    assert (
        "lstm and rnn are level: share recalled 89.90 to 90.00 %; next is gru (50.00 %). That is more than the spread"
        in level
    )
    assert "are level: share recalled 90.00 %; next" in told(lstm=[0.9], rnn=[0.9], gru=[0.5])
    assert "won" in told(lstm=[0.9, 0.9], rnn=[0.89, 0.89])
    assert "Only rnn has a result" in told(rnn=[0.9])
    assert told() == "No entry finished, so nobody won."
    below = told(rnn=[0.05], gru=[0.02])
    assert "rnn won" in below
    assert (
        "no model does better than that"
        in race.heats(
            made.race(made.heat()), [made.row("recall", model, 0, v) for model, v in (("rnn", 0.05), ("gru", 0.02))]
        )[0].told()
    ), "a terminal hears of it too"


def test_what_is_counted_needs_no_second_seed():
    def answer(**values):
        rows = [made.row("recall", model, seed, v) for model, vs in values.items() for seed, v in enumerate(vs)]
        rows = [row | {"entries": 900 if row["model"] == "ngram" else None} for row in rows]
        return race.heats(made.race(made.heat()), rows)[0].told()

    assert "more than the spread over seeds" in answer(ngram=[0.9], rnn=[0.5, 0.6])
    assert "within the spread over seeds" in answer(rnn=[0.95, 0.7], ngram=[0.8])
    assert "One seed shows no spread" in answer(ngram=[0.9], rnn=[0.5])
    assert "What is counted is the same with every seed." in answer(ngram=[0.9])


def test_the_terminal_is_told_what_the_page_says(tmp_path):
    folder = made.save(tmp_path / "race", *made.full())
    text = " ".join(Outline(race.render(*made.full())).text.replace("\u00a0", " ").split())
    told = race.verdicts(folder)
    assert len(told) == 4
    for words in told.values():
        assert " ".join(words.split()) in text
        assert not re.search(r"<|&\w+;|\u00a0", words)


def test_where_less_is_better_the_least_wins():
    answer = race.heats(made.race(made.text_heat()), made.text_rows())[0].answer()
    assert "<strong>ngram</strong> won: nats per token 1.710, ahead of transformer (1.830) by 0.120" in answer


def test_a_small_error_is_not_rounded_away():
    heat = made.text_heat()
    rows = [made.row(heat["name"], model, 0, v) for model, v in (("tcn", 5.3e-5), ("gru", 1.8e-4), ("rnn", 0.167))]
    told = race.heats(made.race(heat), rows)[0].told()
    assert "tcn won: nats per token 0.000053, ahead of gru (0.000180) by 0.000127" in told


def test_models_that_do_no_better_than_a_guess_are_named():
    rows = [made.row("recall", "rnn", 0, 0.05), made.row("recall", "lstm", 0, 0.9)]
    assert "most frequent, gets 7.10 %; rnn does no better than that." in rendered(rows).text


def test_guesses_are_shown_by_the_measure_of_the_heat_or_not_at_all():
    recall, numbers_ = race.heats(
        made.race(made.heat(), made.translation_heat()), made.recall_rows(("rnn",)) + made.translation_rows(1)
    )
    assert dict(recall.baselines) == pytest.approx({"chance": 0.0625, "most frequent": 0.071})
    assert numbers_.baselines == []  # in nats, where the heat counts BLEU
    assert race.heats(made.race(made.text_heat()), made.text_rows())[0].baselines == [
        ("uniform", 4.17),
        ("unigram", 3.35),
    ]


def test_an_error_that_is_a_number_is_a_figure_and_no_failure():
    assert "rnn won" in rendered([row | {"error": 0.1} for row in made.recall_rows(("rnn", "lstm"))]).text.replace(
        "lstm", "rnn"
    )


def test_each_rung_says_what_its_change_bought():
    rows = []
    for rung, values in zip(made.ladder_heat()["rungs"], ((0.2, 0.3), (0.5, 0.4), (0.3, 0.5), (0.1, 0.2)), strict=True):
        rows += [made.row("state", rung["model"], s, v, rung=rung["name"]) for s, v in enumerate(values)]
    text = rendered(rows, made.ladder_heat()).text
    assert "+20.00 points +10.00 to +30.00 points better with every seed" in text
    assert "−5.00 points −20.00 to +10.00 points no difference that seeds agree on" in text
    assert "−25.00 points −30.00 to −20.00 points worse with every seed" in text
    assert "A matrix that is added to." in text
    assert "What a byte of state is worth" in text


def test_a_gain_counts_a_fall_as_better_where_less_is():
    before, after = standing.Entry("a"), standing.Entry("b")
    before.rows = [{"seed": s, "metric": {"value": v}} for s, v in enumerate((3.0, 2.0))]
    after.rows = [{"seed": s, "metric": {"value": v}} for s, v in enumerate((2.5, 1.0))]
    found = standing.gain(before, after, "lower")
    assert (found.mean, found.low, found.high, found.seeds) == (0.75, 0.5, 1.0, 2)
    assert standing.gain(before, standing.Entry("c"), "lower") is None


def test_a_gain_on_what_is_counted_is_told_by_every_seed():
    counted, trained = standing.Entry("ngram"), standing.Entry("mlp")
    counted.rows = [{"seed": 0, "metric": {"value": 2.0}, "entries": 9}]
    trained.rows = [{"seed": s, "metric": {"value": v}, "entries": None} for s, v in enumerate((2.5, 3.0))]
    found = standing.gain(counted, trained, "lower")
    assert (found.mean, found.low, found.high, found.seeds) == (-0.75, -1.0, -0.5, 2)
    assert found.verdict == "worse with every seed"
    assert standing.gain(trained, counted, "lower").seeds == 2


def test_equals_share_a_place():
    rows = [made.row("recall", model, 0, v) for model, v in (("rnn", 0.5), ("lstm", 0.5), ("gru", 0.2))]
    heat = race.heats(made.race(made.heat()), rows)[0]
    assert re.findall(r'<th[^>]*scope="row"[^>]*>(\d)</th>', heat.table()) == ["1", "1", "3"]


def test_averaging_over_positions_keeps_the_mean():
    values = [(float(i % 7), 0.0, 1.0) for i in range(1000)]
    found = standing.binned(values, 32)
    assert len(found) <= 33
    cuts = [0]
    for middle, *_ in found:
        cuts.append(round(2 * middle - 1 - cuts[-1]))
    sizes = [b - a for a, b in itertools.pairwise(cuts)]
    assert cuts[-1] == 1000
    total = sum(size * mean for size, (_, mean, *_) in zip(sizes, found, strict=True))
    assert total == pytest.approx(sum(value[0] for value in values))


def test_failures_and_unequal_terms_are_said_openly():
    text = rendered(made.full()[1]).text
    assert "expected a finite loss, found nan at step 12; lower --set lr=… <0.003>" in text
    assert "off by more than a quarter" in text
    calm = rendered().text
    assert "No entry failed." in calm
    assert "No entry was marked as unequal." in calm


def test_no_text_of_a_row_becomes_a_part_of_the_page():
    source = race.render(*made.full())
    assert "<script>alert" not in source
    assert "<b>" not in source
    text = Outline(source).text
    assert "deux <script>alert(1)" in text
    assert "你好" in text
    assert "return\ufffd\ufffd <&>" in text


def test_what_a_model_was_given_is_shown_once():
    row = made.row("recall", "rnn", 0, 0.5) | {"sample": {"prompt": "Once upon", "text": "Once upon a time"}}
    assert "Once upon a time" in rendered([row]).text
    assert rendered([row]).text.count("Once upon") == 1


def test_an_answer_is_right_by_any_of_its_references():
    one = {"source": "picture 1", "reference": "a red ring", "output": "one red ring"}
    row = made.row("recall", "rnn", 0, 0.5)
    assert "✓" not in rendered([row | {"sample": [one]}]).text
    assert "✓" in rendered([row | {"sample": [one | {"right": True}]}]).text


def test_a_page_of_one_model_says_so():
    rungs = [made.row("state", "rnn", 0, 0.5, rung=name) for name in ("RNN", "TTT")]
    assert (
        "One model that remembers a sequence, in 2 forms on the same data" in rendered(rungs, made.ladder_heat()).text
    )
    assert "One model that remembers a sequence." in rendered(made.recall_rows(("rnn",), seeds=1)).text


def test_sizes_are_not_called_equal_where_they_differ():
    heat = made.heat()
    assert "size: about as many parameters" in rendered(None, heat).text
    text = rendered(None, heat | {"terms": heat["terms"] | {"params": None}}).text
    assert "about as many parameters" not in text
    assert "training ends after the same number for all" in text


def test_a_word_is_explained_where_it_first_stands_and_only_there():
    text = rendered(made.full()[1], *made.full()[0]["heats"]).text
    for words in (
        "is the number that all chance",
        "are the numbers that learning adjusts",
        "is one unit of a sequence",
    ):
        assert text.count(words) == 1


def test_the_card_of_each_model_is_shown_once():
    found = rendered()
    assert [name for name in found.ids if name.startswith("card-")] == [f"card-{model}" for model in made.LINEAGE]
    assert found.text.count("c ← f·c + i·g") == len(made.LINEAGE)


KEPT = {"heat", "model", "seed", "metric", "entry"}


@pytest.mark.parametrize("part", sorted(set(made.row("recall", "rnn", 0, 0.5)) - KEPT))
def test_a_missing_part_leaves_the_rest_of_the_page(part):
    for change in ({part: None}, {}):
        rows = copy.deepcopy(made.recall_rows(("rnn", "lstm")) + made.translation_rows(1))
        for row in rows:
            row.pop(part)
            row.update(change)
        text = rendered(rows, made.heat(), made.translation_heat()).text
        assert text.count("won:") == 4


@pytest.mark.parametrize("part", ["title", "question", "terms", "ladder", "rungs", "notes", "metric", "learning"])
def test_a_heat_may_say_less(part):
    heat = made.heat()
    heat.pop(part)
    assert "transformer won" in rendered(None, heat).text


def test_values_that_are_no_numbers_are_failures():
    rows = [made.row("recall", "rnn", 0, float("nan")), made.row("recall", "lstm", 0, 0.5)]
    text = rendered(rows).text
    assert "Only lstm has a result" in text
    assert "rnn (Recall: which value stood beside this key?), seed 0: its share recalled is no number" in text


def test_many_models_and_one_model_and_none():
    many = made.recall_rows([f"model-{i}" for i in range(12)], seeds=2)
    text = rendered(many).text
    assert all(f"model-{i}" in text for i in range(12))
    assert "Only rnn has a result" in rendered(made.recall_rows(("rnn",), seeds=1)).text
    assert "No run has ended yet" in rendered([]).text


def test_the_page_is_written_beside_its_rows_whole_or_not_at_all(tmp_path, monkeypatch):
    folder = made.save(tmp_path / "race", *made.full())
    path = race.write(folder)
    assert path == folder / "report.html"
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        race.write(folder)
    assert path.read_bytes() == before
    assert {one.name for one in folder.iterdir()} == {"race.json", "results.jsonl", "report.html"}


def test_the_same_rows_give_the_same_page():
    assert race.render(*made.full()) == race.render(*made.full())


def test_a_folder_that_holds_no_race_is_named(tmp_path):
    with pytest.raises(ValueError, match="expected a race's folder with race.json"):
        race.write(tmp_path)
    made.save(tmp_path, made.race(made.heat()), [])
    (tmp_path / "results.jsonl").write_text('{"heat": "recall"\n')
    with pytest.raises(ValueError, match=r"results.jsonl, line 1: expected a JSON object"):
        race.write(tmp_path)
    (tmp_path / "race.json").write_text("{")
    with pytest.raises(ValueError, match=r"race.json: expected JSON"):
        race.write(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("race.json", b"[]", "race.json: expected what a race was asked"),
        ("race.json", b"{}", "race.json: expected what a race was asked"),
        ("race.json", b'{"heats": [1]}', "race.json: expected what a race was asked"),
        ("race.json", b"\xff\xfe", "race.json: expected JSON, found none"),
        ("results.jsonl", b"5\n", "results.jsonl, line 1: expected a JSON object, found none"),
        ("results.jsonl", b"\xff\n", "results.jsonl, line 1: expected a JSON object, found none"),
    ],
)
def test_a_damaged_race_is_told_in_one_line(tmp_path, name, content, message):
    made.save(tmp_path, made.race(made.heat()), [])
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        race.write(tmp_path)


def test_a_row_that_says_almost_nothing_leaves_the_page_standing():
    assert "No entry finished" in rendered([{"heat": "recall"}]).text


def test_the_main_picture_stands_alone(tmp_path):
    folder = made.save(tmp_path / "race", *made.full())
    text = race.picture(folder)
    words = "".join(ElementTree.fromstring(text).itertext())
    assert "var(" not in text
    assert "prefers-color-scheme:dark" in text
    assert "Recall: which value stood beside this key?" in words
    assert "99.5" in words
    made.save(tmp_path / "race", made.race(made.heat()), [])
    with pytest.raises(ValueError, match="expected a heat with a finished entry"):
        race.picture(folder)


# The page of the claims


def test_every_claim_is_in_the_summary_and_has_its_section(tmp_path):
    results = made.claims()
    claims.write(results, tmp_path / "claims.html")
    found = Outline((tmp_path / "claims.html").read_text(encoding="utf-8"))
    assert len(set(found.ids)) == len(found.ids)
    assert all(link[1:] in found.ids for link in found.links)
    assert all(b - a <= 1 for a, b in itertools.pairwise(found.headings))
    for result in results:
        assert found.text.count(result["statement"]) == 2
        assert found.text.count(result["summary"]) == 2
        assert page.anchor("claim", result["id"]) in found.ids
        for one in result["charts"]:
            assert one["title"] in found.text
    assert "1 holds; 1 holds within limits; 1 does not hold here; 1 undecided at this size" in found.text
    assert "slope · fixed -0.31" in found.text
    assert "asserted in the tests" in found.text


def test_a_claim_whose_experiment_broke_says_so():
    broken = {
        "id": "path",
        "statement": "",
        "figures": {},
        "charts": [],
        "verdict": "failed",
        "summary": "KeyError: 'x'",
    }
    text = Outline(claims.render([*made.claims(), broken])).text
    assert "1 undecided at this size; 1 failed." in text
    assert text.count("KeyError: 'x'") == 2


def test_claims_survive_json():
    results = json.loads(json.dumps(made.claims()))
    assert claims.render(results) == claims.render(made.claims())


def test_pages_need_neither_torch_nor_matplotlib():
    code = (
        "import sys, recollect.report.pages.race, recollect.report.pages.claims, recollect.report.drawing.chart\n"
        "sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
