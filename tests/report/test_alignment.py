"""Maps of alignments, in every format and script."""

import re
import warnings

import numpy as np
import pytest

from recollect.report import alignment as drawing
from recollect.report.drawing import figure

WEIGHTS = [[0.1, 0.7, 0.2], [0.9, 0.05, 0.05]]


@pytest.mark.parametrize(
    ("end", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF"), (".PNG", b"\x89PNG")]
)
def test_a_map_is_drawn_in_every_format(tmp_path, end, magic):
    path = tmp_path / f"map{end}"
    drawing.draw(WEIGHTS, ["the", "cat", "<end>"], ["là", "<end>"], str(path), "attention")
    assert path.read_bytes().startswith(magic)


def test_a_map_in_svg_holds_its_words_as_text(tmp_path):
    path = tmp_path / "map.svg"
    drawing.draw(WEIGHTS, ["naïve", "Straße", "<end>"], ["œuvre", "Łódź"], str(path), "attention, layer 2 head 1")
    found = re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text("utf-8"))
    assert found == ["naïve", "Straße", "&lt;end&gt;", "attention, layer 2 head 1", "œuvre", "Łódź"]


def test_a_word_with_dollars_is_no_formula(tmp_path):
    path = tmp_path / "map.svg"
    drawing.draw(WEIGHTS, ["$5-$6", "$\\frac$", "a_b"], ["$$", "%"], str(path))
    found = re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text("utf-8"))
    assert found == ["$5-$6", "$\\frac$", "a_b", "$$", "%"]


def test_the_darkest_cell_is_the_one_that_counts_most(tmp_path):
    from PIL import Image

    path = tmp_path / "map.png"
    drawing.draw([[0.0, 1.0], [0.5, 0.0]], ["a", "b"], ["c", "d"], str(path))
    grey = np.asarray(Image.open(path).convert("L"), dtype=int)
    values, counts = np.unique(grey, return_counts=True)
    large = {int(value): int(count) for value, count in zip(values, counts, strict=True) if count > 1000}
    assert min(large) < 10, "all of it is black"
    assert any(100 < value < 160 for value in large), "half of it is grey"
    half = grey.shape[1] // 2
    assert np.argwhere(grey < 10)[:, 1].mean() > half, "and the black cell stands in the second column"


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


def test_a_glyph_that_matplotlib_lacks_is_a_warning_that_fails_a_test(tmp_path):
    """Or the test above could not fail."""
    page, axes = figure.canvas(1, 1)
    axes.set_title("我", fontfamily=["cmr10"])
    with pytest.warns(UserWarning, match="missing from"):
        figure.save(page, str(tmp_path / "x.png"))
