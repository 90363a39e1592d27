"""The public face is typed: the package says so, and pyright holds each of its files to its strict rules."""

import tomllib
from importlib import import_module
from pathlib import Path

import recollect
from recollect import tasks

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(recollect.__file__).parent
STRICT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pyright"]["strict"]


def homes() -> set[str]:
    """The modules that define a public name, or the class of a trained model."""
    names = {recollect.__name__, *(f"recollect.{home}" for home in recollect._HOMES.values())}
    return names | {tasks.find_use(name).__module__ for name in tasks.names()}


def is_strict(path: Path, patterns: list[str]) -> bool:
    """Whether one of the patterns names the file or a folder above it."""
    inside = path.relative_to(ROOT)
    return any(part.match(pattern) for part in (inside, *inside.parents) for pattern in patterns)


def test_every_public_name_stands_in_a_file_that_is_held_to_strict_types():
    files = {name: Path(str(import_module(name).__file__)) for name in homes()}
    assert [name for name, path in files.items() if not is_strict(path, STRICT)] == []


def test_no_pattern_is_left_behind():
    assert [pattern for pattern in STRICT if not list(ROOT.glob(pattern))] == []


def test_a_file_outside_is_caught():
    assert not is_strict(PACKAGE / "decode" / "beam.py", ["src/recollect/api", "src/recollect/tasks/*/use.py"])
    assert is_strict(PACKAGE / "api" / "racing.py", ["src/recollect/api"])


def test_a_user_s_type_checker_is_offered_the_types():
    assert (PACKAGE / "py.typed").is_file()
