"""Instruments on runs whose data is not at hand."""

import json

import pytest

from recollect.core.contract import ContractError
from recollect.data.errors import Unreachable
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


@pytest.mark.parametrize(
    ("run", "what", "given"),
    [("demo-tang", "horizon", {}), ("demo-translation-zh", "alignment", {"text": "How are you?"})],
)
def test_a_shipped_run_whose_set_has_no_address_is_looked_into_without_it(run, what, given, monkeypatch, tmp_path):
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path))
    monkeypatch.delenv("RECOLLECT_DATA", raising=False)
    found = instruments.inspect(run, what, **(given or {"steps": 8, "rows": 1}))
    assert found.summary
    assert given or any("a text of the model's own is read" in note for note in found.notes)


@pytest.mark.parametrize(
    ("run", "hint"), [("demo-translation-zh", "; or give --text in place of the data"), ("demo-speech", "--data-dir")]
)
def test_where_a_run_needs_its_data_the_error_says_what_can_stand_in_for_them(run, hint, monkeypatch, tmp_path):
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path))
    monkeypatch.delenv("RECOLLECT_DATA", raising=False)
    with pytest.raises(Unreachable, match="has no address to download") as caught:
        instruments.inspect(run, "influence")
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("what", "given", "message"),
    [
        ("horizon", {"steps": 10**8}, "--steps: expected at most 100,000, found 100,000,000; each takes"),
        ("gradients", {"rows": 10**8}, "--rows: expected at most 10,000, found"),
        ("cost", {"tries": 10**8}, "--tries: expected at most 1,000, found"),
        ("cost", {"lengths": "10,100000000"}, "--lengths: expected at most 100,000, found 100,000,000"),
        ("influence", {"draws": 10**8}, "--draws: expected at most 10,000, found"),
    ],
)
def test_counts_that_would_never_end_are_refused_with_their_cost(what, given, message):
    with pytest.raises(ContractError, match=message):
        instruments.inspect("demo-text", what, **given)


def test_an_influence_of_too_many_passes_is_refused_with_their_number():
    with pytest.raises(
        ContractError, match="found that 200 steps with 10,000 draws would take 2,000,000; lower --steps"
    ):
        instruments.inspect("demo-text", "influence", text="a" * 201, draws=10_000)
