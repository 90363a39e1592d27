"""Tables of texts and labels, read as they are."""

import csv
import gzip
from dataclasses import replace

import pytest

import recollect
import tiny
from recollect.data.files import DataError
from recollect.tasks.labels import data as sets
from recollect.tasks.labels.task import LabelsTask
from recollect.tasks.labels.texts import has_low_hash, sort_labels
from recollect.training import evaluation
from recollect.training import run as runs
from tasks.cases import sentences
from tasks.labels.cases import configure, texts_of, write


@pytest.mark.parametrize(
    ("shape", "settings"),
    [
        ({}, {}),
        ({"order": (1, 0)}, {}),
        ({"order": (1, 0)}, {"label_column": "1"}),
        ({"header": "sentence\tlabel"}, {}),
        ({"header": "Label\tText", "order": (1, 0)}, {}),
        ({"header": "what\tverdict"}, {"label_column": "verdict"}),
        ({"header": "what\tverdict"}, {"header": True}),
        ({"end": "\r\n"}, {}),
        ({"mark": "\ufeff"}, {}),
    ],
    ids=lambda value: str(value),
)
def test_columns_headers_marks_and_line_ends_are_told_apart(tmp_path, shape, settings):
    plain = sets.load(write(tmp_path / "plain.tsv", sentences()))
    path = write(tmp_path / "other.tsv", sentences(), **shape)
    packed = tmp_path / "packed.tsv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for given in (path, packed):
        found = sets.load(given, **settings)
        assert found.fingerprint == plain.fingerprint
    assert plain.artifacts.classes == ("neg", "pos")
    assert len(plain.train.labels) + len(plain.valid.labels) == 160


def test_a_first_line_that_may_be_a_header_is_doubted_aloud(tmp_path):
    path = write(tmp_path / "odd.tsv", sentences(), header="what\tverdict")
    assert any("line 1 of" in note and "its label 'verdict'" in note for note in sets.load(path).notes)
    for settings in ({"header": True}, {"header": False}, {"label_column": "verdict"}):
        assert not any("line 1 of" in note for note in sets.load(path, **settings).notes)
    plain = sets.load(write(tmp_path / "plain.tsv", sentences()))
    assert not any("line 1 of" in note for note in plain.notes)
    second = sets.load([tmp_path / "plain.tsv", path])
    assert any("line 1 of" in note and "odd.tsv" in note for note in second.notes)


def test_more_columns_are_named(tmp_path):
    rows = [(str(n), text, label) for n, (text, label) in enumerate(sentences())]
    path = write(tmp_path / "three.tsv", rows, order=(0, 1, 2))
    found = sets.load(path, label_column="3", text_column="2")
    assert found.fingerprint == sets.load(write(tmp_path / "two.tsv", sentences())).fingerprint
    with pytest.raises(DataError, match="in two columns, found 3 in line 1"):
        sets.load(path)
    with pytest.raises(DataError, match="label_column: expected a number from 1 to 3 of .*, found '4'"):
        sets.load(path, label_column="4", text_column="2")


def test_a_text_that_comes_twice_is_on_one_side(tmp_path):
    rows = [(f"word{n} again", str(n % 2)) for n in range(100)]
    found = sets.load(write(tmp_path / "twice.tsv", rows + rows[::-1]))
    assert not set(texts_of(found)) & set(texts_of(found, "valid"))
    assert 0.02 < len(found.valid.labels) / 200 < 0.25
    assert any("hash" in note for note in found.notes)


def test_the_vocabulary_is_that_of_training_and_the_rest_is_unknown(tmp_path, table):
    other = write(tmp_path / "valid.tsv", [("good marmalade", "pos"), ("bad", "neg")])
    found = sets.load(table, valid=[other])
    assert texts_of(found, "valid") == ["good <unk>", "bad"]
    assert len(found.train.labels) == 160
    assert any("<unk>: valid 33.3 %" in note for note in found.notes)


def test_characters_have_room_for_what_training_lacks(table):
    kept = sets.load(table, tokenizer="chars").artifacts
    assert kept.encode("good 電影").tolist()[-2:] == [kept.tokenizer.unknown] * 2


def test_long_texts_are_cut_and_that_is_told(table):
    found = sets.load(table, longest=3)
    assert found.train.lengths.max() == 3
    assert any("where they are cut" in note for note in found.notes)
    assert len(found.artifacts.encode("good " * 50)) == 3


def test_labels_are_in_the_order_of_their_numbers_or_letters():
    assert sort_labels(["10", "9", "-1"]) == ("-1", "9", "10")
    assert sort_labels(["b", "a", "10"]) == ("10", "a", "b")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("good\tpos\nbad\n", "found no tab in line 2 of .*bad.tsv: 'bad'"),
        ("good\tpos\nbad\tneg\tx\n", "expected 2 columns as in line 1, found 3 in line 2"),
        ("a good one\tpos\nmore good\tpos\n", "at least two labels to tell apart, found only 'pos' in .*bad.tsv"),
        ("\n\n", "found only blank ones in .*bad.tsv"),
        ("a\tb\nc\td\n", "expected a column with fewer different values for the labels, found two alike"),
        ("", "found an empty file"),
    ],
)
def test_what_is_no_table_is_refused_with_file_and_line(tmp_path, content, message):
    path = tmp_path / "bad.tsv"
    path.write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        sets.load(path)
    assert "\n" not in str(caught.value)


def test_the_wrong_column_is_noticed(tmp_path):
    rows = [(f"{n}", f"label {n}") for n in range(300)]
    with pytest.raises(DataError, match="expected labels that come again"):
        sets.load(write(tmp_path / "all.tsv", rows), label_column="2")


def test_empty_texts_are_left_out_and_counted(tmp_path):
    rows = [*sentences(), ("", "pos"), ("  ", "neg"), ("good", "")]
    found = sets.load(write(tmp_path / "gaps.tsv", rows))
    assert len(found.train.labels) + len(found.valid.labels) == 160
    assert any("3 rows without a text or a label were left out, the first in line 161 of" in n for n in found.notes)


def test_a_label_that_training_lacks_is_refused_with_its_line(tmp_path, table):
    other = write(tmp_path / "valid.tsv", [("good", "pos"), ("so so", "meh")])
    with pytest.raises(DataError, match=r"training has \(neg, pos\), found 'meh' in line 2 of .*valid.tsv"):
        sets.load(table, valid=[other])


def test_a_label_that_the_hash_took_from_training_is_left_out_and_told(tmp_path):
    rare = next(f"rare{n}" for n in range(1000) if has_low_hash(f"rare{n}", 0.1))
    found = sets.load(write(tmp_path / "rare.tsv", [*sentences(), (rare, "odd")]))
    assert found.artifacts.classes == ("neg", "pos")
    assert any("1 rows of labels that training lacks were left out, the first in line 161" in n for n in found.notes)


@pytest.mark.parametrize("mark", [",", ";"])
@pytest.mark.parametrize("header", [None, "text{}label", "what{}verdict"])
def test_labels_come_from_csv_as_from_tabs(tmp_path, mark, header):
    """Texts in quotes may hold the mark, quotes and line ends."""
    rows = [(f'{text}, "so to say"', label) for text, label in sentences()]
    named = {} if header is None or "text" in header else {"label_column": "verdict"}
    plain = sets.load(write(tmp_path / "plain.tsv", rows, header=header and header.format("\t")), **named)
    path = tmp_path / "table.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=mark, quoting=csv.QUOTE_ALL)
        if header:
            writer.writerow(header.format(mark).split(mark))
        writer.writerows((text.replace("so to", "so\nto"), label) for text, label in rows)
    found = sets.load(path, **named)
    assert found.fingerprint == plain.fingerprint
    assert found.name == "table"


def test_an_open_quote_in_csv_is_refused_with_its_line(tmp_path):
    path = tmp_path / "open.csv"
    path.write_text("text,label\ngood,pos\n" + 'so "bad",neg\n"never closed,neg\n' + "and on,pos\n" * 20_000)
    with pytest.raises(DataError, match=r"found a row that is none from line 4 of .*open\.csv on"):
        sets.load(path)


def test_what_is_known_of_labels_before_training_counts_them(table):
    found = LabelsTask.data_summary(sets.load(table))
    assert sum(row["rows"] for row in found.splits.values()) == 160
    assert sum(found.counts["labels"].values()) == found.splits["train"]["rows"]
    assert found.splits["valid"]["unknown"] > 0  # the number in each text


def test_unknown_names_are_told_what_there_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="known sets are mnist, sst2, fsdd, tones"):
        sets.load("mnits")


def test_other_tables_have_a_header_where_those_of_the_run_have_one(tmp_path):
    """Its names may be any; a table that begins with a row is read from that row on."""
    first = write(tmp_path / "films.tsv", sentences(), header="what\tverdict")
    runs.train(LabelsTask, configure(first, "bag", header="true"), str(tmp_path / "run"))
    rows = list(sentences(20, seed=1))
    for header in ("what\tverdict", "prose\tsentiment", None):
        other = write(tmp_path / "other.tsv", rows, header=header)
        assert evaluation.evaluate(str(tmp_path / "run"), split="test", data=[str(other)])["rows"] == 20
    runs.train(LabelsTask, configure(write(tmp_path / "plain.tsv", sentences()), "bag"), str(tmp_path / "plain"))
    other = write(tmp_path / "other.tsv", rows, header="prose\tsentiment")
    with pytest.raises(DataError, match="expected a label that training has .*found 'sentiment' in line 1"):
        evaluation.evaluate(str(tmp_path / "plain"), split="test", data=[str(other)])


def test_labels_of_any_length_are_refused_with_their_line(tmp_path):
    path = tmp_path / "long.tsv"
    path.write_text(
        "".join(f"some text {i}\t{'no' if i % 2 else 'yes'}\n" for i in range(60)) + f"more\t{'x' * 10**6}\n"
    )
    with pytest.raises(DataError, match="labels of at most 1,000 characters, found one of 1,000,000 in line 61"):
        sets.load(path)


@pytest.mark.parametrize("column", ["²", "9" * 5_000, "0", "3", "-1"])
def test_a_column_that_is_no_number_of_one_is_refused(tmp_path, column):
    path = tmp_path / "two.tsv"
    path.write_text("".join(f"some text {i}\t{i % 2}\n" for i in range(60)))
    with pytest.raises(DataError, match="label_column: expected a number from 1 to 2"):
        sets.load(path, label_column=column)


def test_labels_that_only_look_like_numbers_are_sorted_as_words():
    assert sort_labels(["--5", "1", "10", "2"]) == ("--5", "1", "10", "2")
    assert sort_labels(["-5", "10", "2"]) == ("-5", "2", "10")


def test_a_cell_beyond_the_limit_of_csv_is_refused_in_a_line(tmp_path):
    path = tmp_path / "long.tsv"
    path.write_text("x" * 200_000 + "\ngood\t1\n")
    with pytest.raises(DataError) as caught:
        sets.load(str(path))
    assert "\n" not in str(caught.value)


def test_tables_in_a_named_encoding_are_those_of_utf8_in_training_measuring_and_use(tmp_path):
    rows = [(text.replace("good", "很好"), label) for text, label in sentences()]
    plain = write(tmp_path / "plain.tsv", rows)
    path = tmp_path / "gb.tsv"
    path.write_bytes(plain.read_text(encoding="utf-8").encode("gb18030"))
    with pytest.raises(DataError, match="name it with --encoding gb18030"):
        sets.load(path)
    assert sets.load(path, encoding="gb18030").fingerprint == sets.load(plain).fingerprint
    config = configure(path, "bag")
    runs.train(LabelsTask, replace(config, data=replace(config.data, encoding="gb18030")), str(tmp_path / "run"))
    measured = [evaluation.evaluate(tmp_path / "run", split="valid", data=[str(one)]) for one in (path, plain)]
    assert measured[0]["metric"]["value"] == measured[1]["metric"]["value"]
    model = recollect.load(tmp_path / "run")
    (tmp_path / "rows.txt").write_bytes("很好\n".encode("gbk"))
    assert list(model.read(tmp_path / "rows.txt")) == ["很好"]
    assert list(model.read(tmp_path / "rows.txt", encoding="gbk")) == ["很好"]
    done = tiny.invoke("classify", tmp_path / "run", tmp_path / "rows.txt", "--encoding", "latin-1")
    assert done.exit_code == 0
    assert "nothing but unknown tokens" in done.stderr
    assert "expected a file with it" in str(tiny.invoke("classify", tmp_path / "run", "--encoding", "gbk").exception)
