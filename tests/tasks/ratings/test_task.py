"""Ratings as a task: figures and biases by hand, runs."""

import math
from itertools import islice

import numpy as np
import pytest
import torch

from recollect.core.contract import ContractError
from recollect.tasks.ratings import data as sets
from recollect.tasks.ratings import task as ratings
from recollect.tasks.ratings.rated import Artifacts, Part, Ratings
from recollect.tasks.ratings.settings import DataConfig
from recollect.tasks.ratings.task import RatingsTask
from recollect.training import evaluation
from recollect.training import run as runs
from recollect.training.folder import RunError, RunFolder
from tasks.ratings.cases import LINES, configure

SMALL = {"users": 30, "items": 20, "ratings": 400, "rank": 2}


def by_hand(part, kept, train=None):
    """A set of ratings out of lists of users, items and scores."""
    columns = [np.array(column) for column in part]
    found = Part(columns[0], columns[1], columns[2].astype(np.float32))
    return Ratings("hand", kept, train or found, found, found, None, "hand", [])


def test_rmse_and_mae_are_by_hand():
    data = by_hand(([0, 0, 1], [0, 1, 1], [1.0, 3.0, 5.0]), Artifacts(("a", "b"), ("x", "y"), 3.0, 1.0, 5.0))
    task = ratings.RatingsTask(ratings.Config(), data)
    found = task.judge(np.array([2.0, 3.0, 9.0]), "valid")  # 9 counts as 5
    assert found["rmse"] == pytest.approx(math.sqrt(1 / 3))
    assert found["mae"] == pytest.approx(1 / 3)
    assert task.baselines("valid")["mean"] == pytest.approx(math.sqrt((4 + 0 + 4) / 3))


def test_the_biases_of_the_baseline_are_damped_means():
    kept = Artifacts(("a", "b"), ("x", "y"), 3.0, 1.0, 5.0)
    data = by_hand(([0, 0, 1], [0, 1, 1], [1.0, 3.0, 5.0]), kept)
    task = ratings.RatingsTask(ratings.Config(item_damping=1.0, user_damping=2.0), data)
    x, y = -2 / (1 + 1), (0 + 2) / (2 + 1)
    a, b = ((-2 - x) + (0 - y)) / (2 + 2), (2 - y) / (1 + 2)
    new = Part(np.array([0, 1, 2, 2]), np.array([1, 0, 0, 2]), np.zeros(4, np.float32))
    assert task.by_biases(new).tolist() == pytest.approx([3 + a + y, 3 + b + x, 3 + x, 3])


def test_an_epoch_has_every_rating_once():
    task = ratings.RatingsTask(ratings.Config(batch=50), sets.load(generated=DataConfig(**SMALL)))
    count = len(task.data.train.scores) // 50
    epoch = torch.cat([batch.users * 1000 + batch.items for batch in islice(task.batches("train", 1), count)])
    assert len(epoch.unique()) == count * 50


@pytest.mark.parametrize(("users", "items", "told"), [(3, 2, False), (60, 8, False), (60, 40, True)])
def test_nothing_is_said_of_features_that_anything_could_fit(tmp_path, users, items, told):
    settings = {"users": users, "items": items, "ratings": users * items, "dim": 8}
    found = runs.train(RatingsTask, configure(data=("generated",), **settings), str(tmp_path / "run"))
    assert ("item_recovery" in found) == told


def test_a_run_folder_holds_all_that_is_needed(tmp_path):
    runs.train(RatingsTask, configure("features", features="truth", **SMALL), str(tmp_path / "run"))
    assert (tmp_path / "run" / "names.json").exists()
    row = evaluation.result(str(tmp_path / "run"), split="test", device="cpu")
    assert (row["task"], row["metric"]["name"], row["state_bytes"]) == ("ratings", "rmse", 0)
    assert row["flops"] == 12 * 64 * 2 * 2 * 3, "of all steps: a pair costs twice its two features"
    columns, rows, below = RatingsTask.table(row)
    assert len(columns) == len(rows[0])
    assert any("mean" in line and "biases" in line for line in below)
    before = runs.load(tmp_path / "run").model.features
    assert before[:-1].any(dim=1).all(), "the features are in the run's weights"
    (tmp_path / "run" / "names.json").write_text('{"users": []}')
    with pytest.raises(RunError, match="expected the users and items of a run"):
        runs.load(tmp_path / "run")


def test_other_ratings_are_measured_whole_with_the_names_of_the_run(tmp_path):
    (tmp_path / "u.data").write_text("\n".join(LINES))
    runs.train(RatingsTask, configure(data=[str(tmp_path / "u.data")]), str(tmp_path / "run"))
    (tmp_path / "new").write_text("1\t100\t5\n99\t100\t3\n")
    found = evaluation.evaluate(str(tmp_path / "run"), split="valid", data=[str(tmp_path / "new")])
    assert found["ratings"] == 2


def test_params_choose_the_width(tmp_path):
    runs.train(RatingsTask, configure(**SMALL), str(tmp_path / "run"), params=600)
    assert RunFolder(tmp_path / "run").config()["model"]["dim"] == pytest.approx((600 - 52) / 52, abs=1)
    with pytest.raises(ContractError, match="expected the model dot, whose dim is free"):
        runs.train(RatingsTask, configure("biases", **SMALL), str(tmp_path / "other"), params=600)


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        ("features", {}, "expected hand-set features for the model features, found none"),
        ("dott", {}, "did you mean 'dot'"),
        ("dot", {"noise": "-1"}, "expected noise of at least 0"),
        ("dot", {"rank": "0"}, "rank to be a whole number of at least 1"),
        ("dot", {"dmi": "3"}, "did you mean 'dim'"),
        ("dot", {"share": "0.6"}, "share between 0 and 0.5"),
    ],
)
def test_a_run_that_cannot_be_is_refused_in_a_line(tmp_path, model, settings, message):
    with pytest.raises(ValueError, match=message) as caught:
        runs.train(RatingsTask, runs.configure(RatingsTask, settings, model=model), str(tmp_path / "run"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()
