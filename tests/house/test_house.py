"""The house itself: the registry is whole, imports go one way, start-up is cheap."""

import ast
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import recollect
from recollect import layers

SOURCE = Path(recollect.__file__).parent
MAY_IMPORT = {
    "core": set(),
    "kernels": {"core"},
    "layers": {"core", "kernels"},
    "models": {"core", "layers"},
    "decode": {"core", "kernels", "layers", "models"},
    "data": {"core"},
    "tasks": {"core", "layers", "models", "decode", "data"},
    "train": {"core", "layers", "models", "decode", "data", "tasks"},
    "measure": {"core", "layers", "models", "decode", "data", "tasks", "train"},
    "race": {"core", "layers", "models", "decode", "data", "tasks", "train", "measure"},
    "claims": {"core", "layers", "models", "decode", "data", "tasks", "train", "measure"},
    "report": {"core", "race"},  # their torch-free files alone: tests/report/test_imports.py
}


def imported(path):
    """The parts of the package that a file imports, anywhere in it."""
    home = [*path.relative_to(SOURCE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = home[: len(home) - node.level + 1]
            names = [*base, *(node.module.split(".") if node.module else [])]
            yield from [names[0]] if names else [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "recollect":
            yield (node.module.split(".") + [alias.name for alias in node.names])[1]


@pytest.mark.parametrize("part", [part for part in MAY_IMPORT if (SOURCE / part).exists()])
def test_imports_go_one_way(part):
    for path in sorted((SOURCE / part).rglob("*.py")):
        for other in imported(path):
            assert other == part or other in MAY_IMPORT[part] or other in ("config", "__version__"), (
                f"{path.name} imports {other}"
            )


def test_report_imports_no_torch():
    done = subprocess.run(
        [sys.executable, "-c", "import sys, recollect.report.table; sys.exit('torch' in sys.modules)"], check=False
    )
    assert done.returncode == 0


def test_the_command_line_starts_without_torch():
    code = (
        "import sys, time\nfrom typer.testing import CliRunner\nfrom recollect.cli import app\n"
        "result = CliRunner().invoke(app, ['--help'])\n"
        "sys.exit(result.exit_code or 'torch' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_layer_file_is_in_the_registry():
    """Files that define a Config with build() of their own, and are not shared machinery."""
    registered = {c.__module__ for registry in (layers.LAYERS, layers.ENCODERS) for c in registry.values()}
    shared = {"recurrent", "attend", "score", "alignment", "lineage", "loss", "outside", "ttt_fused"}
    for module in pkgutil.iter_modules(layers.__path__):
        assert module.name in shared or f"recollect.layers.{module.name}" in registered, module.name


def test_a_layer_is_one_file(tmp_path, monkeypatch):
    """A file put among the layers is registered under its name, with no other file touched."""
    source = (SOURCE / "layers" / "rnn.py").read_text()
    (tmp_path / "plain_rnn.py").write_text(source)
    monkeypatch.setattr(layers, "__path__", [*layers.__path__, str(tmp_path)])
    monkeypatch.setattr(layers, "LAYERS", dict(layers.LAYERS))
    layers.discover()
    assert "plain-rnn" in layers.LAYERS
    assert layers.build("plain-rnn", dim=4).width == 4


@pytest.mark.parametrize("name", layers.LAYERS)
def test_every_layer_says_what_it_is(name):
    card = layers.card(name)
    assert all(card), f"{name}: STATE, UPDATE, READ, GROWS and FAST stand at the head of its file"


@pytest.mark.parametrize("name", layers.LINEAGE)
def test_every_layer_of_the_lineage_is_built_by_its_name(name):
    layer = recollect.build(name, dim=16)
    assert layer.dim == layer.width == 16


def test_the_lineage_table_is_printed_whole():
    from typer.testing import CliRunner

    from recollect.cli import app

    out = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["models"]).output
    for name in layers.LINEAGE:
        assert name in out
    assert "[1:]" in out.replace("\n", "")  # brackets are not markup


def test_a_setting_has_one_home():
    """Else --set could not say which is meant. Those of the data that also size a model are the task's to hand on."""
    from dataclasses import fields

    from recollect import tasks
    from recollect.train.settings import Settings

    handed_on = {"vocab", "lookback", "horizon", "tokens", "users", "items", "features", "pixels"}
    for task in tasks.every():
        for model in task.models:
            homes = [Settings, task.task_config, task.data_config, task.model_settings(model)["model"]]
            names = [field.name for home in homes for field in fields(home)]
            twice = {name for name in names if names.count(name) > 1} - handed_on
            assert not twice, f"{task.name} {model}: {twice}"
