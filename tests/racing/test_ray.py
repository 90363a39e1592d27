"""A race on a Ray cluster of two nodes, made on this machine: the same rows, and none is lost with a node."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from racing.small import raced, recall, rows_of
from recollect.racing.processes import Died, Task
from recollect.racing.workers import Local, OnRay, WorkersError, workers_of

ray = pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = [
    pytest.mark.deep,
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]


@pytest.fixture
def cluster():
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    yield made
    ray.shutdown()
    made.shutdown()


def test_the_rows_are_those_of_a_race_on_this_machine_though_a_node_is_lost(cluster, tmp_path, monkeypatch):
    heat = recall("rnn", "lstm", "gru")
    raced([heat], tmp_path / "here", workers=Local())
    lost = []

    def lose_a_node(running):
        begun = [task for task in running if task.given.folder.is_dir()]
        if begun and not lost:
            lost.append(cluster.list_all_nodes()[-1])
            cluster.remove_node(lost[0], allow_graceful=False)
            cluster.add_node(num_cpus=1)

    workers = OnRay(address=cluster.address)
    real = OnRay.run
    monkeypatch.setattr(OnRay, "run", lambda self, tasks, tick=None: real(self, tasks, lose_a_node))
    raced([heat], tmp_path / "there", workers=workers)
    assert lost
    assert rows_of(tmp_path / "here") == rows_of(tmp_path / "there")


def end_the_worker(path):
    with Path(path).open("a") as file:
        file.write("x")
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_keeps_dying_is_a_row_that_failed_and_takes_no_other_with_it(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # where a worker finds this module
    tasks = [Task(0, end_the_worker, str(tmp_path / "tries")), Task(1, len, "four")]
    found = {task.number: answer for task, answer in OnRay(address=cluster.address).run(tasks)}
    assert found[1] == 4
    assert isinstance(found[0], Died)
    assert (tmp_path / "tries").read_text() == "xxx"  # tried again twice


def test_a_cluster_that_nobody_reaches_is_one_line():
    with pytest.raises(WorkersError, match="--on ray: expected a cluster at 127.0.0.1:1, found none that answers"):
        next(OnRay(address="127.0.0.1:1").run([Task(0, len, "")]))


def test_a_cluster_of_this_machine_alone_is_reached_over_loopback():
    code = "from recollect.racing.workers import connect; print(connect(None).util.get_node_ip_address())"
    alone = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=alone)
    assert done.stdout.split() == ["127.0.0.1"]


def test_where_entries_run_is_local_or_ray():
    assert workers_of("local", jobs=3, devices=("cuda:0",), on_gpu=True) == Local(jobs=3, devices=("cuda:0",))
    assert workers_of("ray=host:6379", jobs=4, devices=(), on_gpu=True) == OnRay(address="host:6379", gpus=0.25)
    with pytest.raises(WorkersError, match="--on: expected local, ray or ray=ADDRESS, found 'slurm'"):
        workers_of("slurm", jobs=1, devices=(), on_gpu=False)
    with pytest.raises(WorkersError, match="--device: expected cuda or cpu with --on ray.*found cuda:0,cuda:1"):
        workers_of("ray", jobs=1, devices=("cuda:0", "cuda:1"), on_gpu=True)
