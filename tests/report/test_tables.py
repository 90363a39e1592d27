"""Rows become tables: each task its own, every figure of a row in its place."""

import pytest
from tools import tables

MACHINE = {"gpu": None, "cores": 2}


def row(task, model, value, *, seed=0, rule="a rule", **more):
    base = {"task": task, "model": model, "seed": seed, "data": "made", "params": 1234, "seconds": 5.0, "entries": None}
    base |= {"state_bytes": 64, "machine": MACHINE, "settings": {"model": {"name": model}}, "baselines": {"guess": 0.5}}
    return base | {"metric": {"name": "accuracy", "value": value, "rule": rule}} | more


def cells(text):
    """The lines of a table below its head, as lists of cells."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "|" in line][2:]


def test_labels_stand_by_accuracy_with_their_range_and_the_guesses_last():
    own = {"macro_f1": 0.5, "calibration_error": 0.1, "baseline_accuracy": {"most frequent": 0.6}}
    rows = [row("labels", "rnn", 1.0, accuracy=0.7, **own), row("labels", "gru", 0.5, accuracy=0.8, **own)]
    rows.append(row("labels", "gru", 0.5, seed=1, accuracy=0.9, **own))
    found = cells(tables.table(rows))
    assert [line[0] for line in found] == ["`gru`", "`rnn`", "most frequent"]
    assert found[0][1:3] == ["2", "85.0 % (80.0 % – 90.0 %)"]
    assert found[2][2] == "60.0 %"


@pytest.mark.parametrize("task", ["copy", "adding", "recall", "parity", "gap"])
def test_a_test_of_memory_shows_each_dial_by_itself(task):
    rule = "nats over every answer; 500 generated rows with distance {}, one question each"
    rows = [row(task, "gru", 0.1 * n, accuracy=0.9, rule=rule.format(n)) for n in (1, 2)]
    found = cells(tables.table(rows))
    assert [line[1] for line in found] == ["distance 1", "distance 2"]
    assert [line[4] for line in found] == ["0.10000", "0.20000"]
    assert all(line[5] == "0.50000" and line[6] == "64" for line in found)


@pytest.mark.parametrize("data", ["numbers-en-fr", "multi30k-en-de"])
def test_numbers_are_told_by_the_length_of_the_source(data):
    """Of prose nearly nothing is said in the same words, so there is nothing to tell."""
    scores = {"bleu": 50.0, "cased_bleu": 50.0, "chrf": 60.0, "exact": 0.5, "exact_by_length": {"4": 1.0, "11": 0.25}}
    more = {"translated": scores, "forced": {"perplexity": 2.0}, "settings": {"model": {}}}
    found = tables.table([row("translation", "fixed", 50.0, **more) | {"data": data}])
    assert ("| `fixed` | 100.0 % | 25.0 % |" in found) == data.startswith("numbers")


def test_captions_stand_beside_those_of_other_pictures_and_one_for_all():
    scores = {"bleu1": 50.0, "bleu4": 12.0, "exact": 0.1}
    described = scores | {"shuffled": scores | {"bleu4": 3.0}}
    more = {"described": described, "constant": scores | {"bleu4": 7.0}, "forced": {"nats_per_token": 2.0}}
    found = cells(tables.table([row("captions", "attend", 12.0, **more, forced_shuffled={"nats_per_token": 4.0})]))
    assert [line[4] for line in found] == ["12.00", "3.00", "7.00"]
    assert [line[6] for line in found] == ["2.000", "4.000", "–"]


def test_series_have_a_column_a_horizon_and_published_figures_where_all_four_are_there():
    def one(horizon, mse):
        settings = {"model": {"segment": 24}, "series": {"horizon": horizon, "lookback": 720}}
        rivals = {name: {"mse": 1.0, "mae": 0.9} for name in ("naive", "seasonal naive")}
        figures = {"mse": mse, "mae": mse / 2}
        return row("series", "gru", mse, figures=figures, rivals=rivals, settings=settings) | {"data": "etth1"}

    rows = [one(horizon, 0.3 + i / 10) for i, horizon in enumerate(tables.HORIZONS)]
    found = cells(tables.table(rows))
    assert found[0][1:5] == ["0.300 / 0.150", "0.400 / 0.200", "0.500 / 0.250", "0.600 / 0.300"]
    assert any("DLinear" in line[0] for line in found)
    assert not any("DLinear" in line[0] for line in cells(tables.table(rows[:2])))


def test_translations_name_the_score_and_put_seeds_together():
    def one(score, bleu, seed):
        scores = {"bleu": bleu, "cased_bleu": bleu - 1, "chrf": 60.0, "exact": 0.05}
        settings = {"model": {"score": score}}
        more = {"translated": scores, "forced": {"perplexity": 6.0}, "settings": settings}
        return row("translation", "attend", bleu, seed=seed, **more)

    found = cells(tables.table([one("dot", 36.0, 0), one("additive", 38.0, 0), one("additive", 39.0, 1)]))
    assert [line[0] for line in found] == ["`attend`, additive score", "`attend`, dot score"]
    assert found[0][1:3] == ["2", "38.50 (38.00 – 39.00)"]
