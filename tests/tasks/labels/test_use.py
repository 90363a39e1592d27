"""Lines in, labels out."""

import numpy as np
import pytest

import tiny
from recollect.data.files import DataError
from recollect.tasks.labels.idx import read_idx
from recollect.tasks.labels.task import LabelsTask
from recollect.tasks.labels.use import Classifier, classify
from recollect.training import evaluation
from recollect.training import run as runs
from tasks.cases import sentences
from tasks.labels.cases import configure, write


def test_lines_are_labelled_in_order_whatever_their_batch(table, tmp_path):
    runs.train(LabelsTask, configure(table, pool="mean"), str(tmp_path / "run"))
    used = Classifier.of_run(runs.load(tmp_path / "run"))
    lines = ["so good\n", "\n", "bad", "  ", "the film was so long and so long and good", "unheard of words"]
    unknown = []
    found = list(classify(used, iter(lines), on_unknown=unknown.append))
    assert [answer is None for answer in found] == [False, True, False, True, False, True]
    assert unknown == [6]
    for line, answer in zip(lines, found, strict=True):
        if answer is not None:
            (alone,) = classify(used, [line], batch=1)
            assert alone.label == answer.label
            assert alone.probability == pytest.approx(answer.probability, abs=1e-5)
            assert 0.5 <= answer.probability <= 1
    assert list(classify(used, [])) == []


def test_more_lines_than_a_block_are_labelled(table, tmp_path, monkeypatch):
    monkeypatch.setattr("recollect.tasks.labels.use.BLOCK", 4)
    runs.train(LabelsTask, configure(table, "bag"), str(tmp_path / "run"))
    used = Classifier.of_run(runs.load(tmp_path / "run"))
    found = [answer.label for answer in classify(used, ["good", "bad"] * 9, batch=3)]
    assert found == ["pos", "neg"] * 9


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    place = tmp_path_factory.mktemp("counted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_CACHE", str(place / "cache"))
        runs.train(LabelsTask, configure(write(place / "films.tsv", sentences()), "bag"), str(place / "run"))
    return place / "run"


TABLE = 'id,comment,score\n1,"good, so good",3\n2,"bad\nfilm",1\n3,xyzzy,2\n4,,2\n'


@pytest.mark.parametrize(
    ("name", "content", "flags"),
    [
        ("reviews.csv", TABLE, ()),
        ("reviews.csv", TABLE, ("--column", "Comment")),
        ("reviews.txt", TABLE.replace(",", "\t").replace('"', "").replace("\nfilm", " film"), ("--column", "2")),
        ("reviews.csv", TABLE.replace("comment", "words").replace(",", ";"), ("--column", "words")),
        ("reviews.csv", 'text\n"good, so good"\n"bad film"\nxyzzy\n""\n', ("--column", "text")),
    ],
    ids=["by its header", "by a name", "by a number", "with semicolons", "alone"],
)
def test_the_texts_of_a_table_are_labelled_row_by_row(counted, tmp_path, name, content, flags):
    path = tmp_path / name
    path.write_text(content)
    done = tiny.invoke("classify", counted, path, *flags)
    assert done.exit_code == 0, done.exception
    labels = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    assert labels[:3] == ["pos", "neg", ""]
    assert done.stderr == "warning: row 3: nothing but unknown tokens, so no label\n"


def test_a_table_without_a_column_of_texts_says_which_there_are(counted, tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_text("when,what\nnow,good\n")
    refused = tiny.invoke("classify", counted, path)
    assert "expected a column of texts out of when, what of" in str(refused.exception)
    assert "found none that is named; name it with --column" in str(refused.exception)
    assert "found 'words'" in str(tiny.invoke("classify", counted, path, "--column", "words").exception)
    assert "--column: expected a table" in str(tiny.invoke("classify", counted, "--column", "what").exception)


def test_images_are_labelled_from_lines_of_numbers(pictures, tmp_path):
    runs.train(LabelsTask, configure(pictures, steps=40, permute=3, lr=0.02), str(tmp_path / "run"))
    used, test = Classifier.of_run(runs.load(tmp_path / "run")), read_idx(pictures / "t10k-images-idx3-ubyte", 3)
    lines = [" ".join(map(str, image.ravel())) for image in test]
    found = [answer.label for answer in classify(used, [*lines[:5], *(line.replace(" ", ",") for line in lines[5:])])]
    matrix = np.array(evaluation.evaluate(str(tmp_path / "run"), split="test")["confusion"])
    assert found.count("1") == matrix[:, 1].sum()
    with pytest.raises(DataError, match="the 12 pixels of an image of 4 × 3, from 0 to 255, in line 1, found 2"):
        list(classify(used, ["1 2"]))
    with pytest.raises(DataError, match="expected numbers from 0 to 255 in line 2, found something else"):
        list(classify(used, ["", "a b"]))
