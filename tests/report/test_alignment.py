"""Maps of alignments, in every format and script."""

import re
import warnings

import numpy as np
import pytest

from recollect.report import alignment as drawing
from recollect.report.drawing import chart, figure, heatmap
from recollect.report.drawing.colour import SIGNS

WEIGHTS = [[0.1, 0.7, 0.2], [0.9, 0.05, 0.05]]


@pytest.mark.parametrize(
    ("end", "magic"), [(".png", b"\x89PNG"), (".svg", b"<svg"), (".pdf", b"%PDF"), (".PNG", b"\x89PNG")]
)
def test_a_map_is_drawn_in_every_format(tmp_path, end, magic):
    path = tmp_path / f"map{end}"
    drawing.draw(WEIGHTS, ["the", "cat", "<end>"], ["là", "<end>"], str(path), "attention")
    assert path.read_bytes().startswith(magic)


def test_a_map_in_svg_holds_its_words_as_text(tmp_path):
    path = tmp_path / "map.svg"
    drawing.draw(WEIGHTS, ["naïve", "Straße", "<end>"], ["œuvre", "Łódź"], str(path), "attention, layer 2 head 1")
    found = re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text("utf-8"))
    assert {"naïve", "Straße", "&lt;end&gt;", "Attention, layer 2 head 1", "œuvre", "Łódź"} <= set(found)


def test_a_word_with_dollars_is_no_formula(tmp_path):
    path = tmp_path / "map.svg"
    drawing.draw(WEIGHTS, ["$5-$6", "$\\frac$", "a_b"], ["$$", "%"], str(path))
    found = re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text("utf-8"))
    assert {"$5-$6", "$\\frac$", "a_b", "$$", "%"} <= set(found)
    drawing.draw(WEIGHTS, ["$5-$6", "$\\frac$", "a_b"], ["$$", "%"], str(tmp_path / "map.png"))


def test_the_strongest_cell_is_the_one_that_counts_most(tmp_path):
    from PIL import Image

    path = tmp_path / "map.png"
    drawing.draw([[0.0, 1.0], [0.5, 0.0]], ["a", "b"], ["c", "d"], str(path))
    pixels = np.asarray(Image.open(path).convert("RGB"), dtype=int)
    full, half = SIGNS["above"], [255 - (255 - part) / 2 for part in SIGNS["above"]]
    strong, middling = (np.argwhere(np.abs(pixels - one).max(axis=2) <= 2) for one in (full, half))
    assert len(strong) > 1000
    assert len(middling) > 1000
    assert strong[:, 1].mean() > middling[:, 1].mean(), "the strongest stands in the second column"


def test_an_alignment_that_was_never_learned_does_not_look_sharp():
    """Its scale ends at 1, whatever its largest weight is."""
    even = drawing.describe([[0.2] * 5] * 3, list("abcde"), list("xyz"))
    assert heatmap.limits(even) == (0, 1)
    assert heatmap.shade(0.2, *heatmap.limits(even))[3] == 51
    assert "share of each row" in chart.inline(even, 400)


def test_a_long_sentence_is_drawn_without_a_picture_that_fills_the_memory(tmp_path):
    from PIL import Image

    path = tmp_path / "map.png"
    drawing.draw([[1 / 150] * 150], ["w"] * 150, ["x"], str(path))
    with Image.open(path) as picture:
        assert max(picture.size) <= figure.LARGEST + 1
        assert max(picture.size) > 5000


@pytest.mark.parametrize("name", ["map", "map.gif", "map.png.txt", ""])
def test_a_name_that_says_no_format_is_refused(name):
    with pytest.raises(figure.FigureError, match=r"expected a figure that ends in \.png, \.svg, \.pdf"):
        figure.check_path(name)


@pytest.mark.parametrize(
    ("text", "package"),
    [
        ("我喜欢", "fonts-noto-cjk"),
        ("한국", "fonts-noto-cjk"),
        ("𠀋", "fonts-noto-cjk"),
        ("🐈", "fonts-symbola"),
        ("ᚠ", "fonts-noto"),
    ],
)
def test_glyphs_that_no_font_has_are_told_with_the_package_that_has_them(monkeypatch, tmp_path, text, package):
    """On a machine with matplotlib's own fonts alone, and none of those with these glyphs."""
    import matplotlib

    own = matplotlib.get_data_path() + "/fonts/ttf/cmr10.ttf"
    monkeypatch.setattr(figure, "installed", lambda: [("cmr10", own)])
    with pytest.raises(
        figure.FigureError, match=rf"found none on this machine; .*apt-get install {package}\)"
    ) as caught:
        drawing.draw(WEIGHTS, ["the", text, "<end>"], ["a", "b"], str(tmp_path / "map.png"))
    assert text[0] in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "map.png").exists()


def test_the_font_of_last_resort_counts_for_nothing():
    """It claims every glyph and draws a box for each."""
    assert not [name for name, _ in figure.installed() if "Last Resort" in name]
    assert "DejaVu Sans" in figure.families(["naïve Łódź"])
    nobody = "\U000f1234"  # a place that is free for private use
    with pytest.raises(figure.FigureError, match="expected a font with the glyphs"):
        figure.families([nobody])


def test_a_font_that_came_after_matplotlib_made_its_list_is_found(monkeypatch):
    """Its list is kept in a file: who installs the package as told would be told again."""
    from matplotlib import font_manager

    manager = font_manager.fontManager
    path = next(font.fname for font in manager.ttflist if font.name == "DejaVu Serif")
    monkeypatch.setattr(manager, "ttflist", [font for font in manager.ttflist if font.name != "DejaVu Serif"])
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [path])
    figure.installed.cache_clear()
    try:
        assert ("DejaVu Serif", path) in figure.installed()
    finally:
        figure.installed.cache_clear()


@pytest.mark.parametrize("end", [".png", ".svg"])
def test_chinese_is_drawn_and_not_boxed(tmp_path, end):
    if not any("CJK" in name for name, _ in figure.installed()):
        pytest.skip("no font with Chinese on this machine (Debian: fonts-noto-cjk)")
    path = tmp_path / f"map{end}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns of every glyph that it lacks
        drawing.draw(WEIGHTS, ["我", "喜欢", "茶。"], ["J'aime", "thé"], str(path))
    names = figure.families(["我喜欢茶。thé"])
    assert names[0] == "DejaVu Sans"
    assert "CJK" in names[1]
    if end == ".svg":
        assert ">喜欢<" in path.read_text("utf-8")
        return
    other = tmp_path / "other.png"
    drawing.draw(WEIGHTS, ["我", "喝水", "茶。"], ["J'aime", "thé"], str(other))
    assert other.read_bytes() != path.read_bytes(), "boxes would all look alike"


def test_a_glyph_that_matplotlib_lacks_is_a_warning_that_fails_a_test(tmp_path, monkeypatch):
    """Or the test above could not fail."""
    monkeypatch.setattr(figure, "families", lambda *_, **__: ["cmr10"])
    with pytest.warns(UserWarning, match="missing from"):
        drawing.draw(WEIGHTS, ["我", "b", "c"], ["d", "e"], str(tmp_path / "x.png"))
