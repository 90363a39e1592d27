"""What generated ratings teach: true features found again, nearest items, directions."""

import json
from dataclasses import replace

import pytest
import torch

from recollect.core.contract import ContractError
from recollect.models.size import parameters
from recollect.tasks.ratings.instruments import nearest_items, score_axes
from recollect.tasks.ratings.task import RatingsTask
from recollect.training import evaluation
from recollect.training import run as runs
from recollect.training.folder import RunError
from tasks.ratings.cases import configure


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """Runs on generated ratings: with biases, without, with hand-set features, of biases alone."""
    configs = {
        "dot": configure(dim=3, steps=300, batch=1024),
        "no bias": configure(dim=3, steps=300, batch=1024, bias=False),
        "features": configure("features", features="truth", steps=300, batch=1024),
        "biases": configure("biases", steps=300, batch=1024),
    }
    folder = tmp_path_factory.mktemp("ratings")
    for name, run in configs.items():
        run = replace(run, train=replace(run.train, eval_every=100, save_every=300, weight_decay=0.1))
        runs.train(RatingsTask, run, str(folder / name))
    return folder


def measured(learned, name):
    return evaluation.evaluate(str(learned / name), split="test")


def test_true_features_are_found_again_up_to_a_rotation(learned):
    found = measured(learned, "dot")
    for kind in ("user_recovery", "item_recovery"):
        assert found[kind]["rotated"] > 0.97
        assert found[kind]["canonical"] > 0.98
        assert found[kind]["alone"] < 0.9, "no single dimension is a true feature"


def test_vectors_pass_the_baselines_and_end_near_the_noise(learned):
    found = measured(learned, "dot")
    assert found["baselines"]["noise"] < found["rmse"] < 1.15 * found["baselines"]["noise"]
    assert 2 * found["rmse"] < found["baselines"]["biases"] < found["baselines"]["mean"]


def test_with_and_without_biases_learned_and_hand_set(learned):
    """Without biases three dimensions must also say how much is liked at all; true features leave less to learn."""
    assert measured(learned, "no bias")["rmse"] > 1.5 * measured(learned, "dot")["rmse"]
    assert measured(learned, "features")["rmse"] < measured(learned, "dot")["rmse"]
    biases = measured(learned, "biases")
    assert biases["rmse"] == pytest.approx(biases["baselines"]["biases"], rel=0.03)
    assert parameters(runs.load(learned / "biases").model) == 701 + 1


def test_the_nearest_items_are_those_with_like_features(learned):
    used = runs.load(learned / "dot")
    truth = RatingsTask.load_data(used.config.data, None, used.artifacts).truth
    true = torch.nn.functional.normalize(torch.from_numpy(truth.items), dim=-1)
    for item in ("item7", "item200"):
        found = nearest_items(used, item, 3)
        assert [row["similarity"] for row in found] == sorted((row["similarity"] for row in found), reverse=True)
        assert item not in [row["item"] for row in found]
        place = used.artifacts.items.index(item)
        alike = true[[used.artifacts.items.index(row["item"]) for row in found]] @ true[place]
        assert alike.min() > 0.8
    with pytest.raises(RunError, match="expected one of 300 items such as .*, found 'itme7'; did you mean 'item7'"):
        nearest_items(used, "itme7")


def test_directions_are_told_with_their_share_and_both_ends(learned):
    found = score_axes(runs.load(learned / "dot"), count=2)
    assert [row["axis"] for row in found] == [1, 2, 3]
    assert sum(row["share"] for row in found) == pytest.approx(1)
    assert all(len(row["high"]) == len(row["low"]) == 2 for row in found)
    json.dumps(found)
    with pytest.raises(ContractError, match="expected a model with vectors, found one of biases alone"):
        score_axes(runs.load(learned / "biases"))
