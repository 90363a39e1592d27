"""Who won a heat: a lead counts where its interval leaves out 0, and nobody wins below a guess."""

import json
import math
import random
import statistics

import pytest

from racing.small import raced, recall
from recollect.core import pieces
from recollect.racing.rows import check_row
from recollect.racing.standing import Lead, Standing, interval, measure_lead, student
from recollect.racing.summary import Name, Summary, load, summarize
from recollect.racing.terms import Terms
from web import made


def summary(seeds=None, in_pieces=None, split="valid", entries=None):
    """A heat whose models have these values, one a seed, or these pieces with one seed."""
    rows = [made.row("recall", model, seed, v) for model, vs in (seeds or {}).items() for seed, v in enumerate(vs)]
    for model, values in (in_pieces or {}).items():
        rows.append(made.row("recall", model, 0, statistics.fmean(values)) | {"pieces": values})
    return Summary(made.heat(), [row | {"split": split, "entries": (entries or {}).get(row["model"])} for row in rows])


def told(**seeds):
    return "".join(summary(seeds).verdict()).replace("\u00a0", " ")


def test_students_t_is_that_of_tables():
    known = {1: 12.7062, 2: 4.3027, 10: 2.2281, 11: 2.2010, 15: 2.1314, 30: 2.0423, 199: 1.9720}
    assert {n: student(n) for n in known} == pytest.approx(known, rel=2e-4)


def test_an_interval_is_the_mean_and_t_standard_errors():
    found = interval([1.0, 2.0, 3.0], "seeds")
    assert found == pytest.approx((2.0, 2.0 - 4.302653 / math.sqrt(3), 2.0 + 4.302653 / math.sqrt(3), 3, "seeds"))
    assert interval([1.0], "seeds") is None
    held = 0
    draw = random.Random(0)
    for _ in range(1000):
        lead = interval([draw.gauss(1, 2) for _ in range(5)], "seeds")
        held += lead.low < 1 < lead.high
    assert held == pytest.approx(950, abs=25)


def test_a_win_needs_an_interval_that_leaves_out_0():
    clear = told(lstm=[0.9, 0.92, 0.91], rnn=[0.5, 0.55, 0.51])
    assert clear.startswith(
        "lstm won: share recalled 91.00 %, ahead of rnn (52.00 %) by 39.00 points (95 % interval 34."
    )
    assert clear.endswith("points, over 3 seeds).")
    unsure = told(lstm=[0.9, 0.5, 0.7], rnn=[0.6, 0.7, 0.65])
    assert unsure.startswith("lstm and rnn are level: share recalled 65.00 to 70.00 %. A lead counts where its 95 %")
    assert "won" not in unsure


def test_differences_are_paired_by_seed():
    """Seeds that are hard for both leave a difference that is the same for each."""
    assert "lstm won" in told(lstm=[0.9, 0.8, 0.7], rnn=[0.8, 0.7, 0.6])
    assert "are level" in told(lstm=[0.9, 0.8, 0.7], rnn=[0.6, 0.7, 0.8])


def test_one_seed_without_pieces_names_no_winner():
    words = told(lstm=[0.9], rnn=[0.5])
    assert words.startswith(
        "Nobody won: lstm is first: share recalled 90.00 %, ahead of rnn (50.00 %) by 40.00 points; "
    )
    assert "one seed gives no interval, so that they count as level: --seeds 3 gives one" in words
    tied = told(lstm=[0.9], rnn=[0.9], gru=[0.5])
    assert tied == "lstm and rnn are level: share recalled 90.00 %; next is gru (50.00 %). " + (
        "One seed gives no interval: --seeds 3 gives one."
    )


def test_one_seed_is_judged_by_pieces_of_what_was_measured():
    draw = random.Random(1)
    hard = [draw.random() for _ in range(100)]
    values = {"lstm": [0.5 * h + 0.3 for h in hard], "rnn": [0.5 * h + 0.2 + draw.gauss(0, 0.1) for h in hard]}
    words = "".join(summary(in_pieces=values, split="test").verdict())
    assert words.startswith("lstm won: ")
    assert "over 100 pieces of the test part, one seed). Another seed may still turn it: --seeds 3 tells." in words
    values["rnn"] = [v + 0.2 * (-1) ** place for place, v in enumerate(values["lstm"])]
    assert "are level" in "".join(summary(in_pieces=values).verdict())
    few = {model: own[:9] for model, own in values.items()}
    assert "one seed gives no interval" in "".join(summary(in_pieces=few).verdict()).lower()


def test_an_interval_over_pieces_stands_around_the_difference_that_is_shown():
    first, second = (
        Standing(name, [{"metric": {"value": value}, "pieces": [value + 0.01 * (i % 3) for i in range(20)]}])
        for name, value in (("a", 0.9), ("b", 0.5))
    )
    second.rows[0]["metric"]["value"] = 0.55
    lead = measure_lead(first, second, 1)
    assert lead.mean == pytest.approx(0.35)
    assert (lead.low + lead.high) / 2 == pytest.approx(0.35)


def test_what_differs_by_next_to_nothing_is_level_however_sure():
    level = told(lstm=[0.9, 0.9, 0.9], rnn=[0.899, 0.899, 0.899], gru=[0.5, 0.5, 0.5])
    assert level.startswith("lstm and rnn are level: share recalled 89.90 to 90.00 %; next is gru (50.00 %).")


def test_nobody_wins_below_a_guess():
    found = summary({"rnn": [0.05, 0.06, 0.05], "gru": [0.02, 0.02, 0.03]})
    assert "".join(found.verdict()).startswith("Nobody won: first is rnn, share recalled 5.33")
    assert "which is no better than a guess" in found.in_words()
    assert "no model does better than that" in found.in_words()
    unsure = summary({"rnn": [0.05, 0.12, 0.06], "gru": [0.02, 0.02, 0.03]})  # the guess gets .071
    assert "but over 3 seeds a guess is not ruled out" in unsure.in_words()
    assert {row["verdict"] for row in map(found.judged.to_json, ("rnn", "gru"))} == {"first", "behind"}
    assert found.judged.to_json("rnn")["below_guess"] is True


def test_what_is_counted_needs_no_second_seed():
    def answer(**values):
        return summary(values, entries={"ngram": 900}).in_words()

    assert "ngram won" in answer(ngram=[0.9], rnn=[0.5, 0.55, 0.52])
    assert "are level" in answer(rnn=[0.95, 0.7, 0.8], ngram=[0.8])
    assert "one seed gives no interval" in answer(ngram=[0.9], rnn=[0.5])
    assert "What is counted is the same with every seed." in answer(ngram=[0.9])
    two = (
        Standing("a", [{"metric": {"value": 2.0}, "entries": 1}]),
        Standing("b", [{"metric": {"value": 3.0}, "entries": 1}]),
    )
    assert measure_lead(*two, -1) == Lead(1.0, 1.0, 1.0, 1, "counts")


def test_where_less_is_better_the_least_wins():
    rows = [made.row("text", model, s, v + s / 100) for model, v in (("gru", 1.9), ("ngram", 1.7)) for s in range(3)]
    rows = [row | {"baselines": {"unigram": 3.3}} for row in rows]
    verdict = Summary(made.text_heat() | {"name": "text"}, rows).verdict()
    assert isinstance(verdict[0], Name)  # in bold on a page
    assert verdict[0] == "ngram"
    assert verdict[1].startswith(" won: nats per token 1.710, ahead of gru (1.910) by 0.200")


def test_a_small_error_is_not_rounded_away():
    heat = made.text_heat()
    rows = [made.row(heat["name"], model, 0, v) for model, v in (("tcn", 5.3e-5), ("gru", 1.8e-4), ("rnn", 0.167))]
    assert (
        "tcn is first: nats per token 0.000053, ahead of gru (0.000180) by 0.000127" in Summary(heat, rows).in_words()
    )


def test_no_result_and_a_single_one_are_told_as_such():
    assert told() == "No entry finished, so nobody won."
    assert (
        told(rnn=[0.9])
        == "Only rnn has a result: share recalled 90.00 %. One seed gives no interval: --seeds 3 gives one."
    )
    assert told(rnn=[0.9, 0.8]).endswith("Over seeds, it ranges from 80.00 to 90.00 %.")


def test_the_table_has_how_far_each_is_behind_the_first():
    found = summary({"lstm": [0.9, 0.92, 0.91], "gru": [0.91, 0.9, 0.91], "rnn": [0.5, 0.55, 0.51]})
    columns, lines = found.table()
    cells = {line[1]: line[columns.index("behind, 95 %")] for line in lines}
    assert (cells["lstm"], cells["gru"]) == ("–", "level")
    low, high = map(float, cells["rnn"].split(" to "))
    assert low < 39 < high


def test_pieces_keep_their_order_and_mean():
    assert pieces.cut([1.0, 3.0, 5.0, 7.0], 2) == [2.0, 6.0]
    assert pieces.cut([], 2) == []
    assert len(pieces.cut(range(10_000))) == pieces.MOST


def test_rows_say_what_they_were_measured_on_and_how_they_stand(tmp_path):
    rows = raced([recall("rnn", "mlp")], tmp_path, Terms(search=0, seeds=2))
    assert {row["split"] for row in rows} == {"test"}
    for row in rows:
        check_row(row)
        assert statistics.fmean(row["pieces"]) == pytest.approx(row["metric"]["value"], abs=1e-5)
        assert row["standing"]["verdict"] in ("first", "level", "behind")
        assert len({tuple(row["standing"]) for row in rows}) == 1
    behind = next(row["standing"] for row in rows if row["standing"]["place"] == 2)["behind"]
    assert (behind["number"], behind["over"]) == (2, "seeds")
    (heat,) = json.loads((tmp_path / "race.json").read_text())["heats"]
    assert any("measured on the test part, with the weights that did best on validation" in n for n in heat["notes"])
    assert summarize(*load(tmp_path))[0].judged.places[0].verdict == "first"
