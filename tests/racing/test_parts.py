"""Parts of a race, run apart and joined, are the race."""

import pytest
from typer.testing import CliRunner

from racing.small import raced, recall, rows_of
from recollect import cli
from recollect.racing.parts import Part, PartError, join, read_part
from recollect.racing.summary import load, summarize
from recollect.racing.terms import Terms

MODELS = ("rnn", "lstm", "gru", "mlp")
BESIDE = ("run", "command", "standing", "fair")


def without_places(rows):
    found = [{name: value for name, value in row.items() if name not in BESIDE} for row in rows]
    return sorted(found, key=lambda row: (row["entry"], row["seed"]))


@pytest.mark.slow
def test_four_parts_run_apart_and_joined_give_the_rows_of_one_race(tmp_path):
    heat, terms = recall(*MODELS), Terms(search=2, seeds=2)
    raced([heat], tmp_path / "whole", terms)
    for number in range(1, 5):
        raced([heat], tmp_path / f"part{number}", terms, part=Part(number, 4))
        assert {row["entry"] for row in rows_of(tmp_path / f"part{number}")} == {MODELS[number - 1]}
    join([tmp_path / f"part{number}" for number in (3, 1, 2, 4)], tmp_path / "joined")
    whole, joined = (load(tmp_path / name) for name in ("whole", "joined"))
    assert without_places(rows_of(tmp_path / "whole")) == without_places(rows_of(tmp_path / "joined"))
    one, other = (summarize(*found)[0] for found in (whole, joined))
    assert one.in_words() == other.in_words()
    assert all((tmp_path / row["run"]).is_dir() for row in joined[1])
    raced([heat], tmp_path / "joined", terms)  # nothing is left to run
    assert len(rows_of(tmp_path / "joined")) == 8


def test_parts_of_another_race_are_refused(tmp_path):
    raced([recall("rnn")], tmp_path / "one")
    raced([recall("rnn")], tmp_path / "two", Terms(search=0, budget=3))
    with pytest.raises(PartError, match=r"two: expected a part of the race in .*one, found one on other terms"):
        join([tmp_path / "one", tmp_path / "two"], tmp_path / "out")
    with pytest.raises(PartError, match="--out: expected another folder than those of the parts, found .*one"):
        join([tmp_path / "one"], tmp_path / "one")
    before = rows_of(tmp_path / "two")
    with pytest.raises(PartError, match="two: expected a new folder or an earlier joining of these parts"):
        join([tmp_path / "one"], tmp_path / "two")
    assert rows_of(tmp_path / "two") == before
    for _ in range(2):  # an earlier joining is made anew
        join([tmp_path / "one"], tmp_path / "out")
    done = CliRunner().invoke(cli.app, ["report", str(tmp_path / "one"), str(tmp_path / "two")])
    assert "report: expected --out with a folder for the race that the parts make, found none" in str(done.exception)


class Entry:
    def __init__(self, label, seed):
        self.key = ("heat", label, seed)


def test_a_part_has_all_seeds_of_an_entrant_while_there_are_enough():
    entries = [Entry(label, seed) for label in "abc" for seed in range(2)]
    assert [entry.key[1:] for entry in Part(1, 2).select(entries)] == [("a", 0), ("a", 1), ("c", 0), ("c", 1)]
    assert [[entry.key[1:] for entry in Part(n, 4).select(entries)] for n in (1, 4)] == [
        [("a", 0), ("c", 0)],
        [("b", 1)],
    ]
    with pytest.raises(PartError, match="--part: expected at most 6 parts, one for each entry, found 7"):
        Part(1, 7).select(entries)


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "1/", "a/b", "-1/2", "1/0"])
def test_a_part_is_a_number_of_several(text):
    assert read_part("2/4") == Part(2, 4)
    with pytest.raises(PartError, match="--part: expected a part of several, such as 1/4"):
        read_part(text)
