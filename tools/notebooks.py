"""The chapters of the course as notebooks: python -m tools.notebooks [--out build/notebooks] [--run]

Prose becomes cells of Markdown, code cells of code, and commands cells whose lines begin with `!`. What a page shows as
printed is left out, since the notebook prints it itself. `--run` runs every cell.
"""

import argparse
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from recollect.learn.chapters import FENCE, Chapter, pages_folder, read_chapters

ROOT = Path(__file__).resolve().parents[1]
LANGUAGES = ("en", "zh")
SECONDS = 600  # that a cell may take
GENERATED = re.compile(r"^<!--[^>]*-->\n?", re.M)
FIGURE = re.compile(r"!\[(?P<about>[^\]]*)\]\((?P<to>[^)]+\.svg)\)")


def main() -> int:
    parser = argparse.ArgumentParser(description="Makes notebooks of the chapters.")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "notebooks")
    parser.add_argument("--run", action="store_true", help="run every cell")
    options = parser.parse_args()
    for path in write(options.out):
        if options.run:
            run(path)
        print(path.name)
    return 0


def write(out: Path) -> list[Path]:
    """A notebook of each chapter in each language."""
    out.mkdir(parents=True, exist_ok=True)
    found = []
    for language in LANGUAGES:
        for chapter in read_chapters(language):
            path = out / chapter.path.with_suffix(".ipynb").name
            path.write_text(json.dumps(notebook(chapter), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            found.append(path)
    return found


def notebook(chapter: Chapter) -> dict[str, Any]:
    """A chapter in the format of Jupyter, version 4."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": [dict(part, id=f"cell-{number}") for number, part in enumerate(cells(chapter))],
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def cells(chapter: Chapter) -> list[dict[str, Any]]:
    text = chapter.path.read_text(encoding="utf-8")
    found, end = [], 0
    for fence in FENCE.finditer(text):
        kind = fence["kind"].strip()
        if kind not in ("python", "sh", "text"):
            continue
        found += prose(text[end : fence.start()], chapter)
        end = fence.end()
        if kind == "python":
            found.append(code(fence["body"]))
        elif kind == "sh":
            found.append(code(re.sub(r"^(?=.)", "!", fence["body"].replace("./recollect ", "recollect "), flags=re.M)))
    return found + prose(text[end:], chapter)


def prose(text: str, chapter: Chapter) -> list[dict[str, Any]]:
    """A cell of Markdown, or none for nothing; figures are part of it, since a notebook stands alone."""
    text = FIGURE.sub(lambda found: inline(found, chapter), GENERATED.sub("", text)).strip()
    return [{"cell_type": "markdown", "metadata": {}, "source": text.splitlines(keepends=True)}] if text else []


def inline(figure: re.Match[str], chapter: Chapter) -> str:
    path = (chapter.path.parent / figure["to"]).resolve()
    return path.read_text(encoding="utf-8").strip() if path.is_relative_to(pages_folder()) else figure["about"]


def code(text: str) -> dict[str, Any]:
    lines = text.strip().splitlines(keepends=True)
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": lines}


def run(path: Path) -> None:
    """Run all cells in the notebook's folder, and keep what they print."""
    import nbformat
    from nbclient import NotebookClient

    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    read = nbformat.read(path, as_version=4)
    NotebookClient(read, timeout=SECONDS, resources={"metadata": {"path": str(path.parent)}}).execute()
    nbformat.write(read, path)


if __name__ == "__main__":
    sys.exit(main())
