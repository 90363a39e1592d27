"""The pages say what the server does: its limits, its routes, and what was measured."""

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
from tools import serving

from recollect.serve.limits import Limits
from recollect.serve.task_routes import CALLS

ROOT = Path(__file__).parents[2]


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", serving.PAGES)
def test_the_table_of_limits_is_that_of_the_settings(name):
    shown = dict(re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", page(name), re.MULTILINE))
    assert {limit: float(value.replace(",", "")) for limit, value in shown.items()} == {
        own.name: own.default for own in fields(Limits)
    }


@pytest.mark.parametrize("name", serving.PAGES)
def test_every_route_is_named(service, name):
    text = page(name)
    paths = {route.path for route in service.routes()} - {"/"}
    named = {path.replace("{id}", "ID").replace("{model}", "NAME") for path in paths}
    found = set(re.findall(r"(/(?:v1|health)[\w/]*)", text))
    short = {f"/v1/models/NAME/{call}" for call in CALLS if f"`{call}`" in text}  # beside another one
    assert named <= found | short
    assert found - {"/v1"} <= named  # the address that clients begin with


@pytest.mark.parametrize(("name", "language"), serving.PAGES.items())
def test_the_figures_are_those_that_were_measured(name, language):
    content = json.loads(page("results/serve.json"))
    assert serving.table(content, language) in page(name)
    assert content["sessions"] == 32
    assert len(content["rows"][0]["seconds"]) >= 3


def test_a_table_takes_the_place_of_an_older_one():
    content = {"rows": [{"way": way, "tokens/s": 1234.5, "ratio": 2.25} for way in serving.WAYS]}
    before = "a\n<!-- serving -->\nold\n<!-- end -->\nb\n"
    after = serving.place_table(before, serving.table(content, "en"))
    assert "old" not in after
    assert "| at once | 1,234 | 2.2 |" in after
    assert serving.place_table(after, serving.table(content, "en")) == after
