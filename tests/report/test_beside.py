"""Commands of two trees in turn: what is timed is what the tree says, and the committed rows are whole."""

import json
from pathlib import Path
from statistics import median

import pytest
from tools import beside

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tree(tmp_path):
    """A package that prints at once and ends a little later, or prints nothing."""

    def make(name: str, body: str) -> Path:
        package = tmp_path / name / "recollect" / "cli"
        package.mkdir(parents=True)
        (package.parent / "__init__.py").touch()
        (package / "__init__.py").write_text(f"import sys, time\n\ndef main():\n    {body}\n")
        return tmp_path / name

    return make


def test_a_command_is_timed_to_its_first_character_though_it_goes_on(tree):
    endless = tree("endless", "print('a', flush=True); time.sleep(10**6)")
    assert beside.run(beside.Case("x", ()), endless) > 0  # to its end it would never be there


def test_each_tree_runs_its_own_code_and_gets_the_lines(tree, tmp_path):
    body = "open({!r}, 'a').write(__file__.split('/')[-4] + sys.stdin.read() + ' '); print('a')".format(
        str(tmp_path / "calls")
    )
    trees = {name: tree(name, body) for name in ("before", "after")}
    row = beside.compare(beside.Case("x", (), given="!", whole=True), trees, rounds=2)
    assert (tmp_path / "calls").read_text() == "before! after! " * 3  # one round more, which is not timed
    assert (row["row"], len(row["before"]), len(row["after"])) == ("x", 2, 2)


@pytest.mark.parametrize("body", ["pass", "print('a'); sys.exit(1)", "raise ValueError('broken')"])
def test_a_command_that_fails_is_not_timed(tree, body):
    with pytest.raises(RuntimeError, match="expected an answer"):
        beside.run(beside.Case("x", (), whole=True), tree("bad", body))


def test_the_committed_rows_are_of_these_cases_and_their_ratios_of_their_seconds():
    content = json.loads((ROOT / "results" / "start.json").read_text(encoding="utf-8"))
    assert {"command", "commits", "machine"} <= content.keys()
    assert [row["row"] for row in content["rows"]] == [case.row for case in beside.cases()]
    for row in content["rows"]:
        before, after = median(row["before"]), median(row["after"])
        assert row["medians"] == {"before": before, "after": after}
        assert row["after / before"] == round(after / before, 3)
