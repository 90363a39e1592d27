"""docs/settings.md and docs/api.md are what the code says: each is made by a tool from dataclasses and docstrings."""

import ast
import re

import pytest
from tools import api, known, settings

import recollect
from recollect import tasks
from recollect.tasks.text.settings import Config
from recollect.training import meanings
from recollect.training.recipe import settings_of
from recollect.training.schema import models_of


def looked_up() -> set[tuple[str, str]]:
    """Where the meaning of each setting stands; a setting without one is an error."""
    found = set()
    for task in tasks.every():
        for model in models_of(task):
            for name, setting in settings_of(task, model).items():
                places = list(meanings.places(setting.home, name))
                assert places, f"{name} of {setting.home}: expected its meaning in meanings.py, found none"
                found.add((places[0], name))
    return found


def test_every_setting_has_a_meaning_and_no_meaning_is_left_over():
    shared = {("", name) for name in meanings.SHARED}
    own = {(home, name) for home, names in meanings.MEANINGS.items() for name in names}
    assert looked_up() == shared | own


def test_a_meaning_is_a_sentence():
    texts = [text for names in (meanings.SHARED, *meanings.MEANINGS.values()) for text in names.values()]
    assert [text for text in texts if not (text[0].isupper() or text[0] == "`") or not text.endswith(".")] == []


def test_a_setting_without_a_meaning_is_caught(monkeypatch):
    monkeypatch.delitem(meanings.MEANINGS["tasks.text"], "bptt")
    with pytest.raises(AssertionError, match="bptt of .*text.*: expected its meaning"):
        looked_up()


def test_the_nearest_meaning_counts():
    assert meanings.meaning(Config, "batch") == meanings.SHARED["batch"]
    assert (
        meanings.meaning(tasks.find("translation").task_config, "batch")
        == meanings.MEANINGS["tasks.translation"]["batch"]
    )
    assert meanings.meaning(int, "batch") is None


def test_the_page_of_settings_is_up_to_date():
    assert settings.PATH.read_text(encoding="utf-8") == settings.document(), "python -m tools.settings writes it"


def test_the_page_of_the_api_is_up_to_date():
    assert api.PATH.read_text(encoding="utf-8") == api.document(), "python -m tools.api writes it"


@pytest.mark.parametrize("language", known.PATHS)
def test_the_page_of_known_sets_is_up_to_date(language):
    assert known.PATHS[language].read_text(encoding="utf-8") == known.document(language), "python -m tools.known"


def test_everything_public_has_a_place_on_the_page_of_the_api():
    page = api.document()
    shown = {heading.rpartition(".")[2] for heading in re.findall(r"^### (.*)$", page, re.M)}
    assert set(recollect.__all__) - shown == {"layers", "__version__"}  # which have no heading of their own


def test_an_example_is_shown_with_what_it_prints():
    def double(x):
        """Twice x.

        >>> double(2)
        4
        """

    assert api.prose(double) == ["Twice x.", "```python no-run\ndouble(2)\n# 4\n```"]


def test_a_long_signature_stands_one_argument_a_line():
    short, long = "def f(x: int, *, y: int = 2) -> int: ...", f"def f({'x' * 60}: int, /, {'y' * 40}='a'): ..."
    assert api.signature(ast.parse(short).body[0]) == short
    lines = api.signature(ast.parse(long).body[0]).splitlines()
    assert lines == ["def f(", f"    {'x' * 60}: int,", "    /,", f'    {"y" * 40} = "a",', "): ..."]
