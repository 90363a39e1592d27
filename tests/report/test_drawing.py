"""Drawing: numbers for people, colours for every eye, and charts whose marks stand where the axes say."""

import io
import itertools
import math
import re
from base64 import b64decode
from xml.etree import ElementTree
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from recollect import tasks
from recollect.core import numbers
from recollect.racing.summary import Summary
from recollect.report.drawing import chart, colour, figure, scale
from recollect.report.drawing.looks import KNOWN, MODELS, Keys, look_of_model
from recollect.report.pages import claims, race
from recollect.report.pages.charts import draw_results
from recollect.report.pages.heat import split_baselines
from recollect.report.pages.page import WIDTHS
from web import made

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


def svg(drawn):
    return ElementTree.fromstring(drawn)


def of(tree, class_):
    return [one for one in tree.iter() if class_ in (one.get("class") or "").split()]


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
    assert len({look.colour for look in looks}) == 5
    assert len(set(keys.names.values())) == 12


def test_every_model_of_the_package_has_a_look_of_its_own_that_never_changes():
    declared = {model for task in tasks.every() for model in getattr(task, "models", ())}
    assert declared | {"mixture"} == set(MODELS)
    assert len(set(MODELS.values())) == len(MODELS)
    assert len({look[:2] for look in MODELS.values()}) == len(MODELS), "apart without strokes too"
    printed = " ".join(f"{name}:{look.colour}{look.mark}{look.dashed:d}" for name, look in sorted(MODELS.items()))
    assert crc32(printed.encode()) == 1110895889, "figures stand in print with these looks; add a line, change none"


@pytest.mark.parametrize("kind", [tasks.find("text").models, tasks.find("translation").models])
def test_models_that_race_each_other_differ_in_colour_or_in_stroke_and_mark(kind):
    for one, other in itertools.combinations(kind, 2):
        a, b = MODELS[one], MODELS[other]
        assert a.colour != b.colour or (a.mark != b.mark and a.dashed != b.dashed), (one, other)


def test_a_model_from_outside_has_a_colour_that_no_other_has_and_one_mark_for_ever():
    own = look_of_model("my-layer", MODELS.values())
    assert own == look_of_model("my-layer")
    assert own.colour not in {look.colour for look in KNOWN.values()}
    for field in (["my-layer", "lstm", "other"], ["other", "my-layer"]):
        keys = Keys()
        keys.models(field)
        assert keys.of("my-layer") == own
        assert len({keys.of(name).colour for name in field}) == len(field)


def test_a_model_looks_alike_in_a_race_in_an_instrument_and_whatever_stands_beside_it():
    lines = [{"name": f"run of {model}", "model": model, "x": [0, 1], "y": [1, 2]} for model in ("gru", "lstm", "gru")]
    lines[2]["name"] = "another gru"
    keys = Keys().of_chart({"lines": lines})
    assert keys.of("run of gru") == MODELS["gru"]
    assert keys.of("run of lstm") == MODELS["lstm"]
    assert keys.of("another gru").colour == MODELS["gru"].colour
    assert keys.of("another gru") != MODELS["gru"]


def test_a_name_of_several_claims_looks_alike_in_all_and_others_take_the_first_colours():
    results = made.claims()
    results[3]["charts"] = [LINES | {"lines": [{"name": n, "x": [1], "y": [2]} for n in ("own", "shared", "other")]}]
    results[2]["charts"] = [LINES | {"lines": [{"name": "shared", "x": [1], "y": [2]}]}]
    keys = claims.share_colours(results)
    assert list(keys.names) == ["shared"]
    assert [keys.within(["own", "shared", "other"]).of(name).colour for name in ("shared", "own", "other")] == [0, 1, 2]
    assert keys.within(["rnn"]).names == {"rnn": MODELS["rnn"]}


def test_curves_that_lie_on_each_other_are_all_seen():
    lines = [
        {"name": name, "x": [1, 2, 3, 4], "y": [1, 2, 3, last]} for name, last in zip("abc", (9, 4, 4), strict=True)
    ]
    tree = svg(chart.inline(LINES | {"lines": lines, "level": None}, WIDTHS["full"]))
    assert [len(one.get("points").split()) for one in of(tree, "under2")] == [3], "below two others as far as they go"
    assert [len(one.get("points").split()) for one in of(tree, "under1")] == [4]
    css = dict(re.findall(r"\.chart \.(line|under\d)\{[^}]*stroke-width:([\d.]+)", chart.stylesheet()))
    assert float(css["line"]) < float(css["under1"]) < float(css["under2"]) < float(css["under3"])


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


@pytest.mark.parametrize("wide", [WIDTHS["full"], WIDTHS["half"], WIDTHS["phone"]])
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
    tree = svg(chart.inline(bars, WIDTHS["full"]))
    up = axis(tree, True)
    tops = [(float(one.get("y")), float(one.get("height"))) for one in of(tree, "bar") if one.find("title") is not None]
    found = [tuple(round(between(up, y + dy, False), 1) for dy in (0, height)) for y, height in tops]
    assert found == [(2.0, 0.0), (0.0, -1.0)]


def test_bars_with_long_names_lie_down():
    names = [f"a rather long name of a place {i}" for i in range(4)]
    bars = LINES | {"kind": "bars", "lines": [{"name": n, "x": names, "y": [1, 2, None, 4]} for n in "ab"]}
    for wide in (WIDTHS["full"], WIDTHS["phone"]):
        tree = svg(chart.inline(bars, wide))
        words = [one.text for one in tree.iter("text")]
        assert all(name in words for name in names)
        assert words.count("no result") == 2
        boxes = [float(one.get("width")) for one in of(tree, "bar")]
        assert boxes[2] / boxes[0] == pytest.approx(2, rel=0.02)


def test_bars_that_lie_keep_a_log_axis():
    names = [f"a rather long name of a place {i}" for i in range(3)]
    lines = [{"name": "a", "x": names, "y": [0.01, 1.0, 100.0]}]
    tree = svg(chart.inline(LINES | {"kind": "bars", "log_y": True, "level": None, "lines": lines}, WIDTHS["phone"]))
    ends = [float(one.get("x")) + float(one.get("width")) for one in of(tree, "bar")]
    assert ends[2] - ends[1] == pytest.approx(ends[1] - ends[0], abs=0.2)
    found = axis(tree, False)
    assert between(found, ends[1], True) == pytest.approx(1, rel=0.02)


def test_a_gap_breaks_the_curve_and_a_lone_point_is_marked():
    tree = svg(chart.inline(LINES, WIDTHS["full"]))
    curves = [one for one in of(tree, "line") if one.tag == "polyline"]
    assert [len(one.get("points").split()) for one in curves] == [4, 2]
    assert sum(one.find("title") is not None for one in of(tree, "mark")) == 7


def test_what_a_log_axis_cannot_show_is_said():
    lines = [{"name": "a", "x": [1, 2, 3], "y": [1.0, 0.0, -2.0]}]
    words = [
        one.text for one in svg(chart.inline(LINES | {"log_y": True, "lines": lines}, WIDTHS["full"])).iter("text")
    ]
    assert "2 points are not shown: not above 0" in words


@pytest.mark.parametrize("wide", [WIDTHS["full"], WIDTHS["phone"]])
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
    image = next(svg(chart.inline(grid, WIDTHS["phone"])).iter("image"))
    found = Image.open(io.BytesIO(b64decode(image.get("href").split(",", 1)[1])))
    assert [found.getpixel(at)[3] for at in ((0, 0), (1, 0), (0, 1), (1, 1))] == [0, 128, 255, 0]
    assert "nothing was measured" in chart.inline(grid | {"values": []}, WIDTHS["phone"])


def test_a_dot_has_its_range_its_seeds_and_the_baselines():
    heat = Summary(made.heat(), made.recall_rows(("rnn", "lstm")))
    tree = svg(chart.inline(draw_results(heat, heat.baselines), WIDTHS["full"]))
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
    heat = Summary(about, rows)
    near, far = split_baselines(heat)
    assert [name for name, _ in near] == ["bigram"]
    assert [name for name, _ in far] == ["unigram", "uniform"]
    tree = svg(chart.inline(draw_results(heat, near), WIDTHS["full"]))
    assert len(of(tree, "level")) == 1
    assert "beyond this picture: unigram 3.3" in race.render(made.race(about), rows)
    for row in rows:
        row["metric"]["value"] = 1.5
    near, far = split_baselines(Summary(about, rows))
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


def test_a_figure_makes_its_folder_and_where_it_cannot_is_refused_before_anything_is_computed(tmp_path):
    figure.check_path(str(tmp_path / "none" / "deep" / "a.png"))
    assert (tmp_path / "none" / "deep").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(figure.FigureError, match=r"expected a folder for the figure, found none that can be made"):
        figure.check_path(str(tmp_path / "file" / "a.png"))


def test_a_figure_without_a_known_ending_is_refused(tmp_path):
    with pytest.raises(figure.FigureError, match="expected a figure that ends in"):
        chart.draw(LINES, str(tmp_path / "a.gif"))
