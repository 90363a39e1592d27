"""Floors: the least time that a machine needs."""

import pytest
import torch

from benchmarks import floors


@pytest.fixture
def limits(monkeypatch):
    monkeypatch.setattr(floors, "peak", lambda device, dtype: 1e12)
    monkeypatch.setattr(floors, "bandwidth", lambda device, size: 1e9 if size > 1e6 else 1e10)


def test_the_floor_is_the_largest_bound(limits):
    assert floors.floor("cpu", flops=2e12, bytes=1e8) == {
        "seconds": 2.0,
        "bound": "FLOPs, float32 matrix product",
        "flops": 2e12,
        "bytes": 1e8,
    }
    assert floors.floor("cpu", flops=1e9, bytes=1e8)["seconds"] == pytest.approx(0.1)
    # what is read many times is read at the speed of a cache that holds it
    assert floors.floor("cpu", bytes=1e5, times=1000)["seconds"] == pytest.approx(0.01)


def test_steps_on_a_gpu_meet_in_a_cluster_where_the_weights_fit_there(limits):
    near, far = (floors.floor("cuda", steps=1000, recurrent=size) for size in (2e6, 5e6))
    assert near["seconds"] == pytest.approx(250e-6)
    assert far["seconds"] == pytest.approx(980e-6)
    assert near["bound"] == "1,000 barriers of a cluster"
    assert floors.floor("cpu", steps=1000, recurrent=2e6, flops=1.0)["bound"].startswith("FLOPs")


def test_what_the_machine_does_is_measured():
    assert floors.bandwidth("cpu", 2**20) > 1e8
    assert floors.bandwidth("cpu", 2**20) == floors.bandwidth("cpu", 2**19)  # less is not told apart
    assert floors.peak("cpu", torch.float32) > 1e8
