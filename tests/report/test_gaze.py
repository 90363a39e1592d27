"""Maps of where a caption's words came from."""

import numpy as np
import pytest

from recollect.report import gaze as drawing
from recollect.report.drawing import figure


def test_a_panel_is_clear_where_it_was_looked_at():
    found = drawing.veil(np.array([[0.5, 0.25], [0.25, 0.0]]))
    assert found[..., 3].tolist() == [[0, drawing.VEIL / 2], [drawing.VEIL / 2, drawing.VEIL]]
    assert (drawing.veil(np.zeros((2, 2)))[..., 3] == drawing.VEIL).all()


def test_the_words_of_a_map_are_text_and_no_mathematics(tmp_path):
    picture = np.zeros((20, 30, 3), np.uint8)
    drawing.draw(picture, ["$5", "a_b", "dog"], np.full((3, 2, 2), 0.25), str(tmp_path / "a.svg"), "where")
    text = (tmp_path / "a.svg").read_text()
    assert "$5" in text
    assert "a_b" in text
    assert text.count("<image") == 4, "the picture, and one panel a word"


def test_a_map_that_cannot_be_drawn_is_one_line(tmp_path):
    picture = np.zeros((20, 30, 3), np.uint8)
    with pytest.raises(figure.FigureError, match="expected a figure that ends in"):
        drawing.draw(picture, ["dog"], np.ones((1, 2, 2)), str(tmp_path / "a.gif"))
    with pytest.raises(figure.FigureError, match="expected a grid of weights for each of 2 words, found shape"):
        drawing.draw(picture, ["a", "dog"], np.ones((1, 2, 2)), str(tmp_path / "a.png"))
