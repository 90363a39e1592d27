"""Ratings: files read as they are, figures and biases by hand, true features found again up to a rotation."""

import gzip
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import tiny
from recollect.core.contract import ContractError
from recollect.data.files import DataError
from recollect.models.size import parameters
from recollect.tasks.ratings import data as sets
from recollect.tasks.ratings import model as models
from recollect.tasks.ratings import task as ratings
from recollect.tasks.ratings.instruments import nearest_items, score_axes
from recollect.tasks.ratings.rated import Artifacts, Part, Ratings
from recollect.tasks.ratings.settings import DataConfig
from recollect.tasks.ratings.task import RatingsTask
from recollect.train import run as runs
from recollect.train.folder import RunError, RunFolder
from recollect.train.loop import Trainer
from recollect.train.recipe import read_recipe

ROOT = Path(__file__).resolve().parents[2]
SMALL = {"users": 30, "items": 20, "ratings": 400, "rank": 2}


def configure(model="dot", data=(), **settings):
    given = {"steps": 12, "batch": 64, "warmup": 3, "save_every": 3, "eval_every": 5, "log_every": 2, "lr": 0.03}
    texts = {name: str(value) for name, value in (given | settings).items()}
    return runs.configure(RatingsTask, texts, model=model, **({"data": data} if data else {}))


def by_hand(part, kept, train=None):
    """A set of ratings out of lists of users, items and scores."""
    columns = [np.array(column) for column in part]
    found = Part(columns[0], columns[1], columns[2].astype(np.float32))
    return Ratings("hand", kept, train or found, found, found, None, "hand", [])


# ------------------------------------------------------------------------------------------------ files

LINES = [f"{u}\t{i}\t{1 + (u * i) % 5}\t88125094{u}" for u in range(1, 13) for i in range(100, 110)]


@pytest.mark.parametrize(
    ("separator", "header", "packed"),
    [("\t", "", False), ("::", "", False), (",", "userId,movieId,rating,timestamp\n", False), ("\t", "", True)],
    ids=["tabs", "colons", "commas and a header", "packed"],
)
def test_the_layouts_of_movielens_are_read(tmp_path, separator, header, packed):
    plain = tmp_path / "u.data"
    plain.write_text("\n".join(LINES) + "\n")
    other = tmp_path / "other"
    data = (header + "\n".join(LINES).replace("\t", separator)).encode()
    other.write_bytes(gzip.compress(data) if packed else data)
    a, b = sets.load(plain), sets.load(other)
    assert a.fingerprint == b.fingerprint
    assert sorted(a.artifacts.users, key=int) == [str(n) for n in range(1, 13)]
    assert sum(len(part.scores) for part in (a.train, a.valid, a.test)) == len(LINES)
    assert a.artifacts.mean == pytest.approx(a.train.scores.mean())
    for part in (a.train, a.valid, a.test):
        for user, item, score in zip(*part, strict=True):
            u, i = int(a.artifacts.users[user]), int(a.artifacts.items[item])
            assert score == 1 + (u * i) % 5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1\t2\t3\n1\t2\n", r"expected 3 cells with '\\t' between, found '1\\t2' in line 2 of .*u.data"),
        ("1 2 3\n", "tabs, '::' or commas between, found '1 2 3' in line 1"),
        ("1\t2\t3\n1\t2\tgood\n", "expected a number in cell 3, found 'good' in line 2"),
        ("1\t2\t3\n1\t2\t1e39\n", "expected a number in cell 3, found '1e39' in line 2"),
        ("1\t2\t3\n1\t2\tnan\n", "expected a number in cell 3, found 'nan' in line 2"),
        ("1\t2\t3\n\t2\t4\n", r"expected 3 cells .* in line 2"),
        ("1\t2\t3\n", "expected ratings for the .* part, found none"),
        ("1,2,3\n" + "9" * 200_000 + ",2,3\n", "expected cells of a table, found others in line 2"),
        ("", "found an empty file"),
    ],
    ids=lambda value: value[:24],
)
def test_what_is_no_rating_is_refused_with_file_and_line(tmp_path, content, message):
    (tmp_path / "u.data").write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        sets.load(tmp_path / "u.data")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("User-ID;ISBN;Book-Rating", '"{u}";"{i}";"{r}"'),
        ("user_id,item_id,timestamp,rating", "{u},{i},88125094,{r}"),
        ("rating,movieId,userId", '{r},"{i}",{u}'),
    ],
    ids=["quotes and semicolons", "a time before the rating", "another order"],
)
def test_a_header_says_which_column_is_which(tmp_path, header, line):
    (tmp_path / "u.data").write_text("\n".join(LINES))
    cells = [one.split("\t") for one in LINES]
    rows = [line.format(u=user, i=item, r=rating) for user, item, rating, _ in cells]
    (tmp_path / "other.csv").write_text("\n".join([header, *rows]))
    assert sets.load(tmp_path / "other.csv").fingerprint == sets.load(tmp_path / "u.data").fingerprint
    (tmp_path / "other.csv").write_text(header + "\n" + rows[0] + "\n" + rows[1].replace(cells[1][2], "good"))
    with pytest.raises(DataError, match=r"expected a number in cell \d, found .*good.* in line 3"):
        sets.load(tmp_path / "other.csv")


def test_what_stands_in_quotes_is_one_cell(tmp_path):
    (tmp_path / "u.data").write_text("\n".join(LINES))
    titles = "movieId,title,genres\n" + "\n".join(f'{i},"Film {i}, The (1995)",Comedy' for i in range(100, 110))
    (tmp_path / "movies.csv").write_text(titles)
    found = sets.load(tmp_path / "u.data", titles=tmp_path / "movies.csv")
    assert found.artifacts.title(found.artifacts.items.index("104")) == "Film 104, The (1995)"


def test_a_pair_that_comes_twice_is_on_one_side(tmp_path):
    (tmp_path / "u.data").write_text("\n".join(LINES + LINES))
    found = sets.load(tmp_path / "u.data", share=0.2)
    assert found.notes == ["120 of 240 ratings are of a pair that was rated before; each counts"]
    pairs = [
        {(user, item) for user, item, _ in zip(*part, strict=True)} for part in (found.train, found.valid, found.test)
    ]
    assert sum(map(len, pairs)) == len(set.union(*pairs))
    assert all(pairs)


def test_who_was_never_seen_has_the_number_after_the_last(tmp_path):
    (tmp_path / "u.data").write_text("\n".join(LINES))
    (tmp_path / "new").write_text("1\t100\t5\n99\t100\t3\n1\t999\t3\n")
    found = sets.load(tmp_path / "u.data", valid=[tmp_path / "new"], test=[tmp_path / "new"])
    assert len(found.train.scores) == len(LINES)
    assert found.valid.users.tolist()[1:] == [12, found.valid.users[0]]
    assert found.valid.items.tolist()[2] == 10
    assert "2 of 3 valid ratings have a user or an item that is new" in found.notes


def test_generated_ratings_are_what_the_features_say():
    made = DataConfig(users=50, items=40, ratings=1500, noise=0.0)
    found = sets.load(generated=made)
    truth = found.truth
    for part in (found.train, found.valid):
        dot = (truth.users[part.users] * truth.items[part.items]).sum(axis=1)
        expected = 3.5 + truth.user_bias[part.users] + truth.item_bias[part.items] + dot
        assert np.allclose(part.scores, expected, atol=1e-5)
    assert sets.load(generated=made).fingerprint == found.fingerprint
    assert sets.load(generated=replace(made, data_seed=1)).fingerprint != found.fingerprint
    with pytest.raises(DataError, match=r"from 1 to users × items = 2,000 ratings, found 2,001"):
        sets.load(generated=replace(made, ratings=2001))


def test_features_and_titles_come_from_files(tmp_path):
    (tmp_path / "u.data").write_text("\n".join(LINES))
    (tmp_path / "features").write_text("item\tfunny\tlong\n" + "\n".join(f"{i}\t{i}\t0.5" for i in range(100, 109)))
    (tmp_path / "titles").write_text("\n".join(f"{i}|Film {i}|1995" for i in range(100, 110)))
    found = sets.load(tmp_path / "u.data", features=tmp_path / "features", titles=tmp_path / "titles")
    place = found.artifacts.items.index("104")
    assert found.artifacts.matrix[place].tolist() == [104, 0.5]
    assert found.artifacts.matrix[found.artifacts.items.index("109")].tolist() == [0, 0]
    assert any("1 of 10 items have no features" in note for note in found.notes)
    assert found.artifacts.title(place) == "Film 104"
    (tmp_path / "features").write_text("100\t1\t2\n101\t1\n")
    with pytest.raises(DataError, match="expected an item and 2 numbers as in the first line, .* in line 2"):
        sets.load(tmp_path / "u.data", features=tmp_path / "features")
    with pytest.raises(DataError, match="found 'truth', which only generated ratings have"):
        sets.load(tmp_path / "u.data", features="truth")


# ------------------------------------------------------------------------------------------------ the model by hand


def test_a_score_is_the_mean_two_biases_and_a_dot_product():
    model = models.Config(users=2, items=3, dim=2).build()
    model.set_mean(3.0)
    with torch.no_grad():
        model.users.weight[0] = torch.tensor([1.0, 2.0])
        model.items.weight[1] = torch.tensor([0.5, -1.0])
        model.user_bias.weight[0] = 0.25
        model.item_bias.weight[1] = -1.0
    assert model(torch.tensor([0]), torch.tensor([1])).tolist() == [3.0 + 0.25 - 1.0 + 0.5 - 2.0]
    assert model(torch.tensor([0]), torch.tensor([3])).tolist() == [3.25], "an item never seen: the user's bias is left"
    assert model(torch.tensor([2]), torch.tensor([1])).tolist() == [2.0], "a user never seen: the item's"
    assert model(torch.tensor([2]), torch.tensor([3])).tolist() == [3.0], "both: the mean"


def test_hand_set_features_stay_as_they_are():
    model = models.Config(users=2, items=2, features=2).build()
    model.set_features(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    names = [name for name, _ in model.named_parameters()]
    assert names == ["users.weight", "user_bias.weight", "item_bias.weight"]
    assert torch.equal(model(torch.tensor([0]), torch.tensor([1])), model.users.weight[0, 1:])
    with pytest.raises(ContractError, match=r"features of shape \(2, 2\), found \(3, 2\)"):
        model.set_features(torch.zeros(3, 2))


def test_without_biases_there_is_only_the_dot_product():
    model = models.Config(users=2, items=2, dim=3, bias=False).build()
    model.set_mean(3.0)
    found = model(torch.tensor([1]), torch.tensor([0]))
    assert torch.equal(found, (model.users.weight[1] * model.items.weight[0]).sum()[None])
    with pytest.raises(ContractError, match="expected vectors or biases, found neither"):
        models.Config(users=2, items=2, dim=0, bias=False)


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


def test_any_batch_is_reached_by_its_number():
    task = ratings.RatingsTask(ratings.Config(batch=50), sets.load(generated=DataConfig(**SMALL)))
    stream = task.batches("train", 1)
    batches = [next(stream) for _ in range(14)]
    again = next(task.batches("train", 1, start=13))
    assert again.number == 13
    assert all(torch.equal(a, b) for a, b in zip(again[:3], batches[13][:3], strict=True))
    count = len(task.data.train.scores) // 50
    epoch = torch.cat([batch.users * 1000 + batch.items for batch in batches[:count]])
    assert len(epoch.unique()) == count * 50


# ------------------------------------------------------------------------------------------------ recovery


def test_recovery_sees_through_a_rotation_and_not_through_noise():
    draw = torch.Generator().manual_seed(0)
    true = torch.randn(300, 3, generator=draw)
    turn, _ = torch.linalg.qr(torch.randn(3, 3, generator=draw))
    turned = models.recovery(2.5 * true @ turn, true)
    assert turned.rotated == pytest.approx(1)
    assert turned.canonical == pytest.approx(1)
    assert turned.alone < 0.95, "a single dimension is a mixture"
    assert models.recovery(true, true).alone == pytest.approx(1)
    stretched = models.recovery(true @ torch.diag(torch.tensor([9.0, 1.0, 1.0])), true)
    assert stretched.canonical == pytest.approx(1)
    assert stretched.rotated < 0.8, "a stretch is no rotation"
    nothing = models.recovery(torch.randn(300, 3, generator=draw), true)
    assert nothing.rotated < 0.1
    assert nothing.canonical < 0.3


@pytest.mark.parametrize(("users", "items", "told"), [(3, 2, False), (60, 8, False), (60, 40, True)])
def test_nothing_is_said_of_features_that_anything_could_fit(tmp_path, users, items, told):
    settings = {"users": users, "items": items, "ratings": users * items, "dim": 8}
    found = runs.train(RatingsTask, configure(data=("generated",), **settings), str(tmp_path / "run"))
    assert ("item_recovery" in found) == told


def test_axes_are_the_same_however_the_vectors_are_turned():
    draw = torch.Generator().manual_seed(0)
    users, items = (torch.randn(n, 3, generator=draw, dtype=torch.float64) for n in (40, 30))
    turn = torch.randn(3, 3, generator=draw, dtype=torch.float64)
    plain = models.axes(users, items)
    other = models.axes(users @ turn, items @ torch.linalg.inv(turn).mT)
    for a, b in zip(plain, other, strict=True):
        assert torch.allclose(a, b, atol=1e-9)
    assert torch.allclose((plain.users * plain.strength) @ plain.items.mT, users @ items.mT)
    assert torch.allclose(plain.strength, torch.linalg.svdvals(users @ items.mT)[:3])


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
    return runs.evaluate(str(learned / name), split="test")


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


def test_ratings_have_nothing_to_verify_and_say_so(learned):
    with pytest.raises(RunError, match="expected a model that reads a sequence, found ratings") as caught:
        runs.verify(str(learned / "dot"))
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------------ runs


class Killed(BaseException):
    """The process is gone, as far as the run can tell."""


@pytest.mark.parametrize("model", ["dot", "features"])
def test_a_resumed_run_equals_the_uninterrupted_one(tmp_path, monkeypatch, model):
    run = configure(model, features="truth", **SMALL)
    runs.train(RatingsTask, run, str(tmp_path / "whole"))
    real = Trainer.save

    def save(self):
        real(self)
        if self.spent.step == 6:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "save", save)
        with pytest.raises(Killed):
            runs.train(RatingsTask, run, str(tmp_path / "resumed"))
    runs.resume(str(tmp_path / "resumed"))
    whole, resumed = (tiny.outcome(RunFolder(tmp_path / name)) for name in ("whole", "resumed"))
    assert resumed == whole


def test_a_run_folder_holds_all_that_is_needed(tmp_path):
    runs.train(RatingsTask, configure("features", features="truth", **SMALL), str(tmp_path / "run"))
    assert (tmp_path / "run" / "names.json").exists()
    row = runs.result(str(tmp_path / "run"), split="test", device="cpu")
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
    found = runs.evaluate(str(tmp_path / "run"), split="valid", data=[str(tmp_path / "new")])
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


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("ratings/*.json")), ids=lambda path: path.stem)
def test_every_recipe_of_ratings_can_be_built(path):
    found = read_recipe(str(path))
    assert found.about
    run = runs.configure(RatingsTask, found.settings, model=found.model, data=found.data)
    data = RatingsTask.load_data(run.data, None)
    RatingsTask.build_model(RatingsTask.resolve(run, data, None).model, data.artifacts, runs.load)
