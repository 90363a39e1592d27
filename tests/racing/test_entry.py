"""An entry: its size, its settings, what is marked."""

from dataclasses import replace
from pathlib import Path

import pytest

from racing.small import OTHERS, raced, recall, texts
from recollect.models.size import parameters
from recollect.racing import entry as entries
from recollect.racing import rates
from recollect.racing.heats import default_heats, heats
from recollect.racing.summary import SIZE_TOLERANCE
from recollect.racing.terms import Terms, task_of, with_models
from recollect.training import evaluation
from recollect.training import run as training


@pytest.mark.parametrize(
    "name", [*(heat.name for heat in default_heats()), pytest.param("captions", marks=pytest.mark.slow), "series"]
)
def test_every_model_of_a_built_in_heat_has_the_parameters_of_the_others(name):
    heat = heats()[name]
    seen = set()
    for entrant in heat.entrants():
        if entrant.model in task_of(heat).unsized:
            continue
        one = entries.Entry(heat=heat, terms=Terms(), entrant=entrant, seed=0, folder=Path("nowhere"))
        settings = entries.configure(one)
        data = task_of(heat).load_data(settings.data, None)
        resolved = task_of(heat).resolve(settings, data, heat.params)
        count = parameters(task_of(heat).build_model(resolved.model, task_of(heat).artifacts_of(data), training.load))
        assert abs(count / heat.params - 1) < SIZE_TOLERANCE, (entrant.label, count)
        seen.add((settings.task.batch, settings.train.steps, data.fingerprint))
    assert len(seen) == 1


def test_in_recall_every_memory_stands_in_the_same_block():
    heat = heats()["recall"]
    for entrant in heat.entrants():
        one = entries.Entry(heat=heat, terms=Terms(), entrant=entrant, seed=0, folder=Path("nowhere"))
        model = entries.configure(one).model
        assert (model["block"], model["taps"]) == ("residual", 2), entrant.label


@pytest.mark.slow
def test_what_attention_recalls_is_no_luck_of_a_seed(tmp_path):
    """Half of the heat's steps are enough, with seeds that once ended at 34 and 82 % after all of them."""
    heat = with_models(replace(heats()["recall"], steps=200), ["transformer"])
    for seed in (1, 3):
        (entrant,) = heat.entrants()
        lr = rates.rate_of(heat, entrant)
        one = entries.Entry(heat=heat, terms=Terms(), entrant=entrant, seed=seed, folder=tmp_path / str(seed), lr=lr)
        entries.train(one)
        assert evaluation.result(str(one.folder), split="valid", device="cpu")["accuracy"] > 0.95


def test_an_n_gram_counts_as_many_tokens_as_networks_read(tmp_path):
    counted, trained = raced([texts(tmp_path / "a.txt", "ngram", "rnn")], tmp_path / "out")
    assert counted["tokens"] == trained["tokens"] == 6 * 4 * 12


@pytest.mark.parametrize(
    ("error", "marked"),
    [
        ("step 3: out of memory on cuda (…); lower --batch", ["memory"]),
        ("DefaultCPUAllocator: can't allocate memory", ["memory"]),
        ("soft-align: expected a memory, found none", []),
    ],
)
def test_a_run_without_room_is_marked(error, marked):
    heat = recall("rnn")
    one = entries.Entry(heat=heat, terms=Terms(), entrant=heat.entrants()[0], seed=0, folder=Path("nowhere"))
    assert entries.failed(one, error)["unfair"] == marked


def test_the_grid_is_one_for_all_and_evenly_spread():
    assert entries.grid(1) == [3e-3]
    assert entries.grid(3) == [1e-3, 3e-3, 1e-2]
    assert entries.grid(5) == [3e-4, 1e-3, 3e-3, 1e-2, 3e-2]


@pytest.mark.slow
def test_a_picture_does_not_grow_with_its_caption(tmp_path):
    heat = replace(heats()["captions"], models=("attend",))
    (row,) = raced([heat], tmp_path, Terms(search=0, budget=2, settings=OTHERS["captions"]))
    assert len({cost["state_bytes"] for cost in row["costs"]}) == 1
    assert {*row["sample"][0]} == {"source", "reference", "output", "right"}
