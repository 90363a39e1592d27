"""The page of speed is made from the rows."""

import json
from pathlib import Path

import pytest

from benchmarks import measure, reasons, speed_page

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_of_speed_is_made_from_the_rows():
    expected = speed_page.page(ROOT / "results")
    assert (ROOT / "docs" / "speed.md").read_text(encoding="utf-8") == expected, "run python -m benchmarks.speed_page"


def test_the_page_shows_what_is_absent_and_what_failed(rows, command, tmp_path):
    command("--json", str(tmp_path))
    text = speed_page.page(tmp_path)
    assert "| good one | 1 s ±15 % | p | 2 s ±0 % | 0.50 |" in text
    assert "- bad: failed (`RuntimeError: no such kernel second line`)" in text
    assert "- kenlm: `not installed` (bad one)" in text
    assert "of 1 rows with a peer, ours is faster in 1, level (within 5 %) in 0, slower in 0" in text


def test_where_both_sides_are_ours_nothing_is_won(tmp_path):
    times = {"median": 1.0, "low": 1.0, "high": 1.0}
    for name, ratio in {"decoding": 0.1, "step": 2.0}.items():
        row = measure.Row(name, "cpu", dict(times), {"p": times | {"ratio": ratio}})
        measure.write(f"{name}-cpu", [row], "c", tmp_path)
    assert (
        "- CPU: of 1 rows with a peer, ours is faster in 0, level (within 5 %) in 0, slower in 1."
        in speed_page.page(tmp_path)
    )


def test_every_row_of_a_cpu_that_is_slower_is_explained():
    found = {p.stem.removeprefix("bench-"): json.loads(p.read_text()) for p in (ROOT / "results").glob("bench-*.json")}
    rows = speed_page.slower(found)
    assert rows, "nothing is slower: explained() and this test can go"
    assert [row for row in rows if reasons.find_reason(row) is None] == [], "say why in benchmarks/reasons.py"


def test_a_slower_row_without_a_reason_says_that_it_has_none(tmp_path):
    times = {"median": 1.0, "low": 1.0, "high": 1.0}
    rows = [measure.Row(name, "cpu", dict(times), {"p": times | {"ratio": 2.0}}) for name in ("other", "step conv B1")]
    measure.write("step-cpu", rows, "c", tmp_path)
    text = speed_page.page(tmp_path)
    assert "| other | 2.00 | not known |" in text
    assert f"| step conv B1 | 2.00 | {reasons.GOES_ON} |" in text  # the reason of rows whose name goes on with a blank


def test_commands_that_were_timed_before_and_after_are_a_table(tmp_path):
    row = {"row": "start", "before": [2.0], "after": [0.5], "medians": {"before": 2.0, "after": 0.5}}
    content = {"command": "c", "commits": {"before": "old", "after": "new"}, "machine": {"cores": 2}}
    (tmp_path / "start.json").write_text(json.dumps(content | {"rows": [row | {"after / before": 0.25}]}))
    assert "| command | old | new | ratio |" in (text := speed_page.page(tmp_path))
    assert "| start | 2 s | 500 ms | 0.25 |" in text


def test_curves_become_a_table_of_exponents():
    ours = {"median": 0.5, "low": 0.4, "high": 0.6}
    row = measure.Row(
        "scaling x",
        "cpu",
        ours,
        series={"length": [256, 512], "seconds": [0.1, 0.5], "bytes": [2**20, 2**21]},
        fit={"time": 1.5, "memory": 1.0},
    )
    table = speed_page.growth([vars(row)])
    assert "| scaling x | 512 | 500 ms | 2.0 MiB | length^1.50 | length^1.00 |  |" in table


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(2.5, "2.5 s"), (0.1234, "123 ms"), (0.0012345, "1.23 ms"), (74.13e-6, "74.1 µs"), (3e-7, "0.3 µs")],
)
def test_times_have_three_digits_and_a_unit(seconds, said):
    assert speed_page.duration(seconds) == said


@pytest.mark.parametrize(
    ("part", "said"),
    [(0.0, "0 %"), (0.004, "0.4 %"), (0.0099, "1 %"), (0.096, "10 %"), (0.5, "50 %"), (1.08, "108 %")],
)
def test_shares_are_whole_percents_from_one_on(part, said):
    assert speed_page.percent(part) == said


def test_rates_are_amounts_over_time():
    assert speed_page.figure({"median": 0.5}, "tokens", 4096) == "8,192 tokens/s"
    assert speed_page.figure({"median": 2.0}, "sentences", 5) == "2.50 sentences/s"
