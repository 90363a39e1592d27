"""The tests of memory as tasks: losses and figures by hand, dials, runs."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from recollect.core.contract import ContractError
from recollect.core.settings import SettingError
from recollect.data.files import DataError
from recollect.models import classifier
from recollect.models.size import parameters
from recollect.tasks.memory import NAMES
from recollect.tasks.memory import data as tests
from recollect.tasks.memory import task as memory
from recollect.tasks.memory.settings import Config
from recollect.training import evaluation
from recollect.training import run as runs
from recollect.training.folder import RunError
from recollect.training.recipe import read_recipe
from tasks.memory.cases import TASKS, configure, small


def task_of(config, test):
    return TASKS[test.kind](config, test)


def test_every_test_of_memory_is_a_task():
    assert list(NAMES) == list(tests.TESTS)
    assert [task.name for task in memory.TASKS] == list(NAMES)


def model_of(test, model="gru", **settings):
    torch.manual_seed(0)
    shape = {"inputs": test.inputs, "outputs": test.outputs, "tokens": test.tokens, "pool": "each"}
    return classifier.Config(model=model, width=8, layers=1, heads=2, **shape, **settings).build().eval()


def by_hand(test, model, rows):
    """Losses and hits of every answer by a loop over the whole outputs."""
    losses, right = [], []
    said, _ = model(torch.from_numpy(rows.x))
    for row, (at, y) in enumerate(zip(rows.at, rows.y, strict=True)):
        hits = []
        for place, answer in zip(at, y, strict=True):
            output = said[row, int(place)].double()
            if test.tokens:
                losses.append(float(output.logsumexp(0) - output[int(answer)]))
                hits.append(int(output.argmax()) == answer)
            else:
                losses.append((float(output[0]) - float(answer)) ** 2)
                hits.append(abs(float(output[0]) - float(answer)) < 0.04)
        right.append(hits[-test.judged :])
    return sum(losses) / len(losses), right


@pytest.mark.parametrize("kind", tests.TESTS)
def test_the_loss_and_the_figures_are_those_of_the_questions_alone(kind):
    test = small(kind, vary=False, reach=1)
    model, task = model_of(test), task_of(Config(batch=5, eval_rows=7, eval_batch=3), test)
    with torch.no_grad():
        batch = next(task.batches("train", 4, start=6))
        expected, _ = by_hand(test, model, test.batch("train", 4, 6, 5))
        loss = task.loss(model, batch)
        assert float(loss.value) == pytest.approx(expected, rel=1e-5)
        assert loss.tokens == 5 * test.steps, "every step that was read"
        for split in ("valid", "test"):
            found = task.evaluate(model, split)
            expected, right = by_hand(test, model, test.batch(split, 0, 0, 7))
            assert found["loss"] == pytest.approx(expected, rel=1e-5)
            assert found["accuracy"] == pytest.approx(np.mean(right)) == pytest.approx(1 - found["error"])
            assert found["by_place"] == pytest.approx(np.mean(right, axis=0).tolist())
            assert found["last"] == pytest.approx(np.mean(right, axis=0)[-1])
            assert found["answers"] == 7 * test.judged
            assert found[task.metric] == (found["error"] if task.metric == "error" else found["loss"])
            assert found["baselines"] == test.baselines()
            assert str(test.value) in found["rule"]
            json.dumps(found)


@pytest.mark.parametrize("kind", tests.TESTS)
def test_evaluation_takes_every_row_once(kind):
    task = task_of(Config(batch=3, eval_rows=7, eval_batch=3), small(kind))
    assert [len(batch.x) for batch in task.batches("valid", 0)] == [3, 3, 1]
    assert [batch.number for batch in task.batches("valid", 0, start=1)] == [1, 2]


def test_validation_is_the_same_whatever_the_seed_and_the_size_of_its_batches():
    test = small("copy")
    found = [
        torch.cat([batch.x for batch in task_of(Config(eval_batch=size), test).batches("valid", seed)])
        for size, seed in ((250, 0), (37, 5))
    ]
    assert torch.equal(*found)


def test_every_point_of_the_dial_is_measured_apart():
    test = small("parity")
    task = task_of(Config(eval_rows=20), test)
    found = task.evaluate(model_of(test), "valid")
    assert [point["length"] for point in found["points"]] == [2, 4, 6, 8, 16, 32]
    own = next(point for point in found["points"] if point["length"] == 8)
    assert {name: found[name] for name in own if name != "length"} == {k: v for k, v in own.items() if k != "length"}
    assert len({point["loss"] for point in found["points"]}) == 6
    assert not task.repeats
    assert task_of(Config(), small("copy")).repeats


def test_a_split_that_is_none_is_refused():
    task = task_of(Config(), small("copy"))
    with pytest.raises(DataError, match="copy: expected a split out of train, valid, test, found 'dev'"):
        task.evaluate(model_of(task.data), "dev")


@pytest.mark.parametrize("model", ["ar", "mlp", "tcn"])
def test_flops_are_those_of_the_steps_that_are_asked(model):
    test = small("recall")
    task, built = task_of(Config(batch=4), test), model_of(test, model)
    batch = next(task.batches("train", 0))
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        task.loss(built, batch)
    assert task.flops(built, *task.shape(batch)) == counter.get_total_flops()
    assert task.flops(built, *task.shape(batch)) < built.cost(4, test.steps).flops


@pytest.mark.parametrize("kind", tests.TESTS)
def test_the_figures_of_a_run_stand_beside_chance(kind, tmp_path):
    task, out = TASKS[kind], str(tmp_path / "run")
    trained = runs.train(task, configure(kind, steps=2), out)
    found = evaluation.evaluate(out, split="valid")
    metric = tests.TESTS[kind].metric
    assert found["metric"]["value"] == trained[metric]
    assert found["metric"]["name"] == metric
    assert found["data"].startswith(kind)
    _, rows, below = task.table(found)
    assert len(rows) == len(found["points"])
    assert f"{found['chance']:.2%}" in below[0]
    line = task.headline(trained)
    assert f"{found['chance']:.2%}" in line
    assert all(f"{value:.5f}" in line for value in found["baselines"].values())
    row = evaluation.result(out, split="test", device="cpu")
    assert row["metric"]["value"] != trained[metric] or metric == "error"
    assert row["state_bytes"] == 2 * 8 * 4


def test_the_width_is_solved_for_so_many_parameters(tmp_path):
    out = str(tmp_path / "run")
    runs.train(TASKS["recall"], configure("recall", "transformer", steps=1), out, params=20_000)
    run = runs.load(out)
    assert parameters(run.model) == pytest.approx(20_000, rel=0.2)
    assert run.config.model["width"] % 4 == 0


def test_learned_positions_reach_as_far_as_the_test_is_measured(tmp_path):
    out = str(tmp_path / "run")
    runs.train(TASKS["parity"], configure("parity", "transformer", positions="learned", max_positions=1, steps=1), out)
    assert runs.load(out).config.model["max_positions"] == 32


def test_a_run_is_measured_with_other_dials(tmp_path):
    task, out = TASKS["copy"], str(tmp_path / "run")
    runs.train(task, configure("copy", steps=1), out)
    found = evaluation.evaluate(out, split="valid", data=["distance=9", "load=2"])
    assert [point["distance"] for point in found["points"]] == [9]
    assert found["answers"] == 12 * 2
    with pytest.raises(SettingError, match="--data: expected a dial of copy .*did you mean 'distance'"):
        evaluation.evaluate(out, split="valid", data=["distanse=9"])
    with pytest.raises(SettingError, match="--data: expected a dial of copy"):
        evaluation.evaluate(out, split="valid", data=["book.txt"])


def test_other_dials_must_leave_the_words_as_they_are(tmp_path):
    task, out = TASKS["recall"], str(tmp_path / "run")
    runs.train(task, configure("recall", steps=1), out)
    with pytest.raises(ContractError, match="recall: expected a test with 20 inputs and 20 answers as the run has"):
        evaluation.evaluate(out, split="valid", data=["vocab=30"])


def test_flags_of_other_tasks_and_settings_that_the_test_decides_are_refused():
    with pytest.raises(SettingError, match="--data: expected a flag of the task copy"):
        runs.configure(TASKS["copy"], {}, model="lstm", data=("a.txt",))
    for name in ("inputs", "pool", "context"):
        with pytest.raises(SettingError, match=f"expected a known setting, found '{name}'"):
            runs.configure(TASKS["copy"], {name: "3"}, model="lstm")
    with pytest.raises(SettingError, match="did you mean 'distance'"):
        runs.configure(TASKS["gap"], {"distanc": "3"}, model="lstm")
    with pytest.raises(ContractError, match="gap: expected distance of"):
        runs.configure(TASKS["gap"], {"distance": "1"}, model="lstm")
    with pytest.raises(ContractError, match="did you mean 'lstm'"):
        runs.configure(TASKS["gap"], {}, model="lstn")


def test_what_the_flags_leave_open_suits_these_tests():
    run = runs.configure(TASKS["copy"], {}, model="lstm")
    assert (run.train.lr, run.train.weight_decay, run.train.total_steps) == (0.003, 0, 1000)
    run = runs.configure(TASKS["copy"], {"weight_decay": "0.2", "lr": "0.1"}, model="lstm")
    assert (run.train.lr, run.train.weight_decay) == (0.1, 0.2)


@pytest.mark.parametrize(
    "content",
    [
        b"{}", b'{"kind": "gap", "version": 1}', b'{"kind": "copy", "version": 2}',
        b'{"kind": "copy", "version": 1, "distance": 0}', b'{"kind": "copy", "version": 1, "distanse": 3}',
        b'{"kind": ["copy"], "version": {}}',
    ],
    ids=lambda content: content[:40].decode(errors="replace"),
)  # fmt: skip
def test_a_strange_file_in_the_run_is_one_line(content, tmp_path):
    (tmp_path / "memory.json").write_bytes(content)
    with pytest.raises(RunError, match="memory.json: expected") as caught:
        TASKS["copy"].load_artifacts(tmp_path)
    assert "\n" not in str(caught.value)


RECALL = (
    *("transformer", "linear-transformer", "ttt-linear", "lstm", "rnn", "gru", "mlp", "tcn"),
    *("mingru", "minlstm", "retention", "gla", "mamba2", "delta", "gated-delta"),
)


def test_the_recipes_are_those_of_the_published_figures():
    folders = [Path(__file__).parents[3] / "recipes" / kind for kind in NAMES]
    recipes = [path for folder in folders for path in folder.glob("*.json")]
    assert all(path.stem.endswith(str(read_recipe(path).model)) for path in recipes)
    names = {f"{path.parent.name}/{path.stem}" for path in recipes}
    expected = {f"copy/1000-{model}" for model in ("tcn", "lstm", "gru", "rnn", "transformer")}
    expected |= {f"adding/600-{model}" for model in ("rnn", "lstm", "gru", "tcn")}
    expected |= {f"recall/{model}" for model in RECALL}
    expected |= {f"parity/{signs}-{model}" for signs in ("positive", "signed") for model in ("delta", "mamba2")}
    sentences = ("agreement", "clouds", "gap", "nested", "order")
    expected |= {f"{kind}/{model}" for kind in sentences for model in ("rnn", "lstm", "transformer")}
    assert names == expected
