"""Instruments on runs whose data is not at hand."""

import json

import pytest

from recollect.data.files import Unreachable
from recollect.measure import instruments
from recollect.tasks.text import data as corpus


@pytest.mark.parametrize("what", ["gradients", "horizon"])
def test_a_shipped_run_can_be_looked_into_where_its_data_cannot_be_had(what, monkeypatch):
    """It reads a text of its own, the same every time, and says so."""

    def nowhere(*_, **__):
        raise Unreachable("expected to download it, found nothing")

    monkeypatch.setattr(corpus, "find_set", nowhere)
    first, second = (instruments.inspect("demo-text", what, steps=12, rows=2) for _ in range(2))
    assert any("a text of the model's own is read" in note for note in first.notes)
    assert "its own writing" in json.dumps(first.to_json())
    assert first.figures == second.figures
