"""Nothing that stands in a race's folder or in a row of claims becomes a part of a page, whoever wrote it."""

import copy
import re
from html.parser import HTMLParser

import pytest

from recollect.report.drawing import chart as charts
from recollect.report.pages import claims, race
from web import made

PLANTS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onload='alert(1)",
    "</title></script></style><b>",
    "javascript:alert(1)",
    "`<b>` --> ]]>",
)


class Elements(HTMLParser):
    """The elements of a page with the names of their attributes, and where its links go."""

    def __init__(self, text):
        super().__init__()
        self.found, self.links, self.texts = set(), [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.add((tag, *sorted(name for name, _ in attrs)))
        self.links += [value for name, value in attrs if name in ("href", "src", "xlink:href", "action")]

    def handle_data(self, data):
        self.texts.append(data)


def planted(content, text):
    """The same with `text` in place of every string and behind every key that is free; numbers stay."""
    if isinstance(content, dict):
        return {name: planted(value, text) for name, value in content.items()}
    if isinstance(content, list):
        return [planted(value, text) for value in content]
    return text if isinstance(content, str) else content


def planted_race(text):
    """Every text of a race but the names by which rows find their heat, and what must be a word of a list."""
    asked, rows = made.race(made.heat(), made.ladder_heat(), made.translation_heat(), made.text_heat()), []
    for some in (made.recall_rows(("rnn", "lstm"), 2), made.ladder_rows(2), made.translation_rows(2), made.text_rows()):
        rows += some
    rows.append(made.failed("recall", "tcn"))
    rows[0] |= {
        "unfair": ["size"],
        "search": {"lr": 0.1, "tried": [{"rate": 0.1, "value": None, "error": "no"}], "seconds": 1.0},
    }
    result = planted(asked, text), [planted(row, text) for row in rows]
    for heat, old in zip(result[0]["heats"], asked["heats"], strict=True):
        heat["name"] = f"{old['name']} {text}"
        heat["metric"]["better"] = heat["learning"]["better"] = old["metric"]["better"]
        heat["learning"]["name"] = heat["metric"]["name"]
        heat["terms"] |= {"settings": {text: text}, "data": {text: [text]}, text: text}
        for number, rung in enumerate(heat["rungs"] or []):
            rung["name"] = f"{number} {text}"
    for number, (row, old) in enumerate(zip(result[1], rows, strict=True)):
        row["heat"] = f"{old['heat']} {text}"
        row["entry"] = row["model"] = f"{old['model']} {number % 3} {text}"
        row["rung"] = f"{number // 2} {text}" if old["rung"] else None
        row["baselines"] = {text: 0.5}
        if "machine" in row:
            row["machine"] = {text: text, "cores": text}
    return result


@pytest.fixture(scope="module")
def clean():
    """What a page of the same rows is made of without anything planted."""
    return Elements(race.render(*planted_race("plain"))).found


@pytest.mark.parametrize("text", PLANTS)
def test_no_text_of_a_race_becomes_an_element_or_an_attribute(clean, text):
    source = race.render(*planted_race(text))
    found = Elements(source)
    assert found.found <= clean | {("code",)}  # words between ` are code
    assert all(link.startswith(("#", "data:")) for link in found.links)
    assert not re.search(r"<b>|<img|<script>a", source)
    assert text.replace("`", "") in " ".join(found.texts).replace("`", "")


@pytest.mark.parametrize("text", PLANTS)
@pytest.mark.parametrize(
    "path",
    [("metric", "unit"), ("metric", "label"), ("learning", "unit"), ("terms", "equal"), ("title",)],
    ids=".".join,
)
def test_each_text_of_a_heat_is_escaped(text, path):
    """`metric.unit` and `terms.equal` once were not."""
    heat = copy.deepcopy(made.heat())
    at = heat
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = text
    plain = Elements(
        race.render(made.race(made.heat(metric=made.translation_heat()["metric"])), made.recall_rows(("rnn",), 1))
    )
    found = Elements(race.render(made.race(heat), made.recall_rows(("rnn",), 1)))
    assert {name for name, *_ in found.found} <= {name for name, *_ in plain.found} | {"line", "code"}
    assert not any(part.startswith("on") for element in found.found for part in element[1:])


@pytest.mark.parametrize("text", PLANTS)
def test_no_text_of_a_claim_becomes_an_element_or_an_attribute(text):
    rows = [planted(row, text) | {"figures": {text: [text, {text: 1.0}]}} for row in made.claims()]
    for row, old in zip(rows, made.claims(), strict=True):
        for chart, given in zip(row["charts"], old["charts"], strict=True):
            chart |= {"kind": given["kind"]} if "kind" in given else {}
    plain = Elements(claims.render([planted(row, "plain") | {"charts": row["charts"]} for row in made.claims()]))
    source = claims.render(rows)
    assert Elements(source).found <= plain.found | {("code",)}
    assert not re.search(r"<b>|<img|<script>a", source)


@pytest.mark.parametrize("text", PLANTS)
def test_a_picture_that_stands_alone_holds_texts_as_texts(text):
    from xml.etree import ElementTree

    for claim in made.claims():
        for chart in claim["charts"]:
            hostile = planted(chart, text) | ({"kind": chart["kind"]} if "kind" in chart else {})
            tree = ElementTree.fromstring(charts.standalone(hostile))
            assert not {"script", "img", "b"} & {element.tag.rpartition("}")[2] for element in tree.iter()}


def test_numbers_where_texts_are_expected_are_shown_as_such():
    asked, rows = planted_race("plain")
    asked["title"], asked["command"] = 5, None
    rows[0] |= {"commit": 5, "run": 7, "split": 3}
    assert "<h1>5</h1>" in race.render(asked, rows)


def test_the_policy_lets_the_pages_own_script_and_style_run_and_nothing_else():
    from base64 import b64encode
    from hashlib import sha256

    source = race.render(made.race(made.heat()), [])
    (policy,) = re.findall(r'Security-Policy" content="([^"]*)"', source)
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none';")
    for part in ("script", "style"):
        (content,) = re.findall(rf"<{part}>(.*?)</{part}>", source, flags=re.DOTALL)
        assert f"{part}-src 'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'" in policy
    assert " style=" not in race.render(*planted_race("plain"))
