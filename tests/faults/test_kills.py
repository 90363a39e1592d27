"""Training, building a cache and racing are killed at random moments: a small form of results/kills.json."""

import json
import random
import sys
from itertools import count

import pytest
from tools import kills

from recollect.data.cache import hash_json

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at processes through /proc")


def kill(work, commands, folder, times):
    kills.write_inputs(folder, small=True)
    killer = kills.Killer(work(folder, True), commands, folder, random.Random(0))
    killer.run(times)
    return killer.row()


@pytest.mark.parametrize("work", kills.WORKS, ids=lambda work: work.__name__)
def test_what_is_finished_outlives_every_kill_and_ends_with_the_same_hashes(commands, tmp_path, work):
    row = kill(work, commands, tmp_path, times=5)
    assert row["problems"] == []
    assert row["kills"] == 5
    assert row["processes left running"] == 0


def test_what_a_kill_loses_is_reported(commands, tmp_path):
    kills.write_inputs(tmp_path, small=True)
    killer = kills.Killer(kills.Caching(tmp_path, True), commands, tmp_path, random.Random(0))
    pid = killer.start(tmp_path / "place")
    with pytest.raises(kills.Lost, match=r"finished before the kill, and not after it: corpus\.json"):
        killer.kill(pid, tmp_path / "place", {"corpus.json": "a hash"})


def test_another_outcome_than_without_a_kill_is_reported(commands, tmp_path):
    class Unsteady(kills.Caching):
        names = count()

        def outcome(self, place):
            return super().outcome(place) | {"number": str(next(self.names))}

    row = kill(Unsteady, commands, tmp_path, times=1)
    assert row["problems"]
    assert all(problem.endswith(": other hashes of number") for problem in row["problems"])


def test_an_array_of_a_cache_that_is_cut_off_is_reported(tmp_path):
    entry = tmp_path / "cache" / "train.json"
    entry.parent.mkdir()
    arrays = {"tokens": {"sha256": "0" * 64}}
    entry.write_text(json.dumps({"arrays": arrays, "content": {}, "sha256": hash_json([arrays, {}])}))
    with pytest.raises(kills.Lost, match=r"train\.json is there, and its array train-tokens-0+\.bin is not whole"):
        kills.Caching(tmp_path, True).finished(tmp_path)
    entry.write_text(json.dumps({"arrays": {}, "content": {}, "sha256": "0"}))
    with pytest.raises(kills.Lost, match="does not match its own hash"):
        kills.Caching(tmp_path, True).finished(tmp_path)


def test_a_failed_entry_of_a_race_is_reported(tmp_path):
    (tmp_path / "race").mkdir()
    (tmp_path / "race" / "race.json").write_text("{}")
    row = {"heat": "recall", "entry": "rnn", "seed": 0, "error": "no memory"}
    (tmp_path / "race" / "results.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(kills.Lost, match="the entry rnn failed: no memory"):
        kills.Racing(tmp_path, True).finished(tmp_path)
