"""Every figure in the docs comes from a row in results/."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tools import export_page, results

from recollect import tasks
from recollect.claims import runner
from recollect.core.language import speaking
from web import made

ROOT = Path(__file__).resolve().parent.parent.parent
NEEDED = {
    "schema", "task", "data", "model", "settings", "seed", "metric", "params", "tokens", "flops", "seconds",
    "state_bytes", "commit", "command", "machine",
}  # fmt: skip


def test_the_results_page_is_made_from_the_rows():
    expected = results.page(ROOT / "results")
    assert (ROOT / "docs" / "results.md").read_text(encoding="utf-8") == expected, "run python -m tools.results"


@pytest.mark.parametrize("language", results.LANGUAGES)
def test_the_figures_are_drawn_from_the_rows(language):
    end = ".svg" if language == "en" else f".{language}.svg"
    with speaking(language):
        drawn = dict(results.curves(ROOT / "results"))
    assert len(drawn) == len(results.FIGURES)
    for file, expected in drawn.items():
        assert (ROOT / "docs" / f"{file}{end}").read_text(encoding="utf-8") == expected, "run python -m tools.results"


def test_single_sentences_are_compared_with_one_score():
    buckets = [{"above": 0, "upto": 10, "sentences": 50, "bleu": value} for value in (30.0, 10.0)]
    rows = [
        {"model": "attend", "settings": {"model": {"score": score}}, "translated": {"by_length": [bucket]}}
        for score, bucket in zip(("additive", "dot"), buckets, strict=True)
    ]
    assert [line["y"] for line in results.lengths.sentences(rows)["lines"]] == [[30.0]]


def test_the_figures_of_the_readmes_are_those_of_the_rows():
    found = results.rows(ROOT / "results")
    for name, language in results.READMES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        assert results.published.insert_table(text, found, language) == text, "run python -m tools.results"
        assert len(results.published.table(found, language).splitlines()) > 10


def test_a_curve_of_lengths_has_a_point_for_each_length_with_sentences_enough():
    def row(model, *found):
        buckets = [{"above": 0, "upto": n, "sentences": count, "bleu": value} for n, count, value in found]
        return {"model": model, "translated": {"by_length": buckets}}

    rows = [row("fixed", (10, 50, 20.0), (20, 9, 3.0), (None, 50, 1.0)), row("attend", (10, 50, 30.0))]
    rows.append(row("attend", (10, 50, 34.0), (20, 10, 31.0)))
    fixed, attend = results.lengths.texts(rows)["lines"]
    assert fixed == {"name": "fixed", "x": [10], "y": [20.0]}
    assert attend == {"name": "attend", "x": [10, 20], "y": [32.0, 31.0], "low": [30.0, 31.0], "high": [34.0, 31.0]}


def test_the_page_of_races_and_its_pictures_are_made_from_their_rows():
    kept = ROOT / "results"
    shown = {"races.md": results.races.page(kept), **dict(results.races.pictures(kept))}
    for name, expected in shown.items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == expected, "run python -m tools.results"


def test_the_main_picture_stands_alone(tmp_path):
    folder = made.save(tmp_path / "race", *made.full())
    text = results.races.picture(folder)
    words = "".join(ElementTree.fromstring(text).itertext())
    assert "var(" not in text
    assert "prefers-color-scheme:dark" in text
    assert "Recall: which value stood beside this key?" in words
    assert "99.5" in words
    made.save(tmp_path / "race", made.race(made.heat()), [])
    with pytest.raises(ValueError, match="expected a heat with a finished entry"):
        results.races.picture(folder)


def test_the_page_of_claims_is_made_from_their_rows():
    expected = results.claims_page(ROOT / "results")
    assert (ROOT / "docs" / "claims.md").read_text(encoding="utf-8") == expected, "run python -m tools.results"


def test_the_chinese_pages_and_pictures_are_made_from_the_same_rows():
    for name, expected in results.in_language(ROOT / "results", "zh"):
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == expected, "run python -m tools.results"


def test_the_claims_as_a_page_of_the_docs():
    found = made.claims()
    text = results.claims.document([result | {"device": "cpu"} for result in found])
    table = [line for line in text.splitlines() if line.startswith("| [")]
    assert len(table) == len(found)
    for result, line in zip(found, table, strict=True):
        assert f"[`{result['id']}`](#{result['id']})" in line
        assert line.endswith(f"| {result['verdict']} |")
        assert f"## {result['id']}\n" in text
        assert f"- Found: {' '.join(result['summary'].split())}" in text


def test_every_claim_has_a_verdict_that_was_measured():
    from recollect import claims

    rows = {row["id"]: row for row in results.claims.read_rows(ROOT / "results", "quick")}
    assert sorted(rows) == sorted(claims.names())
    for row in rows.values():
        assert row["verdict"] != "failed"
        assert row["commit"]


@pytest.mark.parametrize("effort", results.claims.FILES)
def test_no_row_of_a_claim_is_older_than_what_decides_it(effort):
    found = results.claims.read_rows(ROOT / "results", effort)
    stale = [row["id"] for row in found if results.claims.is_stale(row)]
    assert stale == [], "run them again, then python -m tools.claims FOLDER"
    for row in found:
        assert row == results.claims.reword(row), f"{row['id']}: run python -m tools.claims"


def test_rows_of_both_forms_are_taken_in_and_shown_beside_each_other(tmp_path):
    from recollect import claims

    claim = claims.load("heads-params")
    common = {"schema": 1, "id": "heads-params", "summary": "as counted", "figures": {}, "charts": [], "seconds": 1.0}
    for effort, verdict in (("quick", "holds"), ("full", "does not hold here")):
        (tmp_path / effort).mkdir()
        row = runner.words(claim) | common | {"effort": effort, "device": "cpu", "verdict": verdict}
        row["code"] = claims.code_of("heads-params", effort == "full")
        (tmp_path / effort / "claims.jsonl").write_text(json.dumps(row | {"note": "an older note"}) + "\n")
    assert results.claims.merge(tmp_path, [tmp_path / "quick", tmp_path / "full"]) == []
    quick, full = (results.claims.read_rows(tmp_path, effort) for effort in results.claims.FILES)
    assert quick[0]["note"] == claim.note
    text = results.claims.document(quick, full)
    line = next(line for line in text.splitlines() if line.startswith("| [`heads-params`]"))
    assert line.endswith("| holds | does not hold here |")
    assert "- Full form: Does not hold here. as counted" in text


def test_a_stale_row_is_named_and_keeps_its_words(tmp_path):
    from recollect import claims

    row = runner.words(claims.load("heads-params")) | {"id": "heads-params", "summary": "", "verdict": "holds"}
    row |= {"figures": {}, "charts": [], "seconds": 1.0, "effort": "quick", "code": "0", "decided": "by looking"}
    (tmp_path / "claims.jsonl").write_text(json.dumps(row) + "\n")
    assert results.claims.merge(tmp_path, [tmp_path]) == ["quick heads-params: run it again"]
    assert results.claims.read_rows(tmp_path, "quick")[0]["decided"] == "by looking"


def test_every_row_says_where_it_comes_from():
    for path in (ROOT / "results").glob("*.jsonl"):
        for line in path.read_text(encoding="utf-8").split("\n"):
            if not line:
                continue
            row = json.loads(line)
            assert set(row) >= NEEDED, path.name
            assert row["metric"]["rule"]
            assert not any(part.startswith("/") for part in row["command"].split()), "a path of some machine"


def test_the_tables_of_the_page_on_export_are_made_from_their_rows():
    page = (ROOT / "docs" / "export.md").read_text("utf-8")
    content = json.loads((ROOT / "results" / "export.json").read_text("utf-8"))
    assert export_page.fill(page, content["rows"]) == page
    assert {row["task"] for row in content["rows"]} == set(tasks.names())
    assert all(row["precisions"]["float32"]["largest_error"] <= 1e-5 for row in content["rows"])
