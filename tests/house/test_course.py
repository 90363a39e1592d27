"""The course is whole and true: both languages, every part of a chapter, what its commands print, the words it uses."""

import re

import pytest
from tools import course

from recollect.learn.chapters import FENCE, HEADINGS, LANGUAGES, pages_folder, read_chapters

ROOT = course.ROOT
PAGES = sorted(pages_folder().glob("[0-9][0-9]-*.md"))
GLOSSARY = ROOT / "docs" / "glossary.zh.md"
CHINESE = [
    path
    for path in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    if path.name.endswith((".zh.md", ".zh-CN.md")) and path != GLOSSARY
]
LINES = 30  # of code in a chapter, at most


def chapters():
    return [
        pytest.param(chapter, id=chapter.path.name) for language in LANGUAGES for chapter in read_chapters(language)
    ]


def test_every_chapter_stands_in_both_languages():
    english, chinese = read_chapters("en"), read_chapters("zh")
    assert [(chapter.number, chapter.name) for chapter in english] == [(c.number, c.name) for c in chinese]
    assert [chapter.number for chapter in english] == list(range(1, len(english) + 1))


@pytest.mark.parametrize("chapter", chapters())
def test_a_chapter_has_all_its_parts_in_order(chapter):
    assert list(chapter.sections) == list(HEADINGS)
    assert all(chapter.sections.values()), "an empty section"
    assert re.search(r"!\[[^\]]+\]\(figures/[\w.-]+\.svg\)", chapter.sections["picture"])
    assert "<!-- claims: " in chapter.sections["claims"]
    assert "<details>" in chapter.sections["experiment"], "a question to be answered before the command is run"
    assert "<details>" in chapter.sections["exercises"], "answers"
    assert "./recollect " in chapter.command


@pytest.mark.parametrize("chapter", chapters())
def test_the_code_of_a_chapter_is_short(chapter):
    blocks = [fence["body"] for fence in FENCE.finditer(chapter.sections["code"]) if fence["kind"] == "python"]
    assert blocks
    assert sum(len(block.splitlines()) for block in blocks) <= LINES


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_claims_of_a_chapter_are_those_in_results(path):
    text = path.read_text(encoding="utf-8")
    assert course.fill_claims(text, course.claim_rows(), course.language_of(path)) == text, "run python -m tools.course"


@pytest.mark.deep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_commands_of_a_chapter_print_what_it_shows(path, tmp_path):
    text = path.read_text(encoding="utf-8")
    found = list(course.PRINTED.finditer(text))
    assert found
    for block in found:
        printed = course.print_commands(block["commands"], tmp_path, course.language_of(path))
        assert course.words(printed) == course.words(block["shown"]), block["commands"]


def test_what_is_compared_of_a_print_leaves_out_numbers_and_lines():
    assert course.words("│ gru │ 0.41 │\n12.5 s") == course.words("| gru | 3 |\n1 s".replace("|", "│"))
    assert course.words("gru 0.41") != course.words("lstm 0.41")


def test_a_command_of_a_page_that_fails_is_caught(tmp_path):
    with pytest.raises(ValueError, match="expected exit code 0, found 1"):
        course.print_commands("./recollect eval nothing\n", tmp_path, "en")


def avoided(text):
    """{what is not to be said: what to say} of the glossary."""
    rows = [[cell.strip() for cell in line.split("|")[1:4]] for line in text.splitlines() if line.startswith("| ")]
    return {word: chinese for _, chinese, words in rows[1:] for word in words.split("、") if word}


@pytest.mark.parametrize("path", CHINESE, ids=lambda path: path.name)
def test_a_chinese_page_uses_the_words_of_the_glossary(path):
    assert misused(path.read_text(encoding="utf-8")) == []


def misused(text):
    """Words of a Chinese text that the glossary avoids; quotations keep their own."""
    text = re.sub(r"「[^」]*」", "", text)
    found = []
    for word, better in avoided(GLOSSARY.read_text("utf-8")).items():
        rest = text.replace(better, "") if word in better else text  # 通过时间反向传播 holds 时间反向传播
        if word in rest:
            found.append(f"{word} (say {better})")
    return found


def test_a_word_that_the_glossary_avoids_is_found_unless_it_is_part_of_the_right_one():
    assert misused("通过时间反向传播，「时间反向传播」") == []
    assert misused("时间反向传播") == ["时间反向传播 (say 通过时间反向传播)"]


def test_the_glossary_is_read():
    words = avoided(GLOSSARY.read_text("utf-8"))
    assert words["隐藏状态"] == "隐状态"
    assert len(words) > 30
