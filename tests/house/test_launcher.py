"""The script ./recollect: what each command installs, with stand-ins for Python and uv."""

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = ("recollect", "pyproject.toml", "constraints.txt")
CONFIGURATION = """case "$*" in "-m pip config get "*)
  sed -n "s/^${5#install.} = //p" "${0%/*}/pip.conf" 2>/dev/null; exit;; esac
"""  # of pip: lines such as `index-url = https://…` in a file beside the program


@pytest.fixture
def checkout(tmp_path):
    """A copy of what the script reads, and an environment whose programs write down how they were called."""
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path / name)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "uv", "recollect", "ruff", "pyright"):
        program = programs / name
        program.write_text(
            f'#!/bin/sh\n{CONFIGURATION}echo "{name} $*" >>"{tmp_path}/calls"\nenv >"{tmp_path}/{name}.env"\n'
        )
        program.chmod(0o755)
    return tmp_path


def call(checkout, command, **variables):
    """The extras that a command installed (None: it installed nothing), and what it ran at last."""
    calls = checkout / "calls"
    calls.write_text("")
    own = {name for name in os.environ if name.startswith(("PIP_", "UV_"))}
    unset = own | {"RECOLLECT_VENV", "RECOLLECT_WORKERS", "TORCH_BACKEND"}
    environment = {name: value for name, value in os.environ.items() if name not in unset} | variables
    subprocess.run([checkout / "recollect", *command.split()], env=environment, check=True, capture_output=True)
    lines = calls.read_text().splitlines()
    installed = [line.rpartition(f"--editable {checkout}")[2] for line in lines if line.startswith("uv pip install")]
    assert installed in ([], [""], ["[serve]"], ["[dev]"], ["[dev]", "[dev,deep]"])
    return (installed or [None])[-1], lines[-1]


@pytest.mark.parametrize(
    ("command", "extras", "ran"),
    [
        ("race --seeds 3", "", "recollect race --seeds 3"),
        ("", "", "recollect "),
        ("serve demo-text", "[serve]", "recollect serve demo-text"),
        ("studio --port 0", "[serve]", "recollect studio --port 0"),
        ("bench step", "", "python -m benchmarks step"),
        ("wheel --out dist", "", "python -m tools.wheel --out dist"),
        ("site --out pages", "[dev]", "python -m tools.site --out pages"),
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
    commands = ["race", "serve x", "race", "test", "serve x", "race", "check", "test deep", "test", "serve x", "race"]
    found = [call(checkout, command)[0] for command in commands]
    assert found == ["", "[serve]", None, "[dev]", None, None, None, "[dev,deep]", None, None, None]


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


def given_to_uv(checkout):
    """What uv was told of indexes and of torch's build."""
    lines = (line.partition("=") for line in (checkout / "uv.env").read_text().splitlines())
    return {name: value for name, _, value in lines if name.startswith("UV_")}


def test_without_settings_of_pip_torch_comes_from_its_own_index(checkout):
    call(checkout, "race")
    assert given_to_uv(checkout) == {"UV_TORCH_BACKEND": "auto"}


def test_pips_index_is_uvs_too_and_has_torch(checkout):
    call(checkout, "race", PIP_INDEX_URL="https://mirror.example/simple", PIP_TRUSTED_HOST="mirror.example")
    assert given_to_uv(checkout) == {
        "UV_DEFAULT_INDEX": "https://mirror.example/simple", "UV_INSECURE_HOST": "mirror.example"
    }  # fmt: skip


def test_a_build_of_torch_that_is_named_comes_from_torchs_index_beside_another(checkout):
    call(checkout, "race", PIP_INDEX_URL="https://mirror.example/simple", TORCH_BACKEND="cpu")
    assert given_to_uv(checkout)["UV_TORCH_BACKEND"] == "cpu"


def test_more_indexes_are_asked_as_pip_asks_them(checkout):
    call(checkout, "race", PIP_EXTRA_INDEX_URL="https://one.example/simple file:///nothing https://two.example/simple")
    found = given_to_uv(checkout)
    assert found["UV_INDEX"] == "https://one.example/simple https://two.example/simple"
    assert found["UV_INDEX_STRATEGY"] == "unsafe-best-match"


def test_pips_own_configuration_is_read(checkout):
    (checkout / ".venv" / "bin" / "pip.conf").write_text("index-url = https://mirror.example/simple\n")
    call(checkout, "race")
    assert given_to_uv(checkout) == {"UV_DEFAULT_INDEX": "https://mirror.example/simple"}


def test_an_index_that_was_given_to_uv_stays(checkout):
    call(checkout, "race", PIP_INDEX_URL="https://mirror.example/simple", UV_DEFAULT_INDEX="https://own.example/simple")
    assert given_to_uv(checkout)["UV_DEFAULT_INDEX"] == "https://own.example/simple"


def test_every_package_that_is_installed_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    names = {line.split(">=")[0].split("[")[0] for line in project["dependencies"] + extras["dev"] + extras["deep"]}
    pinned = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert names <= pinned
