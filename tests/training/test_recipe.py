"""Recipes: typed files, read against the settings of their task and model, and one JSON Schema that says the same."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from tools import schema

from recollect import tasks
from recollect.core.settings import SettingError
from recollect.training import run as runs
from recollect.training.recipe import read_recipe, settings_of

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*/*.json"))


@pytest.fixture
def write(tmp_path):
    """A function that writes a recipe and returns its path."""

    def to_file(**content):
        path = tmp_path / "recipe.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        return path

    return to_file


@pytest.fixture(scope="module")
def validator():
    content = json.loads(schema.PATH.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(content)
    return jsonschema.Draft202012Validator(content)


def configure(recipe):
    kind = tasks.find(recipe.task)
    return runs.configure(kind, recipe.settings, model=recipe.model or kind.default, **recipe.data_settings())


# Reading


def test_a_recipe_says_what_flags_would(write):
    settings = {"lr": 0.01, "tie": False, "clip": None, "bptt": "full", "steps": 20.0, "seconds": 3}
    found = read_recipe(write(task="text", data=["a.txt"], model="lstm", settings=settings))
    assert (found.data, found.model, found.tokenizer) == (("a.txt",), "lstm", None)
    run = configure(found)
    flags = {"lr": "0.01", "tie": "false", "clip": "none", "bptt": "full", "steps": "20", "seconds": "3"}
    assert run == runs.configure(tasks.find("text"), flags, model="lstm", data=("a.txt",))
    assert (run.train.lr, run.train.clip, run.task.bptt, run.model["tie"]) == (0.01, None, "full", False)
    assert (type(run.train.steps), type(run.train.seconds)) == (int, float)


def test_lists_are_tuples(write):
    found = read_recipe(write(task="translation", settings={"columns": [2, 1], "valid": ["a, b.tsv"]}))
    assert (configure(found).data.columns, configure(found).data.valid) == ((2, 1), ("a, b.tsv",))


@pytest.mark.parametrize(("params", "text"), [("70k", "70k"), (70_000, "70000"), (7e4, "70000")])
def test_a_size_is_a_number_or_a_short_one(write, validator, params, text):
    assert read_recipe(write(task="text", params=params)).params == text
    assert validator.is_valid({"task": "text", "params": params})


def test_a_recipe_may_name_its_schema(write, validator):
    assert read_recipe(write(task="text", **{"$schema": "../schema.json"})).task == "text"
    assert validator.is_valid({"task": "text", "$schema": "../schema.json"})


def test_a_recipe_of_another_task_is_refused(write):
    with pytest.raises(SettingError, match="recipe.json: expected a recipe of the task series, found one of text"):
        read_recipe(write(task="text"), "series")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff", b"[]", b"[" * 100_000, b"{}", b'{"task": "text", "settings": {"lr": NaN}}'],
    ids=lambda content: content[:20].decode(errors="replace"),
)
def test_a_file_that_holds_no_recipe_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "recipe.json").write_bytes(content)
    with pytest.raises(SettingError, match="recipe.json: expected") as caught:
        read_recipe(tmp_path / "recipe.json")
    assert "\n" not in str(caught.value)


# What the reader and the schema both refuse

BAD = [
    ({"modle": "lstm"}, "modle: expected a key of a recipe, found another; did you mean 'model'?"),
    ({"task": "txet"}, "task: expected a task out of text, translation"),
    ({"task": 3}, "task: expected a string, found 3"),
    ({"task": "series", "tokenizer": "words"}, "tokenizer: expected no such key in a recipe of series"),
    ({"task": "copy", "data": ["a"]}, "data: expected no such key in a recipe of copy"),
    ({"data": "a.txt"}, 'data: expected a list of strings, found "a.txt"'),
    ({"data": [3]}, "data: expected a list of strings, found [3]"),
    ({"model": 3}, "model: expected a string, found 3"),
    ({"model": None}, "model: expected a string, found null"),
    ({"model": "lstn"}, "found 'lstn'; did you mean 'lstm'?"),
    ({"params": "many"}, 'params: expected a number such as 500000, "10k" or "1M", found "many"'),
    ({"params": 0}, "params: expected a number"),
    ({"params": True}, "params: expected a number"),
    ({"settings": [1]}, "settings: expected an object, found [1]"),
    ({"settings": {"widht": 3}}, "settings.widht: expected a setting of text with lstm, found another; did you mean"),
    ({"settings": {"model": "gru"}}, "settings.model: expected a setting of text with lstm, found another"),
    ({"settings": {"heads": "4"}}, 'settings.heads: expected a whole number, found "4"'),
    ({"settings": {"width": 1.5}}, "settings.width: expected a whole number, found 1.5"),
    ({"settings": {"width": True}}, "settings.width: expected a whole number, found true"),
    ({"settings": {"width": None}}, "settings.width: expected a whole number, found null"),
    ({"settings": {"width": 0}}, "settings.width: expected a whole number of at least 1, found 0"),
    ({"settings": {"warmup": -1}}, "settings.warmup: expected a whole number of at least 0, found -1"),
    ({"settings": {"eval_tokens": 1}}, "settings.eval_tokens: expected a whole number of at least 2, found 1"),
    ({"settings": {"lr": "1e-3"}}, 'settings.lr: expected a number, found "1e-3"'),
    ({"settings": {"clip": False}}, "settings.clip: expected a number or null, found false"),
    ({"settings": {"tie": "no"}}, 'settings.tie: expected true or false, found "no"'),
    ({"settings": {"dropout": 1}}, "settings.dropout: expected a share from 0 to below 1, found 1"),
    ({"settings": {"bptt": "ful"}}, 'settings.bptt: expected one of "full", "truncated", "random", "unbiased"'),
    ({"settings": {"valid": "a.txt"}}, 'settings.valid: expected a list, each part a string, found "a.txt"'),
    (
        {"model": "gru", "settings": {"forget_bias": 1}},
        "expected a setting of gru, found one of lstm, mingru, minlstm; leave it out",
    ),
    ({"model": "ngram", "settings": {"width": 8}}, "settings.width: expected a setting of ngram, found one of ar, mlp"),
    (
        {"task": "translation", "model": "conv", "settings": {"cell": "gru"}},
        "settings.cell: expected a setting of conv, found one of fixed, context, attend; leave it out",
    ),
]


@pytest.mark.parametrize(("changes", "message"), BAD, ids=lambda part: json.dumps(part) if type(part) is dict else "")
def test_a_misspelt_key_or_a_wrong_type_is_refused_by_the_reader_and_by_the_schema(write, validator, changes, message):
    content = {"task": "text"} | ({} if "task" in changes else {"model": "lstm"}) | changes
    path = write(**content)
    with pytest.raises(SettingError) as caught:
        read_recipe(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not validator.is_valid(content)


def test_without_a_model_the_settings_are_those_of_the_usual_one(write, validator):
    for settings, holds in ({"window": 8}, True), ({"forget_bias": 1}, False):
        content = {"task": "text", "settings": settings}
        assert validator.is_valid(content) == holds
        if holds:
            assert read_recipe(write(**content)).settings == settings
        else:
            with pytest.raises(SettingError, match="expected a setting of transformer, found one of lstm"):
                read_recipe(write(**content))


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"lr": -1}, "expected lr above 0"), ({"vary": True}, "vary=True needs windows=sequential"), ({"cut": 2}, "cut")],
)
def test_settings_that_cannot_be_are_refused_when_the_recipe_is_read(write, settings, message):
    with pytest.raises(SettingError, match=f"recipe.json: .*{message}"):
        read_recipe(write(task="text", settings=settings))


# The recipes and the schema in this repository


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_recipe_reads_and_holds_to_the_schema(path, validator):
    recipe = read_recipe(path)
    assert recipe.about
    assert recipe.task == path.parent.name
    configure(recipe)
    validator.validate(json.loads(path.read_text(encoding="utf-8")))


def test_there_are_recipes_of_most_tasks():
    assert {path.parent.name for path in RECIPES} >= set(tasks.names()) - {"parity"}


def test_the_committed_schema_is_up_to_date():
    assert schema.PATH.read_text(encoding="utf-8") == schema.document(), "python -m tools.schema writes it"


@pytest.mark.parametrize("name", tasks.names())
def test_the_schema_has_every_setting_of_every_model(name, validator):
    """The default of each setting holds in the reader's types, so the schema takes it too."""
    task = tasks.find(name)
    for model in task.models:
        values = {own: setting.field.default for own, setting in settings_of(task, model).items()}
        listed = {own: list(value) if isinstance(value, tuple) else value for own, value in values.items()}
        validator.validate({"task": name, "model": model, "settings": listed})


def test_reading_recipes_needs_no_pydantic():
    code = (
        "import sys; sys.modules['pydantic'] = None\n"
        "from recollect.training.recipe import read_recipe\n"
        f"read_recipe({str(RECIPES[0])!r})"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
