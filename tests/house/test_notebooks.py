"""Notebooks of the course: every line of code and every command of a chapter, in order, and they run."""

import pytest
from tools import notebooks

from recollect.learn.chapters import read_chapters


@pytest.mark.parametrize("language", notebooks.LANGUAGES)
def test_a_notebook_has_the_code_and_the_commands_of_its_chapter(language):
    for chapter in read_chapters(language):
        found = ["".join(cell["source"]) for cell in notebooks.cells(chapter) if cell["cell_type"] == "code"]
        assert found
        assert any(cell.startswith("import ") for cell in found)
        assert any("recollect " in line for cell in found for line in cell.splitlines() if line.startswith("!"))


def test_a_notebook_shows_its_figures_without_other_files():
    chapter = read_chapters("en")[3]
    text = "".join("".join(cell["source"]) for cell in notebooks.cells(chapter) if cell["cell_type"] == "markdown")
    assert "<svg" in text
    assert "figures/" not in text
    assert "<!--" not in text


def test_what_a_page_shows_as_printed_is_left_to_the_notebook():
    chapter = read_chapters("en")[7]
    assert "largest of 64 weights 0.95" in chapter.path.read_text(encoding="utf-8")
    assert "largest of 64 weights 0.95" not in str(notebooks.cells(chapter))


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("chapter", read_chapters("en"), ids=lambda chapter: chapter.name)
def test_a_notebook_runs(chapter, tmp_path, monkeypatch):
    pytest.importorskip("nbclient")
    monkeypatch.setattr(notebooks, "read_chapters", lambda language: (chapter,))
    monkeypatch.setattr(notebooks, "LANGUAGES", ("en",))
    (path,) = notebooks.write(tmp_path)
    notebooks.run(path)
    assert '"output_type": "stream"' in path.read_text(encoding="utf-8")
