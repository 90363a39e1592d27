"""The parts of a score."""

import numpy as np
import pytest

import recollect
from recollect.core.errors import RecollectError


@pytest.fixture(scope="module")
def model():
    return recollect.load("demo-ratings", engine="torch")


def test_the_parts_sum_to_what_the_model_says(model):
    low, high = model.scale
    for user, item in (("user1", "item1"), ("user4", "item9"), ("user60", "item40")):
        found = model.pair(user, item)
        assert found.score == pytest.approx(found.mean + found.user_bias + found.item_bias + found.user @ found.item)
        assert model.rate(user, item) == pytest.approx(np.clip(found.score, low, high), abs=1e-5)
        assert len(found.user) == len(found.item) == 2


def test_names_and_titles(model):
    assert len(model.names("users")) == 60
    assert model.title("item3") == "item3"


@pytest.mark.parametrize(
    ("user", "item", "words"), [("user61", "item1", "did you mean"), ("user1", "<b>", "items: expected")]
)
def test_an_unknown_name_is_one_line(model, user, item, words):
    with pytest.raises(RecollectError, match=words):
        model.pair(user, item)
