"""Sentences joined to texts of any length, to see what length does to a translation."""

import pytest

from recollect.data.files import DataError
from recollect.tasks.translation import data as parallel
from recollect.tasks.translation.sources import Chained


class Lines(list):
    paths = ()

    def describe(self):
        return ["lines"]

    def check(self):
        pass


PAIRS = Lines((" ".join(["a"] * (1 + i % 9)) + f" s{i}", f"t{i} b") for i in range(200))


def test_nothing_is_lost_or_moved():
    joined = list(Chained(PAIRS, 40))
    assert " ".join(source for source, _ in joined) == " ".join(source for source, _ in PAIRS)
    assert " ".join(target for _, target in joined) == " ".join(target for _, target in PAIRS)


def test_each_text_is_no_longer_than_asked_and_all_lengths_occur():
    lengths = [len(source.split()) for source, _ in Chained(PAIRS, 40, rounds=20)]
    assert max(lengths) <= 40
    counts = [sum(low < n <= low + 10 for n in lengths) for low in range(0, 40, 10)]
    assert min(counts) > 0.1 * len(lengths)


def test_sides_stay_together():
    for source, target in Chained(PAIRS, 30):
        assert [word[1:] for word in source.split() if word != "a"] == [w[1:] for w in target.split() if w != "b"]


def test_rounds_join_in_other_ways():
    once = list(Chained(PAIRS, 40))
    twice = list(Chained(PAIRS, 40, rounds=2))
    assert twice[: len(once)] == once
    assert twice[len(once) :] != once


def test_lines_that_are_no_pair_are_passed_on_to_be_counted():
    assert list(Chained(Lines([("a", "b"), None, ("", "x"), ("c", "d")]), 5)).count(None) == 1


def test_what_is_joined_needs_parts_of_its_own(tmp_path):
    for split in ("train", "val", "test"):
        for language in ("en", "de"):
            lines = "".join(f"{split} {language} {i}\n" for i in range(30))
            (tmp_path / f"{split}.{language}").write_text(lines, encoding="utf-8")
    found = parallel.load(tmp_path / "train", pair="en-de", tokenizer="words", chain=12, cache=tmp_path / "cache")
    assert any(len(text.split()) > 6 for text in found.test.texts("source"))
    assert any("up to 12 words" in note for note in found.notes)
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"a {i}\tb {i}\n" for i in range(90)), encoding="utf-8")
    with pytest.raises(DataError, match="expected parts of their own"):
        parallel.load(table, chain=12, cache=tmp_path / "cache")


def test_joining_takes_as_long_as_reading():
    """Each sentence is counted once, however long the texts may become."""

    class Counted(str):
        splits = 0

        def split(self, *args):
            Counted.splits += 1
            return super().split(*args)

    class Source:
        def __iter__(self):
            return iter([(Counted("one two"), "eins zwei")] * 500)

    assert sum(len(pair[0].split()) for pair in Chained(Source(), 1_000_000)) == 1_000
    assert Counted.splits == 500
