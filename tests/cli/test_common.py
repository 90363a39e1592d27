"""Devices by name, and wrong usage."""

import re

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


PLACES = {
    "--out": ["train", "text"],
    "--recipe": ["train", "text"],
    "--init": ["train", "text"],
    "--of": ["train", "text", "--model", "mixture"],
    "--data-dir": ["train", "text"],
    "--state-in": ["generate", "demo-text"],
    "--state-out": ["generate", "demo-text"],
    "--plot": ["forecast", "demo-series", "sine"],
    "--map": ["caption", "demo-captions", "a.png"],
    "--alignment": ["translate", "demo-translation"],
    "RUN": ["verify"],
    "FOLDERS": ["report"],
}


@pytest.mark.parametrize("flag", PLACES)
@pytest.mark.parametrize(("given", "found"), [("", "an empty one"), ("~nobody-here/x", "'~nobody-here/x', and nobody")])
def test_a_place_without_a_name_is_refused_and_no_default_takes_its_place(flag, given, found, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [given] if flag.isupper() else [flag, given]
    result = invoke(*PLACES[flag], *words)
    assert isinstance(result.exception, ValueError)
    assert re.match(f"{flag}: expected the name of a file or folder, found {found}", str(result.exception))
    assert not list(tmp_path.iterdir())


def test_a_home_folder_in_a_place_is_filled_in(tmp_path, monkeypatch):
    """A shell leaves the ~ of `--out=~/runs` as it is."""
    monkeypatch.setenv("HOME", str(tmp_path))
    result = invoke("report", "~/a-race")
    assert str(result.exception).startswith(f"{tmp_path}/a-race: expected the folder of a race")
