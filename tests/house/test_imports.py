"""Imports go one way, and what must start fast imports neither torch nor numpy."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import recollect
from recollect import tasks

SOURCE = Path(recollect.__file__).parent
MAY_IMPORT = {
    "core": set(),
    "kernels": {"core"},
    "layers": {"core", "kernels"},
    "models": {"core", "layers"},
    "data": {"core"},
    "runtime": {"core"},
    "decode": {"core", "kernels", "layers", "models", "runtime"},
    "tasks": {"core", "layers", "models", "data", "decode", "runtime"},
    "training": {"core", "layers", "models", "tasks"},
    "doctor": {"core"},
    "export": {"core", "data", "kernels", "layers", "models", "runtime", "tasks", "training"},
    "measure": {"core", "tasks", "training"},
    "racing": {"core", "layers", "tasks", "training", "measure"},
    "claims": {"core", "layers", "models", "data", "decode", "tasks", "training", "measure"},
    "report": {"core.errors", "core.files", "core.language", "core.numbers", "core.metric", "racing.summary"}
    | {"racing.verdict"},  # no torch
    "learn": {"core", "layers", "models", "report"},
    "api": {"core", "data", "decode", "export", "racing", "report", "runtime", "tasks", "training"},
    "serve": {"api", "core", "runtime"},
    "studio": {"api", "core", "data", "layers", "learn", "runtime", "serve", "training", "report", "racing", "tasks"},
    "cli": {"api", "core", "layers", "data", "tasks", "training", "measure", "racing", "claims", "doctor", "report"}
    | {"decode", "export", "learn", "serve", "studio"},
}


def imported(path: Path, source: Path = SOURCE) -> Iterator[str]:
    """Modules of the package that a file imports, anywhere in it, such as `core.state`."""
    home = ["recollect", *path.relative_to(source).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = home[: len(home) - node.level + 1] if node.level else []
            module = [*base, *(node.module.split(".") if node.module else [])]
            names = [".".join([*module, alias.name][:3]) for alias in node.names]
        else:
            continue
        yield from (name.removeprefix("recollect.") for name in names if name.startswith("recollect."))


def forbidden(path: Path, part: str, source: Path = SOURCE) -> list[str]:
    """Imports of a file that its part of the package may not have."""
    allowed = MAY_IMPORT[part] | {part, "__version__"}
    return [name for name in imported(path, source) if not {name, name.partition(".")[0]} & allowed]


def test_the_table_has_every_part():
    parts = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert parts == set(MAY_IMPORT)


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_imports_go_one_way(part):
    found = {str(path.relative_to(SOURCE)): forbidden(path, part) for path in (SOURCE / part).rglob("*.py")}
    assert {file: names for file, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from ...training import run", ["training.run"]),
        ("from ... import racing", ["racing"]),
        ("from recollect.measure.cost import measure", ["measure.cost"]),
        ("import recollect.claims.runner", ["claims.runner"]),
        ("def late():\n    from ...training.loop import Trainer", ["training.loop"]),
        ("from ...core import state\nfrom .data import Corpus\nfrom ... import __version__\nimport torch", []),
    ],
)
def test_an_import_against_the_rule_is_caught(tmp_path, line, found):
    path = tmp_path / "tasks" / "text" / "task.py"
    path.parent.mkdir(parents=True)
    path.write_text(line)
    assert forbidden(path, "tasks", tmp_path) == found


@pytest.mark.parametrize("folder", tasks.FOLDERS)
def test_a_task_imports_no_other_task(folder):
    found = {name for path in (SOURCE / "tasks" / folder).rglob("*.py") for name in imported(path)}
    allowed = {f"tasks.{folder}", "tasks.decoding", "tasks.metrics", "tasks.pieces"}
    assert {name for name in found if name.startswith("tasks.")} <= allowed


def heavy_after(code: str) -> str:
    """Which of torch and numpy a fresh interpreter has imported after `code`."""
    code += "\nimport sys\nprint(*sorted({'torch', 'numpy'} & set(sys.modules)))"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_help_is_printed_without_torch():
    asked = [
        ["--help"],
        ["train", "--help"],
        ["doctor", "--help"],
        ["export", "--help"],
        ["import", "--help"],
        ["serve", "--help"],
        ["studio", "--help"],
        *(["train", name, "--help"] for name in tasks.names()),
    ]
    code = (
        "from typer.testing import CliRunner\nfrom recollect.cli import app\n"
        f"for words in {asked}:\n"
        "    result = CliRunner().invoke(app, words)\n    assert result.exit_code == 0, result.output"
    )
    assert heavy_after(code) == ""


def test_settings_of_tasks_and_the_report_are_imported_without_torch():
    modules = [f"recollect.tasks.{folder}.settings" for folder in tasks.FOLDERS]
    assert heavy_after(f"import {', '.join(modules)}") == ""
    report = (SOURCE / "report").rglob("*.py")
    names = [".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in report]
    assert "torch" not in heavy_after(f"import {', '.join(names)}")
