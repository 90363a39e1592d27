"""Exposure: alike where a model has read nothing of its own, and after that what a count by hand gives."""

import math

import pytest
import torch

from recollect.tasks.text.instruments import measure_exposure


class Echo:
    """Foretells, with a probability of 0.7, the token that it has just read; all others alike."""

    vocabulary = 4

    def likely(self, tokens):
        rest = 0.3 / (self.vocabulary - 1)
        return torch.full((*tokens.shape, self.vocabulary), rest).scatter(-1, tokens[..., None], 0.7)

    def __call__(self, tokens, state):
        return self.likely(tokens).log(), None

    def nll(self, tokens, wanted, state):
        return -self.likely(tokens).log().gather(-1, wanted[..., None])[..., 0], None


def test_the_first_place_has_read_nothing_of_its_own():
    found = measure_exposure(Echo(), torch.randint(4, (50, 12), generator=torch.Generator().manual_seed(1)), 6)
    assert len(found["forced"]) == len(found["free"]) == 6
    assert found["forced"][0] == found["free"][0]


def test_a_models_own_text_leads_it_away_from_a_text_that_it_follows():
    """The text repeats one token; the model's own leaves it with a probability of 0.3 at every step."""
    windows = torch.zeros(4000, 7, dtype=torch.int64)
    found = measure_exposure(Echo(), windows, 3)
    assert found["forced"] == pytest.approx([-math.log(0.7)] * 4)
    right, expected = 1.0, []
    for _ in range(4):
        expected.append(-right * math.log(0.7) - (1 - right) * math.log(0.1))
        right = 0.7 * right + 0.1 * (1 - right)
    assert found["free"] == pytest.approx(expected, abs=0.05)
