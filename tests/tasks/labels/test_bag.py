"""The bag of words by its counts."""

import numpy as np
import pytest
import torch

from recollect.core.contract import ContractError
from recollect.tasks.labels import bag
from recollect.tasks.labels.task import LabelsTask
from recollect.tasks.labels.use import Classifier, classify
from recollect.training import evaluation
from recollect.training import run as runs
from tasks.labels.cases import configure


def test_naive_bayes_is_its_counts():
    """Texts 0 0 1 and 1 1 of label 0, 2 1 of label 1; a vocabulary of 4."""
    model = bag.Config(inputs=4, outputs=2).build()
    model.train_on(np.array([0, 0, 1, 1, 1, 2, 1]), np.array([3, 2, 2]), np.array([0, 0, 1]))
    words = [[3 / 9, 1 / 6], [4 / 9, 2 / 6], [1 / 9, 2 / 6], [1 / 9, 1 / 6]]
    assert model.words.exp().tolist() == [pytest.approx(row) for row in words]
    found = model.last(torch.tensor([[2, 0, 0], [3, 2, 2]]), torch.tensor([1, 3])).exp()
    assert found[0].tolist() == pytest.approx([2 / 3 * 1 / 9, 1 / 3 * 2 / 6])
    assert found[1].tolist() == pytest.approx([2 / 3 * (1 / 9) ** 3, 1 / 3 * 1 / 6 * (2 / 6) ** 2])


def test_a_bag_knows_nothing_of_order():
    model = bag.Config(inputs=5, outputs=3).build()
    model.train_on(np.array([0, 1, 2, 3, 4, 4]), np.array([2, 2, 2]), np.array([0, 1, 2]))
    x = torch.tensor([[0, 3, 4, 2]])
    assert torch.allclose(model(x)[0][:, -1], model(x.flip(1))[0][:, -1])


def test_a_bag_is_a_run_like_any_other(table, tmp_path):
    found = runs.train(LabelsTask, configure(table, "bag"), str(tmp_path / "run"))
    assert found["accuracy"] == 1.0, "good and bad tell"
    assert evaluation.evaluate(str(tmp_path / "run"), split="valid")["baseline_accuracy"]["bag of words"] == 1.0
    assert max(evaluation.verify(str(tmp_path / "run")).values()) < 1e-10
    assert runs.resume(str(tmp_path / "run")) == found
    said = list(classify(Classifier.of_run(runs.load(tmp_path / "run")), ["a good film", "so bad"]))
    assert [answer.label for answer in said] == ["pos", "neg"]


def test_a_bag_is_for_words(pictures, tmp_path):
    with pytest.raises(ContractError, match="expected one that reads numbers, found 'bag'"):
        runs.train(LabelsTask, configure(pictures, "bag"), str(tmp_path / "run"))
