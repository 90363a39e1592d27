"""Maps of where in a sound each character was heard."""

import io
from base64 import b64decode
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from recollect.report import spectrogram as drawing
from recollect.report.drawing import figure

TIMES = {"frame": 0.01, "step": 0.04}


def pictures(drawn, look):
    tree = ElementTree.fromstring(drawn)
    found = [one for one in tree.iter("image") if one.get("class") == look]
    return [(one, np.asarray(Image.open(io.BytesIO(b64decode(one.get("href").split(",", 1)[1]))))) for one in found]


def test_each_character_has_a_row_at_its_time_on_one_scale():
    spectrum = np.random.default_rng(0).normal(size=(100, 8))
    weights = np.zeros((2, 25))
    weights[0, 3], weights[1] = 0.8, 0.04
    drawn = drawing.panels(spectrum, weights, ["7", "<end>"], **TIMES)
    (sharp, one), (even, other) = pictures(drawn, "over-picture")
    assert one.shape == other.shape == (1, 25, 4)
    assert one[0, :, 3].tolist() == [0, 0, 0, 255, *[0] * 21]
    assert set(other[0, :, 3].tolist()) == {round(255 * 0.04 / 0.8)}, "what is spread evenly is pale"
    whole = pictures(drawn, "smooth")
    assert len(whole) == 3, "the spectrogram, and one strip a character"
    assert float(sharp.get("width")) == pytest.approx(float(whole[0][0].get("width")), abs=0.2), (
        "both are a second long"
    )
    assert float(even.get("y")) > float(sharp.get("y"))
    assert ">seconds</text>" in drawn
    assert ">0.8</text>" in drawn, "the middle of the axis, or the end of the scale"


def test_loud_is_dark_and_high_is_above():
    spectrum = np.zeros((10, 4))
    spectrum[:5, 0], spectrum[5:, 3] = 5.0, 5.0
    found = drawing.shade_spectrum(spectrum)[..., 0]
    assert found.shape == (4, 10)
    assert (found[3, :5] == 30).all()
    assert (found[0, 5:] == 30).all()
    assert (found[1:3] == 255).all()


def test_a_map_becomes_a_file_or_one_line(tmp_path):
    spectrum, weights = np.zeros((10, 4)), np.ones((1, 2)) / 2
    for ending in ("svg", "png"):
        drawing.draw(spectrum, weights, ["$a_"], str(tmp_path / f"map.{ending}"), title="attention", **TIMES)
    assert "$a_" in (tmp_path / "map.svg").read_text()
    with pytest.raises(figure.FigureError, match="expected weights over the sound for each of 2 characters"):
        drawing.draw(spectrum, weights, ["a", "b"], str(tmp_path / "map.png"), **TIMES)
    with pytest.raises(figure.FigureError, match="expected a spectrum of frames"):
        drawing.draw(np.zeros((0, 4)), weights, ["a"], str(tmp_path / "map.png"), **TIMES)
    with pytest.raises(figure.FigureError, match="expected a figure that ends in"):
        drawing.draw(spectrum, weights, ["a"], str(tmp_path / "map.gif"), **TIMES)
