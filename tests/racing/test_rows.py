"""The files of a race: those that were committed load as they are, and whatever is altered is one line or a page."""

import copy
import json
import os
import shutil
from pathlib import Path

import pytest

from racing.small import raced, recall
from recollect.core.files import FileError
from recollect.racing.rows import read_race, read_rows, read_searches
from recollect.racing.summary import load, summarize
from recollect.report.pages import race as page
from tiny import invoke
from web import made

RESULTS = Path(__file__).resolve().parent.parent.parent / "results"
DROPPED = object()
VALUES = (
    DROPPED, None, [], {}, "x", -5, True, float("nan"), float("inf"), 1e308, 10**400, "h" * 10**5, [[[]]], {"a": [1]},
    [None], ["a"], 0, 5e-324,
)  # fmt: skip


def race_and_rows():
    """A small race with all that a row may hold."""
    heat = made.ladder_heat() | {"name": "recall"}
    heat["terms"] |= {"settings": {"batch": "64"}, "device": "cpu"}
    first, second = (made.row("recall", "rnn", seed, 0.5, rung="rnn") for seed in range(2))
    for row in (first, second):
        row["learning"], row["by_position"] = row["learning"][:2], row["by_position"][:2]
        row["gradient"] = {"distance": [0, 1], "norm": [1.0, 0.5]}
        row |= {"all_at_once": 1.0, "step_by_step": 2.0, "uniform": 3.0, "chance": 0.1, "floor": 0.2, "entries": None}
    first["sample"] = {"prompt": "a", "text": "ab"}
    trial = {"rate": 0.1, "value": 0.2, "way": 0.3, "seconds": 1.0}
    first["search"] = {"lr": 0.1, "tried": [trial], "seconds": 1.0}
    second["sample"] = [{"source": "a", "reference": "b", "output": "b", "right": True}]
    rows = [first, second, made.failed("recall", "gru")]
    return json.loads(json.dumps({"race": made.race(heat), "rows": rows}))  # no object stands in it twice


def places(value, path=()):
    """The path to every value, of lists to the first alone."""
    if len(path) > 1:
        yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value))[: 3 if path == ("rows",) else 1]:
            yield from places(value[key], (*path, key))


def altered(whole, path, value):
    whole = copy.deepcopy(whole)
    at = whole
    for key in path[:-1]:
        at = at[key]
    if value is DROPPED:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return whole


def show(folder, whole):
    """The page and the table of a race, or the line that refuses it."""
    made.save(folder, whole["race"], whole["rows"])
    try:
        page.write(folder)
        for heat in summarize(*load(folder)):
            columns, lines = heat.table()
            assert all(len(line) == len(columns) for line in lines)
            assert heat.heading()
            assert heat.in_words()
    except FileError as error:
        return str(error)
    return None


@pytest.mark.parametrize("folder", sorted(RESULTS.glob("race-*")), ids=lambda folder: folder.name)
def test_committed_races_load_as_they_are(folder):
    race, rows = load(folder)
    assert race == json.loads((folder / "race.json").read_bytes())
    assert rows == [json.loads(line) for line in (folder / "results.jsonl").read_bytes().splitlines()]
    assert len(rows) >= 4


@pytest.mark.slow
def test_every_alteration_is_a_line_that_names_the_file_and_what_to_do_or_a_page(tmp_path):
    whole, lines = race_and_rows(), 0
    assert show(tmp_path, whole) is None
    for path in places(whole):
        for value in VALUES if path[:2] != ("rows", 1) or "sample" in path else ():  # the second is like the first
            line = show(tmp_path, altered(whole, path, value))
            lines += line is not None
            if line is not None:
                file = "race.json: " if path[0] == "race" else f"results.jsonl, line {path[1] + 1}: "
                assert file in line
                assert "expected" in line
                assert "delete that line" in line or "mend that value" in line
                assert len(line) < 700
    assert lines > 500


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("rows", 0, "metric"), DROPPED, "results.jsonl, line 1: .*the key metric"),
        (("rows", 1, "metric", "value"), "0.5", r"results.jsonl, line 2: .*\(metric.value: expected a number"),
        (("rows", 1, "params"), [], r"line 2: .*\(params: expected a whole number or null, found \[\]"),
        (("rows", 1, "params"), -5, r"line 2: .*\(params: expected at least 0, found -5"),
        (("rows", 0, "flops"), 1e308, r"line 1: .*\(flops: expected a number of at most 10\^250, found 1e\+308"),
        pytest.param(
            ("rows", 0, "tokens"), 10**400, r"\(tokens: expected a number or null, found a number of about", id="huge"
        ),
        (("rows", 0, "seconds"), float("nan"), r"line 1: .*\(seconds: expected a number or null, found NaN"),
        (
            ("rows", 0, "gradient", "norm"),
            [1.0],
            r"\(gradient: expected distance and norm of one length, found 2 and 1",
        ),
        (("rows", 0, "learning", 0), [1, 2], r"\(learning\[0\]: expected a list of 4"),
        pytest.param(("rows", 0, "entry"), "x" * 10**6, r"\(entry: expected a name of at most 1,000 char", id="long"),
        (("rows", 0, "unfair"), None, r"\(unfair: expected a list"),
        (("rows", 2, "seed"), "0", r"line 3: .*\(seed: expected a whole number"),
        (("race", "heats"), [], r"race.json: .*\(heats: expected heats with a name of their own"),
        (("race", "heats", 0, "metric", "better"), "more", r"race.json: .*\(heats\[0\].metric.better: expected one of"),
        (("race", "heats", 0, "terms", "steps"), "400", r"\(heats\[0\].terms.steps: expected a whole number"),
        (("race", "heats", 0, "rungs", 0), {}, r"\(heats\[0\].rungs\[0\]: expected the key name"),
        (("race", "heats", 0, "notes"), "no list", r"\(heats\[0\].notes: expected a list"),
    ],
)
def test_an_alteration_is_named_by_file_line_and_key(tmp_path, path, value, words):
    whole = altered(race_and_rows(), path, value)
    made.save(tmp_path, whole["race"], whole["rows"])
    with pytest.raises(FileError, match=words):
        load(tmp_path)


def test_lists_in_lists_without_end_are_a_line(tmp_path):
    whole = race_and_rows()
    made.save(tmp_path, whole["race"], whole["rows"])
    deep = json.dumps(whole["rows"][0])[:-1] + ', "more": ' + "[" * 100 + "]" * 100 + "}"
    (tmp_path / "results.jsonl").write_text(deep)
    with pytest.raises(FileError, match=r"line 1: .*expected at most 50 levels"):
        load(tmp_path)
    (tmp_path / "results.jsonl").write_text("[" * 10**6)
    with pytest.raises(FileError, match=r"line 1: expected a row of a race"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["race.json", "results.jsonl", "search.json"])
def test_files_that_are_no_files_are_refused(tmp_path, name):
    whole = race_and_rows()
    made.save(tmp_path, whole["race"], whole["rows"])
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(FileError, match=f"{name}: expected a regular file, found a device"):
        read_race(tmp_path), read_rows(tmp_path), read_searches(tmp_path)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(FileError, match=f"{name}: expected a regular file, found a FIFO"):
        read_race(tmp_path), read_rows(tmp_path), read_searches(tmp_path)


def test_a_file_of_a_gigabyte_is_refused_unread(tmp_path):
    made.save(tmp_path, race_and_rows()["race"], [])
    with (tmp_path / "results.jsonl").open("wb") as file:
        file.truncate(1 << 30)  # it takes no room on the disk
    found = invoke("report", tmp_path)
    assert "results.jsonl: expected at most 268,435,456 bytes, found more" in str(found.exception)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a race of one entry."""
    folder = tmp_path_factory.mktemp("race")
    raced([recall("rnn")], folder)
    return folder


GOOD = {"recall/rnn": {"lr": 0.1, "share": 1.0, "tried": [{"rate": 0.1, "value": 0.5}], "seconds": 1.0}}


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("recall/rnn", "lr"), None, r"\(recall/rnn.lr: expected a number, found null"),
        (("recall/rnn", "tried", 0, "value"), "x", r"\(recall/rnn.tried\[0\].value: expected a number or null"),
        (("recall/rnn", "tried"), DROPPED, r"\(recall/rnn: expected the key tried"),
        (("recall/rnn", "seconds"), -1, r"\(recall/rnn.seconds: expected at least 0"),
    ],
)
def test_a_search_that_was_altered_is_named(tmp_path, path, value, words):
    (tmp_path / "search.json").write_text(json.dumps(altered(GOOD, path, value)))
    with pytest.raises(FileError, match=rf"search.json: .*{words}.*delete that file"):
        read_searches(tmp_path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("rows", 0, "fair"), None),
        (("rows", 0, "fair", "data"), ["a"]),
        (("rows", 0, "settings", "train"), {}),
        (("rows", 0, "baselines"), [1]),
        (("rows", 0, "unfair"), [["data"]]),
        (("race", "heats", 0, "terms"), None),
    ],
)
def test_going_on_with_an_altered_race_is_one_line_and_changes_nothing(finished, tmp_path, path, value):
    """These ended in tracebacks out of notes and marks."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    files = {name: (tmp_path / name).read_text() for name in ("race.json", "results.jsonl")}
    rows = [json.loads(line) for line in files["results.jsonl"].splitlines()]
    whole = altered({"race": json.loads(files["race.json"]), "rows": rows}, path, value)
    made.save(tmp_path, whole["race"], whole["rows"])
    before = {name: (tmp_path / name).read_bytes() for name in files}
    with pytest.raises(FileError, match=r"race.json: expected|results.jsonl, line 1: expected"):
        raced([recall("rnn", "mlp")], tmp_path)
    assert {name: (tmp_path / name).read_bytes() for name in files} == before


def test_marks_and_figures_that_a_race_does_not_know_do_not_stop_it(finished, tmp_path):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    row = json.loads((tmp_path / "results.jsonl").read_text())
    row |= {"unfair": ["of some later version"], "chance": None, "all_at_once": 1.0, "step_by_step": None}
    row["baselines"]["infinite"] = None
    (tmp_path / "results.jsonl").write_text(json.dumps(row))
    assert len(raced([recall("rnn", "mlp")], tmp_path)) == 2
