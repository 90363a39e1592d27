"""The script ./recollect: what each command installs, with stand-ins for Python and uv."""

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = ("recollect", "pyproject.toml", "constraints.txt")


@pytest.fixture
def checkout(tmp_path):
    """A copy of what the script reads, and an environment whose programs write down how they were called."""
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path / name)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "uv", "recollect", "ruff", "pyright"):
        program = programs / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >>"{tmp_path}/calls"\n')
        program.chmod(0o755)
    return tmp_path


def call(checkout, command, **variables):
    """The extras that a command installed (None: it installed nothing), and what it ran at last."""
    calls = checkout / "calls"
    calls.write_text("")
    unset = {"RECOLLECT_VENV", "RECOLLECT_WORKERS", "TORCH_BACKEND", "PIP_FIND_LINKS"}
    environment = {name: value for name, value in os.environ.items() if name not in unset} | variables
    subprocess.run([checkout / "recollect", *command.split()], env=environment, check=True, capture_output=True)
    lines = calls.read_text().splitlines()
    installed = [line.rpartition(f"--editable {checkout}")[2] for line in lines if line.startswith("uv pip install")]
    assert installed in ([], [""], ["[dev]"], ["[dev]", "[dev,deep]"])
    return (installed or [None])[-1], lines[-1]


@pytest.mark.parametrize(
    ("command", "extras", "ran"),
    [
        ("race --seeds 3", "", "recollect race --seeds 3"),
        ("", "", "recollect "),
        ("bench step", "", "python -m benchmarks step"),
        ("wheel --out dist", "", "python -m tools.wheel --out dist"),
        ("check", "[dev]", "python -m pytest -n auto -m not slow -q"),
        ("test -k deep", "[dev]", "python -m pytest -n auto -k deep"),
        ("test deep -k ttt", "[dev,deep]", "python -m pytest -n auto --deep -k ttt"),
    ],
)
def test_a_command_installs_what_it_needs_once(checkout, command, extras, ran):
    assert call(checkout, command) == (extras, ran)
    assert call(checkout, command) == (None, ran)


def test_it_works_through_links_from_wherever_they_lie(checkout, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("bin")
    (elsewhere / "direct").symlink_to(checkout / "recollect")
    (elsewhere / "recollect").symlink_to("direct")
    (checkout / "calls").write_text("")
    subprocess.run([elsewhere / "recollect", "race"], check=True, capture_output=True, cwd=elsewhere)
    assert (checkout / "calls").read_text().splitlines()[-1] == "recollect race"


def test_a_larger_set_has_the_smaller_ones(checkout):
    commands = ["race", "test", "race", "check", "test deep", "test", "check", "race"]
    found = [call(checkout, command)[0] for command in commands]
    assert found == ["", "[dev]", None, None, "[dev,deep]", None, None, None]


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_a_change_of_the_pinned_set_installs_anew_all_that_was_there(checkout, name):
    call(checkout, "test")
    with (checkout / name).open("a") as file:
        file.write("# changed\n")
    assert call(checkout, "race")[0] == "[dev]"
    assert call(checkout, "race")[0] is None


def test_a_chosen_build_of_torch_stays_until_another_is_chosen(checkout):
    assert call(checkout, "race", TORCH_BACKEND="cpu")[0] == ""
    assert call(checkout, "race")[0] is None
    assert call(checkout, "test")[0] == "[dev]"
    assert call(checkout, "race", TORCH_BACKEND="cu130")[0] == "[dev]"
    assert call(checkout, "race", TORCH_BACKEND="cu130")[0] is None


def test_every_package_that_is_installed_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    names = {line.split(">=")[0].split("[")[0] for line in project["dependencies"] + extras["dev"] + extras["deep"]}
    pinned = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert names <= pinned
