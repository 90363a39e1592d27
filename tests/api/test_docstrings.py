"""The examples in the docstrings of the public Python API run, and print what they show."""

import doctest
from collections.abc import Iterator
from importlib import import_module

import numpy as np
import pytest

import recollect
from recollect import tasks

MODULES = [
    "recollect",
    "recollect.api.loading",
    "recollect.api.racing",
    "recollect.api.training",
    "recollect.core.trained",
    "recollect.export.layer",
    *sorted({tasks.find_use(name).__module__ for name in tasks.names()} - {"recollect.core.trained"}),
]


def examples(module: str) -> Iterator[doctest.DocTest]:
    """The docstrings of a module that have examples."""
    found = doctest.DocTestFinder(exclude_empty=True).find(import_module(module))
    return (each for each in found if each.examples)


def run(example: doctest.DocTest, folder: str) -> str:
    """What differs; empty where all is as shown."""
    printed: list[str] = []
    example.globs = {"recollect": recollect, "np": np, "folder": folder}
    doctest.DocTestRunner(verbose=False).run(example, out=printed.append)
    return "".join(printed)


@pytest.mark.parametrize("example", [each for name in MODULES for each in examples(name)], ids=lambda each: each.name)
def test_an_example_prints_what_it_shows(example, tmp_path):
    assert run(example, str(tmp_path / "run")) == ""


def test_the_functions_and_the_tasks_with_small_runs_have_examples():
    names = {each.name.rpartition(".")[2] for name in MODULES for each in examples(name)}
    assert names >= {"load", "open_step", "train", "race", "generate", "score", "translate", "forecast"}


def test_an_example_that_shows_what_is_not_so_is_caught(tmp_path):
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    assert "Expected:\n    3\nGot:\n    2\n" in run(wrong, str(tmp_path))
