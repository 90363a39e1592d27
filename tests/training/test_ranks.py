"""One run on two ranks: the same losses and weights as by one process, whatever the task and the model."""

import json
import os
import subprocess
import sys
from concurrent.futures import Future
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException

import tiny
from recollect.core.task import Loss, RunError
from recollect.tasks.text.task import TextTask
from recollect.training import checkpoint
from recollect.training import run as runs
from recollect.training.folder import RunFolder
from recollect.training.launch import _watch
from recollect.training.loop import Trainer
from recollect.training.ranks import (
    LONG,
    LOST,
    PATIENCE,
    RANK,
    SIZE,
    STORE,
    RankLost,
    Ranks,
    RanksError,
    join,
    joined,
)
from recollect.training.settings import Settings
from recollect.training.sharded import ShardError, _wait_for
from tasks.cases import CASES, OUTSIDE, SMALL, Small, write_data
from training.scripted import Scripted

HERE = Path(__file__).parent
TOLERANCE = 1e-5
STEPS = {"steps": 4, "eval_every": 4, "save_every": 4, "log_every": 1}
DRAWN = ("dropout", "head_dropout", "sampling")  # other masks than one process draws
USUAL = [(task, "dropout") for task in ("translation", "captions", "transcribe")]  # those that draw by default
LANGUAGE = [("text", name, tiny.small(name) | {"context": 12, "batch": 4}) for name in tiny.KINDS if name != "ngram"]
OTHERS = [(task, label, {}) for task, label in CASES if task not in ("text", OUTSIDE.name)]


def job(task, label, own, **how):
    """What `rank_worker` trains, without what is drawn for each row."""
    small = SMALL.get(task, Small())
    settings = dict(small.settings) | (dict(small.models.get(label, {})) if task != "text" else {})
    if how.get("shard") and task == "captions":  # whose gate is a single number
        settings, own = settings | {"self_attention": "false"}, own | {"self_attention": "false"}
    drawn = dict.fromkeys([name for name in DRAWN if name in settings or (task, name) in USUAL], 0)
    return [f"{task}-{label or 'default'}".replace(", ", "-"), task, label, STEPS | own | drawn, how]


CASES_OF_ALL = LANGUAGE + OTHERS


class Batch(NamedTuple):
    x: torch.Tensor
    tokens: int


def start(folder, out, jobs, ranks):
    """Processes that train the jobs as so many ranks; one without any ranks where there is one."""
    command = [sys.executable, str(HERE / "rank_worker.py"), str(folder), str(out), json.dumps(jobs)]
    paths = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    shared = os.environ | {"PYTHONPATH": paths, "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    shared |= {"RECOLLECT_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1", "RECOLLECT_TASKS": str(OUTSIDE)}
    if ranks == 1:
        return [subprocess.Popen(command, env=shared, stderr=subprocess.PIPE, text=True)]
    own = [shared | {RANK: str(rank), SIZE: str(ranks), STORE: "-"} for rank in range(ranks)]
    return [subprocess.Popen(command, env=each, stderr=subprocess.PIPE, text=True) for each in own]


def train(folder, out, jobs, ranks):
    out.mkdir(exist_ok=True)
    ended = [(process.communicate()[1], process.returncode) for process in start(folder, out, jobs, ranks)]
    for errors, code in ended:
        assert code == 0, errors[-3000:]


def losses(out, name):
    return {row["step"]: row["loss"] for row in RunFolder(out / name).metrics() if "loss" in row}


def assert_same(one, two):
    assert one
    assert one.keys() == two.keys()
    assert max(abs(one[step] - two[step]) / max(abs(one[step]), 1e-3) for step in one) <= TOLERANCE, (one, two)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    write_data(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("shard", [False, True], ids=["copies", "shards"])
def test_two_ranks_give_the_losses_and_the_weights_of_one(files, tmp_path, shard):
    jobs = [job(*case, shard=shard) for case in CASES_OF_ALL]
    for ranks in (1, 2):
        train(files, tmp_path / str(ranks), jobs, ranks)
    for name, *_ in jobs:
        one, two = (tmp_path / ranks / name for ranks in "12")
        if (one / "metrics.jsonl").exists() and losses(tmp_path / "1", name):  # not those that are counted
            assert_same(losses(tmp_path / "1", name), losses(tmp_path / "2", name))
        ours, theirs = (checkpoint.read_tensors(place / "model.safetensors")[0] for place in (one, two))
        assert ours.keys() == theirs.keys()
        for key, tensor in ours.items():
            # gradients that are rounding alone are signs to AdamW, so weights are held to the rate of a step
            torch.testing.assert_close(tensor, theirs[key], rtol=1e-3, atol=5e-3, msg=lambda m, n=name: f"{n}: {m}")


RESUMED = {
    "text-lstm": ("text", "lstm", tiny.small("lstm") | {"windows": "sequential"}),
    "text-transformer": ("text", "transformer", tiny.small("transformer") | {"ema": 0.9}),
    "translation-attend": ("translation", "attend", {"choose": "nats"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("shard", [False, True], ids=["copies", "shards"])
@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)], ids=["2 to 1", "1 to 2"])
def test_a_run_goes_on_with_another_number_of_ranks(files, tmp_path, before, after, shard):
    own = {"steps": 6, "save_every": 3, "context": 12, "batch": 4}
    jobs = {}
    for name, (task, label, settings) in RESUMED.items():
        texts = settings | (own if task == "text" else {"steps": 6, "save_every": 3})
        jobs[name] = job(task, label, texts, shard=shard)
    train(files, tmp_path / "whole", list(jobs.values()), 1)
    train(files, tmp_path / "cut", [[*each[:4], {"shard": shard, "until": 3}] for each in jobs.values()], before)
    for name, *_ in jobs.values():
        last = RunFolder(tmp_path / "cut" / name).last
        assert last.is_dir() == (shard and before == 2)
        assert checkpoint.read_tensors(last)[1]["spent"]["step"] == 3
    train(files, tmp_path / "cut", [[*each[:4], {"shard": shard, "resume": True}] for each in jobs.values()], after)
    for name, *_ in jobs.values():
        assert_same(losses(tmp_path / "whole", name), losses(tmp_path / "cut", name))


def test_a_share_of_a_batch_is_its_rows_and_their_share_of_its_tokens():
    batch = Batch(torch.arange(10).view(5, 2), 10)
    shares = [Ranks(rank, 2).share(batch) for rank in range(2)]
    assert [share.x.tolist() for share in shares] == [[[0, 1], [2, 3]], [[4, 5], [6, 7], [8, 9]]]
    assert [share.tokens for share in shares] == [4, 6]
    assert sum(Ranks(rank, 3).share(batch).tokens for rank in range(3)) == 10
    with pytest.raises(
        RanksError, match="at least 6 rows, one for each rank, found 5; raise --batch or use fewer --ranks"
    ):
        Ranks(0, 6).share(batch)


def test_one_process_alone_changes_nothing():
    ranks, batch, loss = Ranks(), Batch(torch.ones(2, 2), 4), Loss(torch.tensor(2.0), 4)
    assert ranks.alone
    assert ranks.main
    assert ranks.share(batch) is batch
    assert ranks.weigh(loss) == (2.0, 2.0)
    assert ranks.sum([1, 2]) == [1, 2]
    assert ranks.send("a") == "a"


class Follower(Ranks):
    """The second of two ranks, to which the main one says a figure."""

    def __init__(self, said):
        super().__init__(1, 2)
        self.said = said

    def wrap(self, model, objective):
        return model, objective(model)

    def send(self, content=None):
        return self.said


def test_after_a_measurement_and_a_checkpoint_all_ranks_have_spent_the_seconds_of_the_main_one():
    settings = Settings(steps=4, optimizer="sgd")
    trainer = Trainer(
        Scripted([1.0]), nn.Linear(1, 1), settings, None, torch.device("cpu"), ranks=Follower(12.5)
    )  # fmt: skip
    trainer._evaluate()
    assert trainer.spent.seconds == 12.5
    trainer.ranks.said = 13.0
    trainer.save()
    assert trainer.spent.seconds == 13.0


@pytest.fixture
def alone_in_a_group(tmp_path, monkeypatch):
    """A process group of this process alone, as `--ranks 1 --shard` makes it."""
    for name, value in ((RANK, "0"), (SIZE, "1"), (STORE, str(tmp_path / "store")), ("GLOO_SOCKET_IFNAME", "lo")):
        monkeypatch.setenv(name, value)
    with joined("cpu", shard=True) as (ranks, _):
        yield ranks


def test_ranks_wait_longer_for_a_measurement_than_for_a_sum_of_gradients(alone_in_a_group):
    groups = (torch.distributed.group.WORLD, alone_in_a_group.group)
    ours, patient = (group._get_backend(torch.device("cpu")).options._timeout for group in groups)
    assert ours == PATIENCE
    assert patient == LONG


def test_whatever_rank_is_lost_at_whatever_moment_is_one_line(monkeypatch):
    class Broken(Ranks):
        def wait(self):
            raise RuntimeError("[gloo/transport/tcp/pair.cc:547] Connection closed by peer")

    monkeypatch.setattr("recollect.training.ranks.join", lambda device, shard: (Broken(0, 2), device))
    found = "expected 2 at work, found that one has ended; the last checkpoint is kept"
    with pytest.raises(RankLost, match=found), joined("cpu"):
        pass


def test_torch_without_distributed_training_is_one_line(monkeypatch):
    monkeypatch.setenv(SIZE, "2")
    monkeypatch.setattr(torch.distributed, "is_available", lambda: False)
    with pytest.raises(RanksError, match="expected a torch with torch.distributed, found one without"):
        join("cpu")


def test_a_checkpoint_that_one_rank_cannot_write_is_one_line(tmp_path):
    future = Future()
    full = OSError(28, "No space left on device")
    future.set_exception(CheckpointException("save", {1: (full, None)}))
    with pytest.raises(ShardError, match=r"found that rank 1 cannot \(.*No space left on device\); the last good"):
        _wait_for(future, tmp_path / "last-3")


class Ended:
    """A process that has ended; at the first look it may still be at work."""

    def __init__(self, code, *, late=False):
        self.returncode, self.late = code, late

    def poll(self):
        late, self.late = self.late, False
        return None if late else self.returncode


@pytest.mark.parametrize("late", [False, True])
def test_the_rank_that_failed_is_named_and_not_those_that_it_left(late):
    errors = [BytesIO(), BytesIO(b"note: of a layer\nrecollect: step 3: out of memory\n"), BytesIO()]
    with pytest.raises(RanksError, match="^rank 1: step 3: out of memory$"):
        _watch([Ended(LOST), Ended(1, late=late), Ended(LOST)], errors)
    with pytest.raises(RanksError, match="expected 3 at work, found rank 2 ended by signal 9; the last checkpoint"):
        _watch([Ended(LOST), Ended(LOST), Ended(-9, late=late)], errors)


def test_a_restart_goes_on_with_its_own_run_and_with_no_other(tmp_path, monkeypatch):
    (tmp_path / "text.txt").write_text(tiny.prose(400), encoding="utf-8")
    own, other = (tiny.configure(tmp_path / "text.txt", "rnn", steps=2, lr=lr) for lr in (0.1, 0.2))
    out = str(tmp_path / "run")
    runs.train(TextTask, own, out)
    before = RunFolder(out).model_path.read_bytes()
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    with pytest.raises(RunError, match="expected a new or empty folder, found files in it"):
        runs.train(TextTask, other, out)
    assert RunFolder(out).model_path.read_bytes() == before
    assert runs.train(TextTask, own, out)["nats_per_token"] > 0


def test_batch_norm_is_refused_among_ranks():
    with pytest.raises(RanksError, match="found BatchNorm in 1, which would see the rows of one rank alone"):
        Ranks(0, 2).wrap(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), None)


def test_a_single_number_cannot_be_sharded():
    model = nn.ParameterDict({"gate": nn.Parameter(torch.tensor(0.0))})
    with pytest.raises(RanksError, match="--shard: expected weights with rows to divide, found the number gate"):
        Ranks(0, 2, shard=True).wrap(model, None)
