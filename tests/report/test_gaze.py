"""Maps of where a caption's words came from."""

import io
from base64 import b64decode
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from recollect.report import gaze as drawing
from recollect.report.drawing import figure


def shades(drawn):
    """How strong the cells of each panel are, up to 255."""
    tree = ElementTree.fromstring(drawn)
    maps = [one.get("href") for one in tree.iter("image") if one.get("class") == "over-picture"]
    return [np.asarray(Image.open(io.BytesIO(b64decode(one.split(",", 1)[1]))))[..., 3].tolist() for one in maps]


def test_all_panels_are_coloured_on_one_scale_as_every_other_map_is():
    weights = np.zeros((2, 4, 4))
    weights[0, 0, 0], weights[1] = 0.8, 1 / 16
    drawn = drawing.panels(np.zeros((20, 30, 3), np.uint8), ["dog", "<end>"], weights)
    sharp, even = shades(drawn)
    assert sharp[0][0] == 255
    assert max(map(max, even)) == round(255 / 16 / 0.8), "what is spread evenly is pale"
    assert 'class="frame scale"' in drawn
    assert "0.8" in drawn


def test_a_gaze_that_was_never_learned_stays_pale():
    (even,) = shades(drawing.panels(np.zeros((20, 30, 3), np.uint8), ["dog"], np.full((1, 4, 4), 1 / 16)))
    assert max(map(max, even)) == 64


def test_the_words_of_a_map_are_text_and_no_mathematics(tmp_path):
    picture = np.zeros((20, 30, 3), np.uint8)
    drawing.draw(picture, ["$5", "a_b", "dog"], np.full((3, 2, 2), 0.25), str(tmp_path / "a.svg"), "where")
    text = (tmp_path / "a.svg").read_text()
    assert "$5" in text
    assert "a_b" in text
    assert text.count('class="smooth"') == 4, "the picture, and one panel a word"
    drawing.draw(picture, ["$5", "a_b", "dog"], np.full((3, 2, 2), 0.25), str(tmp_path / "a.png"), "where")


def test_a_map_that_cannot_be_drawn_is_one_line(tmp_path):
    picture = np.zeros((20, 30, 3), np.uint8)
    with pytest.raises(figure.FigureError, match="expected a figure that ends in"):
        drawing.draw(picture, ["dog"], np.ones((1, 2, 2)), str(tmp_path / "a.gif"))
    with pytest.raises(figure.FigureError, match="expected a grid of weights for each of 2 words, found shape"):
        drawing.draw(picture, ["a", "dog"], np.ones((1, 2, 2)), str(tmp_path / "a.png"))
