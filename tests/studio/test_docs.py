"""The pages say what the studio does: its limits, what was measured, and pictures that are there and small."""

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
from tools import studio_bench

from recollect.serve.limits import Limits as ServeLimits
from recollect.studio.limits import Limits

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "studio.json"


@pytest.mark.parametrize("name", studio_bench.PAGES)
def test_the_table_of_limits_is_that_of_the_settings(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", text, re.MULTILINE))
    known = {each.name for each in fields(ServeLimits)}
    assert {limit: float(value.replace(",", "")) for limit, value in shown.items()} == {
        own.name: own.default for own in fields(Limits) if own.name not in known
    }


@pytest.mark.parametrize(("name", "language"), studio_bench.PAGES.items())
def test_the_figures_are_those_that_were_measured(name, language):
    content = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert studio_bench.table(content, language) in (ROOT / name).read_text(encoding="utf-8")
    assert [row["lanes"] for row in content["keys"]] == [1, 4, 8, 12]
    assert content["pages"]["pages"] >= 20


def test_the_processor_has_time_for_eight_lanes_and_the_memory_does_not_grow():
    """From key to picture within 100 ms on two idle cores: the work of both sides, one after the other."""
    content = json.loads(RESULTS.read_text(encoding="utf-8"))
    (eight,) = (row for row in content["keys"] if row["lanes"] == 8)
    assert eight["server_cpu_ms"] < 100
    assert content["hour"]["keys"] >= 18_000
    assert content["hour"]["growth_mb"] < 0.1 * content["hour"]["memory_mb"][0]


def test_pictures_are_small():
    for path in (ROOT / "docs" / "studio").iterdir():
        assert path.stat().st_size < (1_000_000 if path.suffix == ".gif" else 200_000), path.name
