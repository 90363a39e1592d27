"""The course's figures are what their code draws, in both languages, and every one is shown by a page."""

import re
from xml.etree import ElementTree

import pytest
from tools.diagrams import words
from tools.diagrams.about import ABOUT
from tools.diagrams.collisions import collisions
from tools.diagrams.figures import DRAWN, FOLDER, LANGUAGES, draw, path_of, render
from tools.diagrams.kit import Diagram

NAMED = re.compile(r"\]\(figures/([\w.-]+\.svg)\)")
LARGEST, WIDEST = 40_000, 720  # bytes of a file, pixels of a picture
UNUSED: set[str] = set()  # figures that no page shows
EVERY = [(name, language) for name in DRAWN for language in LANGUAGES]
every = pytest.mark.parametrize(("name", "language"), EVERY, ids=[path_of(*each).name for each in EVERY])


def shown_by(language):
    """Figures that the pages in a language show."""
    pages = sorted(FOLDER.parent.glob("*.md"))
    pages = [page for page in pages if page.name.endswith(".zh.md") == (language == "zh")]
    return {figure for page in pages for figure in NAMED.findall(page.read_text(encoding="utf-8"))}


@every
def test_a_figure_is_what_its_code_draws(name, language):
    message = "run python -m tools.diagrams"
    assert path_of(name, language).read_text(encoding="utf-8") == render(name, language), message


@every
def test_nothing_in_a_figure_lies_on_something_else(name, language):
    assert collisions(draw(name, language)) == []


@every
def test_a_figure_is_small_plain_and_described(name, language):
    text = render(name, language)
    assert len(text.encode()) < LARGEST
    root = ElementTree.fromstring(text)
    tags = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert float(root.get("viewBox", "").split()[2]) <= WIDEST
    assert tags[1:3] == ["title", "desc"]
    assert not {"script", "image", "use", "a", "foreignObject"} & {*tags}
    assert not re.search(r"\b(href|url\(|@import|on\w+=)", text), "nothing from elsewhere, no script"


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_figure_of_a_page_exists_and_every_figure_is_shown(language):
    drawn = {path_of(name, language).name: name for name in DRAWN}
    shown = shown_by(language)
    assert shown <= set(drawn), "a page shows a figure that nothing draws"
    assert {name for file, name in drawn.items() if file not in shown} == UNUSED


def test_the_folder_has_nothing_else():
    assert {path.name for path in FOLDER.iterdir()} == {path_of(*each).name for each in EVERY}
    assert set(ABOUT) == set(DRAWN)


def test_every_translation_of_a_label_is_used(monkeypatch):
    said = set()
    own = words._say
    monkeypatch.setattr(words, "_say", lambda line, language: said.add(line) or own(line, language))
    for name in DRAWN:
        draw(name, "zh")
    assert set(words.CHINESE) - said == set()


def test_mathematics_is_the_same_in_both_languages():
    def symbols(label):
        return sorted(re.findall(r"\$[^$]*\$", label))

    assert {label: symbols(label) for label in words.CHINESE} == {
        label: symbols(chinese) for label, chinese in words.CHINESE.items()
    }


def test_a_label_without_translation_is_refused():
    with pytest.raises(KeyError, match="forget everything"):
        Diagram("zh").text(0, 0, "forget everything")
    assert words.say("tanh($c$) ‘je’", "zh") == "tanh($c$) je"


def test_a_label_too_wide_for_its_box_is_refused():
    with pytest.raises(ValueError, match="forget gate"):
        Diagram().box(0, 0, "forget gate", w=50)


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        (lambda d: d.text(4, 4, "$h$"), "lies on"),
        (lambda d: d.line((-50, 0), (50, 0)), "a line runs through '$x$'"),
        (lambda d: d.box(12, 0, w=20), "a border"),
        (lambda d: (d.box(0, 90), d.arrow((-50, 90), (50, 90))), "a line runs through the shape at 0, 90"),
    ],
    ids=["words on words", "a line through words", "a border through words", "a line through a box"],
)
def test_what_lies_on_something_else_is_caught(place, problem):
    d = Diagram()
    d.text(0, 0, "$x$")
    place(d)
    assert any(problem in found for found in collisions(d))


def test_an_arrow_ends_at_the_border_of_what_it_points_at():
    d = Diagram()
    box, circle = d.box(0, 0, w=40, h=40), d.circle(100, 0, r=10)
    d.arrow(box, circle)
    (start, end), gap = d.routes[0], 2.5
    assert start == (20 + gap, 0)
    assert end == (90 - gap, 0)
