"""Lines in, labels out."""

import numpy as np
import pytest

from recollect.data.files import DataError
from recollect.tasks.labels.idx import read_idx
from recollect.tasks.labels.task import LabelsTask
from recollect.tasks.labels.use import classify
from recollect.train import run as runs
from tasks.labels.cases import configure


def test_lines_are_labelled_in_order_whatever_their_batch(table, tmp_path):
    runs.train(LabelsTask, configure(table, pool="mean"), str(tmp_path / "run"))
    used = runs.load(tmp_path / "run")
    lines = ["so good\n", "\n", "bad", "  ", "the film was so long and so long and good", "unheard of words"]
    found = list(classify(used, iter(lines)))
    assert [answer is None for answer in found] == [False, True, False, True, False, False]
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
    used = runs.load(tmp_path / "run")
    found = [answer.label for answer in classify(used, ["good", "bad"] * 9, batch=3)]
    assert found == ["pos", "neg"] * 9


def test_images_are_labelled_from_lines_of_numbers(pictures, tmp_path):
    runs.train(LabelsTask, configure(pictures, steps=40, permute=3, lr=0.02), str(tmp_path / "run"))
    used, test = runs.load(tmp_path / "run"), read_idx(pictures / "t10k-images-idx3-ubyte", 3)
    lines = [" ".join(map(str, image.ravel())) for image in test]
    found = [answer.label for answer in classify(used, [*lines[:5], *(line.replace(" ", ",") for line in lines[5:])])]
    matrix = np.array(runs.evaluate(str(tmp_path / "run"), split="test")["confusion"])
    assert found.count("1") == matrix[:, 1].sum()
    with pytest.raises(DataError, match="the 12 pixels of an image of 4 × 3, from 0 to 255, in line 1, found 2"):
        list(classify(used, ["1 2"]))
    with pytest.raises(DataError, match="expected numbers from 0 to 255 in line 2, found something else"):
        list(classify(used, ["", "a b"]))
