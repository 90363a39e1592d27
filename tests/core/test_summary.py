"""What is said of data before a training: a table of splits, files in a line, and the same as JSON."""

import json

from recollect.core.summary import LISTED, DataSummary, FileList, SkippedFile

FILES = FileList(
    names=("a.txt", "b.txt"),
    size=1_234_000,
    encodings={"UTF-8": 1, "UTF-8, gzip": 1},
    skipped=(SkippedFile("c.txt", "not UTF-8"),),
)


def test_a_summary_is_lines_with_columns_one_below_another():
    found = DataSummary(
        name="book",
        files=FILES,
        splits={"train": {"lines": 1_200, "tokens": 34_000, "unknown": 0}, "valid": {"lines": 9, "tokens": 700}},
        counts={"labels": {"pos": 1_000, "neg": 20}},
        facts={"vocabulary": 1_065, "tokenizer": "chars"},
        notes=["a note"],
    )
    assert found.lines() == [
        "data  book: 2 files, 1.23\u00a0MB, UTF-8 (1), UTF-8, gzip (1); 1 skipped",
        "             lines  tokens  unknown",
        "      train  1,200  34,000        0",
        "      valid      9     700        –",
        "      labels: pos 1,000, neg 20",
        "      vocabulary 1,065, tokenizer chars",
        "note: a note",
    ]
    again = json.loads(json.dumps(found.to_json()))
    assert again["files"]["skipped"] == [{"name": "c.txt", "reason": "not UTF-8"}]
    assert again["splits"]["valid"] == {"lines": 9, "tokens": 700}


def test_many_names_and_labels_are_counted_and_the_first_are_named():
    names = [str(number) for number in range(1_000)]
    found = DataSummary(name="many", files=FileList(names=names), counts={"labels": dict.fromkeys(names, 1)})
    assert found.lines()[1].endswith("988 more")
    files = found.to_json()["files"]
    assert (files["read"], len(files["names"])) == (1_000, LISTED)


def test_data_without_files_say_so_or_nothing():
    assert DataSummary(name="sums").lines() == ["data  sums"]
    assert DataSummary(name="numbers", files=FileList()).lines() == ["data  numbers: generated"]
