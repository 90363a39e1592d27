"""The summary of a race: table, verdict and notes, from rows alone."""

from dataclasses import replace

import pytest

from recollect.core.metric import Metric
from recollect.racing import rates
from recollect.racing.heats import heats
from recollect.racing.notes import _note_baselines, write_notes
from recollect.racing.summary import Standing, Summary, load, mark_unfair, measure_gain, summarize
from recollect.racing.terms import Terms, with_models
from web import made


def table(heat, rows):
    return Summary(heat, rows).table()


def rows_of(label, *values, **more):
    usual = {"model": label, "params": 10, "entries": None, "tokens": 2_000, "flops": 3e9, "seconds": 1.0}
    usual |= {"state_bytes": 64, "unfair": [], "heat": "recall", "baselines": {}, "entry": label}
    usual |= {"data": "some", "settings": {"train": {"lr": 1.0}}}
    return [usual | more | {"seed": seed, "metric": {"value": value}} for seed, value in enumerate(values)]


def test_the_table_stands_by_rank_with_the_range_of_seeds_and_failures_last():
    broken = {"entry": "c", "heat": "recall", "error": "no", "unfair": []}
    rows = [*rows_of("a", 0.2, 0.4), *rows_of("b", 0.9), broken]
    columns, lines = table(made.heat(), rows)
    assert [line[:3] for line in lines] == [
        ["1", "b", "90.0 %"],
        ["2", "a", "30.0 % (20.0 % to 40.0 %)"],
        ["–", "c", "failed"],
    ]
    assert columns[2] == "share recalled"
    assert [line[3] for line in lines] == ["–", "no interval", ""]
    assert lines[0][4:] == ["10", "2.0 k", "3.0 G", "1.0", "64"]
    assert all(len(line) == len(columns) for line in lines)


def test_a_ladder_stands_rung_by_rung_with_what_each_bought():
    rungs = [{"name": name, "model": "rnn", "change": ""} for name in ("low", "high")]
    columns, lines = table(made.heat(rungs=rungs), rows_of("high", 0.9) + rows_of("low", 0.25))
    assert [line[:4] for line in lines] == [["2", "low", "25.0 %", "–"], ["1", "high", "90.0 %", "+65.0 points"]]
    assert columns[1] == "rung"


def test_a_rung_is_held_against_the_one_right_before_it_and_more_is_better():
    rungs = [{"name": name, "model": "rnn", "change": ""} for name in ("a", "b", "c", "d")]
    nats = Metric(name="nats", label="nats").to_json()
    broken = {"entry": "c", "heat": "recall", "error": "no", "unfair": []}
    rows = [*rows_of("a", 2.5), *rows_of("b", 2.0), broken, *rows_of("d", 1.0)]
    _, lines = table(made.heat(rungs=rungs, metric=nats), rows)
    assert [line[1:4] for line in lines[:3]] == [["a", "2.500", "–"], ["b", "2.000", "+0.500"], ["d", "1.000", "–"]]


def test_a_table_speaks_of_all_seeds():
    first, second = rows_of("a", 0.2, 0.4)
    second |= {"tokens": 6_000, "flops": 5e9, "unfair": ["batch"]}
    columns, (line,) = table(made.heat(), [first, second])
    found = dict(zip(columns, line, strict=True))
    assert (found["tokens"], found["FLOPs"], found["unfair"]) == ("4.0 k", "4.0 G", "batch")


def test_equals_share_a_rank():
    _, lines = table(made.heat(), rows_of("a", 0.5) + rows_of("b", 0.5) + rows_of("c", 0.1))
    assert [line[:2] for line in lines] == [["1", "a"], ["1", "b"], ["3", "c"]]


def test_small_errors_are_not_rounded_to_nothing():
    mse = heats()["adding"].metric
    assert [mse.write_cell(value) for value in (0.0, 5.3e-5, 0.167)] == ["0.000", "5.30e-05", "0.167"]


def test_guesses_are_told_by_the_measure_of_the_heat():
    rows = rows_of("rnn", 0.15, chance=0.078, baselines={"always 1": 1 / 6})
    notes = " ".join(write_notes(heats()["adding"], rows))
    assert "squared error: always 1 0.167" in notes
    assert "chance" not in notes


def test_it_says_where_counting_stands():
    heat = replace(heats()["recall"], metric=Metric(name="nats", label="nats"))
    counted = rows_of("ngram", 2.2, entries=5)
    (note, *_) = write_notes(heat, counted + rows_of("rnn", 2.0) + rows_of("gru", 2.5))
    assert note == "ngram, which only counts, read 2.0 k tokens and is ahead of gru at this small budget."
    assert "behind every network" in write_notes(heat, counted + rows_of("rnn", 2.0))[0]


def test_only_committed_rates_are_called_so():
    heat = heats()["recall"]
    entrant = heat.entrants()[0]
    rate = rates.rate_of(heat, entrant)
    told = [write_notes(heat, rows_of(entrant.label, 0.5, settings={"train": {"lr": lr}})) for lr in (rate, 2 * rate)]
    assert [any("are committed" in note for note in notes) for notes in told] == [True, False]


def test_notes_say_how_rates_were_sought_and_whether_alike():
    heat = with_models(heats()["recall"], ["rnn", "ar"])
    plan = rates.plan_of(heat)
    same, other = plan.in_words(), "0.01, each with 33% of the budget"

    def search(*tried, share):
        return {"lr": 1.0, "share": share, "tried": [{"rate": rate} for rate in tried], "seconds": 3.0}

    def learning_notes(*rows):
        return [note for note in write_notes(heat, rows) if "earch" in note or "Learning" in note]

    (kept,) = rows_of("rnn", 0.5, settings={"train": {"lr": 0.0003}}, fair={"search": same})
    (alike,) = rows_of("ar", 0.4, search=search(*plan.rates, share=1.0), fair={"search": same})
    (unlike,) = rows_of("ar", 0.4, search=search(0.01, share=1 / 3), fair={"search": other})
    (here,) = rows_of("rnn", 0.5, search=search(*plan.rates, share=1.0), fair={"search": same})
    assert learning_notes(here, alike) == [
        f"Learning rates by a search: {same}; it took 6 s beside.",
        "All were searched alike, in this race: the same rates, as much training for each.",
    ]
    assert learning_notes(kept, alike) == [
        f"Learning rates of ar by a search: {same}; it took 3 s beside.",
        f"Learning rates of rnn are committed with the package: {rates.how(heat)}.",
        "Learning rates were not sought alike; --search 3 in another --out does so for all.",
    ]
    assert learning_notes(kept) == [f"Learning rates are committed with the package: {rates.how(heat)}."]
    assert learning_notes(kept, unlike)[-1].startswith(
        "Learning rates were not sought alike; --search 3 in another --out"
    )
    for row in (kept, unlike):
        row["fair"] |= {"data": "d"}
    mark_unfair([kept, kept | {"entry": "gru"}, unlike], None)
    assert (kept["unfair"], unlike["unfair"]) == ([], ["search"])


def mark(rows, name):
    return [row["entry"] for row in rows if name in row["unfair"]]


def test_unfair_rows_are_marked_by_name():
    def row(entry, params=100, entries=None, **fair):
        own = {"data": "d", "tokenizer": "bytes", "batch": 8} | fair
        return {"entry": entry, "params": params, "entries": entries, "fair": own, "unfair": []}

    rows = [
        row("a"),
        row("b"),
        row("c", params=126),
        row("d", tokenizer="chars"),
        row("e", batch=4, data="another"),
        row("f", params=0, entries=900),
        {"entry": "g", "error": "out of memory", "unfair": ["memory"]},
    ]
    for _ in range(2):  # judged again nothing changes
        mark_unfair(rows, params=100)
        assert [mark(rows, name) for name in ("size", "tokenizer", "batch", "data", "memory")] == [
            ["c"],
            ["d"],
            ["e"],
            ["e"],
            ["g"],
        ]


def test_what_validation_watches_is_told_as_what_it_is(tmp_path):
    heat = Terms(search=0).of(heats()["labels"])
    assert heat.validation.label == "share right"
    assert Terms(search=0, settings={"choose": "nats"}).of(heats()["labels"]).validation.label == "nats per row"
    row = {"baselines": {"majority": 0.25}, "data": "x"}
    assert _note_baselines(heat, row) == ["Without a network, share right: majority 0.750."]


def test_guesses_are_shown_by_the_measure_of_the_heat_or_not_at_all():
    rows = made.recall_rows(("rnn",)) + made.translation_rows(1)
    recall, translation = summarize(made.race(made.heat(), made.translation_heat()), rows)
    assert dict(recall.baselines) == pytest.approx({"chance": 0.0625, "most frequent": 0.071})
    assert translation.baselines == []  # in nats, where the heat counts BLEU
    assert Summary(made.text_heat(), made.text_rows()).baselines == [("uniform", 4.17), ("unigram", 3.35)]


def test_a_gain_counts_a_fall_as_better_where_less_is():
    before, after = Standing("a"), Standing("b")
    before.rows = [{"seed": s, "metric": {"value": v}} for s, v in enumerate((3.0, 2.0))]
    after.rows = [{"seed": s, "metric": {"value": v}} for s, v in enumerate((2.5, 1.0))]
    found = measure_gain(before, after, "lower")
    assert (found.mean, found.low, found.high, found.seeds) == (0.75, 0.5, 1.0, 2)
    assert measure_gain(before, Standing("c"), "lower") is None


def test_a_gain_on_what_is_counted_is_told_by_every_seed():
    counted, trained = Standing("ngram"), Standing("mlp")
    counted.rows = [{"seed": 0, "metric": {"value": 2.0}, "entries": 9}]
    trained.rows = [{"seed": s, "metric": {"value": v}, "entries": None} for s, v in enumerate((2.5, 3.0))]
    found = measure_gain(counted, trained, "lower")
    assert (found.mean, found.low, found.high, found.seeds) == (-0.75, -1.0, -0.5, 2)
    assert found.verdict == "worse with every seed"
    assert measure_gain(trained, counted, "lower").seeds == 2


def test_a_folder_that_holds_no_race_is_named(tmp_path):
    with pytest.raises(ValueError, match="expected a race's folder with race.json"):
        load(tmp_path)
    made.save(tmp_path, made.race(made.heat()), [])
    (tmp_path / "results.jsonl").write_text('{"heat": "recall"\n')
    with pytest.raises(ValueError, match=r"results.jsonl, line 1: expected a row of a race"):
        load(tmp_path)
    (tmp_path / "race.json").write_text("{")
    with pytest.raises(ValueError, match=r"race.json: expected JSON"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("race.json", b"[]", "race.json: expected what a race was asked"),
        ("race.json", b"{}", "race.json: expected what a race was asked"),
        ("race.json", b'{"heats": [1]}', "race.json: expected what a race was asked"),
        ("race.json", b"\xff\xfe", "race.json: expected JSON, found something else"),
        ("results.jsonl", b"5\n", "results.jsonl, line 1: expected a row of a race, found none"),
        ("results.jsonl", b"\xff\n", "results.jsonl, line 1: expected a row of a race, found none"),
    ],
)
def test_a_damaged_race_is_told_in_one_line(tmp_path, name, content, message):
    made.save(tmp_path, made.race(made.heat()), [])
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load(tmp_path)
