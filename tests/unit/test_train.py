"""Recipes."""

import json

import pytest

from recollect.core.settings import SettingError
from recollect.tasks.text.task import TextTask
from recollect.train import run as runs
from recollect.train.recipe import read_recipe


def test_a_recipe_says_what_flags_would(tmp_path):
    path = tmp_path / "recipe.json"
    content = {"data": ["a.txt"], "model": "lstm", "settings": {"lr": 0.01, "tie": False, "clip": None, "bptt": "full"}}
    path.write_text(json.dumps(content))
    found = read_recipe(str(path))
    assert (found.data, found.model, found.tokenizer) == (("a.txt",), "lstm", None)
    run = runs.configure(TextTask, found.settings, model="lstm", data=found.data, valid=(), tokenizer="chars")
    assert (run.train.lr, run.train.clip, run.task.bptt, run.model["tie"]) == (0.01, None, "full", False)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"\xff", b"[]", b"[" * 100_000,
        b'{"modle": "lstm"}', b'{"data": "a.txt"}', b'{"settings": [1]}', b'{"model": 3}',
    ],
    ids=lambda content: content[:20].decode(errors="replace"),
)  # fmt: skip
def test_a_recipe_that_is_none_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "recipe.json").write_bytes(content)
    with pytest.raises(SettingError, match="recipe.json: expected") as caught:
        read_recipe(str(tmp_path / "recipe.json"))
    assert "\n" not in str(caught.value)
