"""What the report may import of the package: files without torch, so that pages are made in a moment."""

import ast
from pathlib import Path

import pytest

import recollect.report

HOME = Path(recollect.report.__file__).parent
ALLOWED = {"core.files", "core.numbers", "core.metric", "race.summary"}


def imported(path):
    """Modules of the package outside report/ that a file imports."""
    folder = ["recollect", "report", *path.relative_to(HOME).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = folder[: len(folder) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            shallow = module.count(".") < 2  # recollect.core: what is imported from it is a module
            names = [f"{module}.{alias.name}" if shallow else module for alias in node.names]
        else:
            continue
        found = (name.removeprefix("recollect.") for name in names if name.startswith("recollect."))
        yield from (name for name in found if name.partition(".")[0] != "report")


@pytest.mark.parametrize("path", sorted(HOME.rglob("*.py")), ids=lambda path: str(path.relative_to(HOME)))
def test_report_imports_only_files_without_torch(path):
    assert set(imported(path)) <= ALLOWED
