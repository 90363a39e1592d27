"""Devices by name, and wrong usage."""

import pytest

from recollect.cli.common import device_of
from tiny import invoke


@pytest.mark.parametrize("name", ["tpu", "cuda:99", "cuda:-1", "CPU", "", "meta"])
def test_a_device_that_is_not_there_is_one_clear_line(name):
    with pytest.raises(ValueError, match="--device: expected a device of this machine, found") as caught:
        device_of(name)
    assert "cpu or auto" in str(caught.value)


def test_the_first_gpu_is_taken_where_there_is_one(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [device_of(name) for name in ("auto", "cpu", "cuda", "cuda:1")] == ["cuda", "cpu", "cuda", "cuda:1"]
    with pytest.raises(ValueError, match="use cuda, cuda:0, cuda:1, cpu or auto"):
        device_of("cuda:2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert device_of("auto") == "cpu"


@pytest.mark.parametrize("rows", [0, -1])
def test_a_batch_of_no_rows_is_wrong_usage(rows):
    """A step of -1 through the rows would label none of them, and say nothing."""
    assert invoke("classify", "a-run", "--batch", rows).exit_code == 2


def test_a_seed_that_no_generator_takes_is_wrong_usage():
    assert invoke("generate", "a-run", "--seed", 2**63).exit_code == 2
