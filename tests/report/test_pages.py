"""The pages: what is written is what the rows say, and nothing leaves the file."""

import copy
import itertools
import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from recollect.racing.summary import summarize
from recollect.report.drawing.looks import Keys
from recollect.report.drawing.panel import draw, size
from recollect.report.pages import claims, page, race
from recollect.report.pages.charts import average_bins
from web import made

VOID = {"meta", "link", "br"}


class Outline(HTMLParser):
    """Refuses a page whose elements do not close in order; gathers what the tests ask about."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.headings, self.attributes, self.texts = [], [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        assert len(found) == len(attrs), f"{tag} has an attribute twice"
        self.attributes += attrs
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if tag == "a" else []
        self.headings += [int(tag[1])] if re.fullmatch(r"h\d", tag) else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).replace("\u00a0", " ").split())


def rendered(rows=None, *heats):
    heats = heats or (made.heat(),)
    return Outline(race.render(made.race(*heats), made.recall_rows() if rows is None else rows))


def test_the_page_is_whole_and_asks_nothing_of_any_other_place():
    text = race.render(*made.full())
    found = Outline(text)
    assert len(text.encode()) < 3_000_000
    assert len(set(found.ids)) == len(found.ids)
    assert found.links
    assert all(link[1:] in found.ids and link[0] == "#" for link in found.links)
    assert found.headings[0] == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(found.headings))
    for name, value in found.attributes:
        assert name not in ("src", "srcset", "action")
        assert not name.startswith("on")
        assert name not in ("href", "xlink:href") or value[0] == "#" or value.startswith("data:")
    assert not re.search(r"url\(|@import|https?://", text)


def test_every_run_stands_in_the_page_with_its_number():
    rows = made.recall_rows()
    text = rendered(rows).text
    for row in rows:
        assert f"{row['metric']['value']:.6g}" in text
        assert row["run"] in text
        assert f"{row['params']:,}" in text
    for words in (rows[0]["metric"]["rule"], rows[0]["commit"], "recollect race --seeds 3", "torch 2.13.0"):
        assert words in text


def test_what_a_search_tried_is_written_for_readers():
    rows = made.recall_rows(("rnn", "lstm"))
    tried = [{"rate": 0.001, "value": 0.25, "way": 0.5, "seconds": 1.0}, {"rate": 0.01, "value": None}]
    found = rendered([row | {"search": {"lr": 0.001, "tried": tried, "seconds": 1.0}} for row in rows]).text
    assert "rnn: 0.001 → 0.25, 0.01 → failed; the rate with the lowest value on validation: 0.001" in found
    assert "{'rate'" not in found
    assert "seconds 1.0" not in found


def test_means_and_ranges_are_those_of_the_seeds():
    rows = made.recall_rows()
    text = rendered(rows).text
    for model in made.LINEAGE:
        values = [100 * row["metric"]["value"] for row in rows if row["model"] == model]
        assert f"{sum(values) / 3:.1f} %" in text
        assert f"{min(values):.1f} to {max(values):.1f} %" in text


def test_the_terminal_says_what_the_page_says():
    text = " ".join(Outline(race.render(*made.full())).text.replace("\u00a0", " ").split())
    heats = summarize(*made.full())
    assert len(heats) == 4
    for heat in heats:
        for part in (heat.verdict(), heat.compare_to_baselines()):
            assert " ".join("".join(part).replace("\u00a0", " ").split()) in text
        assert not re.search(r"<|&\w+;|\u00a0", heat.in_words())


def test_the_baselines_are_told_below_the_chart_that_the_first_screen_is_for():
    source = race.render(made.race(made.heat()), made.recall_rows(("rnn", "lstm")))
    assert source.index("<svg") < source.index("The best guess without a network")


def test_a_chart_of_many_models_is_no_taller_than_a_screen_has_room_for():
    lines = [{"name": f"model {i}", "x": [0], "y": [i / 16], "seeds": [i / 16]} for i in range(16)]
    drawn = draw({"title": "", "x": "share", "y": "", "kind": "dots", "lines": lines}, 860.0, Keys())
    assert size(drawn)[1] < 400


def test_models_that_do_no_better_than_a_guess_are_named():
    rows = [made.row("recall", "rnn", 0, 0.05), made.row("recall", "lstm", 0, 0.9)]
    assert "most frequent, gets 7.10 %; rnn does no better than that." in rendered(rows).text


def test_an_error_that_is_a_number_is_a_figure_and_no_failure():
    assert "rnn won" in rendered([row | {"error": 0.1} for row in made.recall_rows(("rnn", "lstm"))]).text.replace(
        "lstm", "rnn"
    )


def test_each_rung_says_what_its_change_bought():
    rows = []
    for rung, values in zip(made.ladder_heat()["rungs"], ((0.2, 0.3), (0.5, 0.4), (0.3, 0.5), (0.1, 0.2)), strict=True):
        rows += [made.row("state", rung["model"], s, v, rung=rung["name"]) for s, v in enumerate(values)]
    text = rendered(rows, made.ladder_heat()).text
    assert "+20.00 points +10.00 to +30.00 points better with every seed" in text
    assert "−5.00 points −20.00 to +10.00 points no difference that seeds agree on" in text
    assert "−25.00 points −30.00 to −20.00 points worse with every seed" in text
    assert "A matrix that is added to." in text
    assert "What a byte of state is worth" in text


def test_equals_share_a_place():
    rows = [made.row("recall", model, 0, v) for model, v in (("rnn", 0.5), ("lstm", 0.5), ("gru", 0.2))]
    text = race.render(made.race(made.heat()), rows)
    assert re.findall(r'<th[^>]*scope="row"[^>]*>(\d)</th>', text) == ["1", "1", "3"]


def test_averaging_over_positions_keeps_the_mean():
    values = [(float(i % 7), 0.0, 1.0) for i in range(1000)]
    found = average_bins(values, 32)
    assert len(found) <= 33
    cuts = [0]
    for middle, *_ in found:
        cuts.append(round(2 * middle - 1 - cuts[-1]))
    sizes = [b - a for a, b in itertools.pairwise(cuts)]
    assert cuts[-1] == 1000
    total = sum(size * mean for size, (_, mean, *_) in zip(sizes, found, strict=True))
    assert total == pytest.approx(sum(value[0] for value in values))


def test_failures_and_unequal_terms_are_said_openly():
    text = rendered(made.full()[1]).text
    assert "expected a finite loss, found nan at step 12; lower --set lr=… <0.003>" in text
    assert "off by more than a quarter" in text
    calm = rendered().text
    assert "No entry failed." in calm
    assert "No entry was marked as unequal." in calm


def test_no_text_of_a_row_becomes_a_part_of_the_page():
    source = race.render(*made.full())
    assert "<script>alert" not in source
    assert "<b>" not in source
    text = Outline(source).text
    assert "deux <script>alert(1)" in text
    assert "你好" in text
    assert "return\ufffd\ufffd <&>" in text


def test_what_a_model_was_given_is_shown_once():
    row = made.row("recall", "rnn", 0, 0.5) | {"sample": {"prompt": "Once upon", "text": "Once upon a time"}}
    assert "Once upon a time" in rendered([row]).text
    assert rendered([row]).text.split("What they say")[1].count("Once upon") == 1


def test_an_answer_is_right_by_any_of_its_references():
    one = {"source": "picture 1", "reference": "a red ring", "output": "one red ring"}
    row = made.row("recall", "rnn", 0, 0.5)
    assert "✓" not in rendered([row | {"sample": [one]}]).text
    assert "✓" in rendered([row | {"sample": [one | {"right": True}]}]).text


def test_the_page_of_one_heat_has_one_title_and_what_is_long_is_folded():
    heat = made.heat()
    source = race.render(made.race(heat), made.recall_rows(("rnn", "lstm")))
    assert Outline(source).text.count(heat["title"]) == 2, "in the window and on the page"
    assert re.findall(r"<h1>(.*?)</h1>", source) == [heat["title"]]
    folded = "".join(re.findall(r"<details>.*?</details>", source, re.S))
    assert "c ← f·c + i·g" in folded
    rows = made.translation_rows(1)
    folded = "".join(re.findall(r"<details>.*?</details>", race.render(made.race(made.translation_heat()), rows), re.S))
    assert "neuf cent deux" in folded


def test_the_main_chart_stands_above_tables_with_an_example_of_the_task():
    source = race.render(made.race(made.translation_heat()), made.translation_rows())
    assert source.index("nine hundred and twelve") < source.index("<svg") < source.index("<table")
    assert "k9" in rendered(made.recall_rows(("rnn",))).text.split("Share recalled by model")[0]


def test_the_order_is_said_to_hold_for_its_terms_and_why_a_transformer_may_stand_behind():
    text = rendered(made.translation_rows(), made.translation_heat()).text
    assert "This order is that of about 30 k parameters and 400 steps of training" in text.replace("\u00a0", " ")
    assert "A Transformer has to learn" not in text, "it stands first"
    rows = made.translation_rows()
    for row in rows:
        row["metric"] = row["metric"] | {"value": 90.0} if row["model"] == "attend" else row["metric"]
    text = rendered([row for row in rows if row["model"] in ("attend", "transformer")], made.translation_heat()).text
    assert "attend has the order in its recurrence" in text


def test_curves_side_by_side_have_one_legend():
    source = race.render(made.race(made.heat()), made.recall_rows(("rnn", "lstm")))
    assert source.count('class="legend"') == 2, "of the two pairs"
    pair = source[source.index('<div class="pair">') : source.index('<div class="legend">')]
    assert ">rnn</text>" not in pair


def test_sizes_are_not_called_equal_where_they_differ():
    heat = made.heat()
    assert "size: about as many parameters" in rendered(None, heat).text
    text = rendered(None, heat | {"terms": heat["terms"] | {"params": None}}).text
    assert "about as many parameters" not in text
    assert "training ends after the same number for all" in text


def test_a_word_is_explained_where_it_first_stands_and_only_there():
    text = rendered(made.full()[1], *made.full()[0]["heats"]).text
    for words in (
        "is the number that all chance",
        "are the numbers that learning adjusts",
        "is one unit of a sequence",
    ):
        assert text.count(words) == 1


def test_a_section_that_is_left_out_explains_no_word():
    """Else the next heat, which has that section, would use the word unexplained."""
    rows = [row | {"by_position": None} for row in made.recall_rows(("rnn", "lstm"))] + made.translation_rows(1)
    text = rendered(rows, made.heat(), made.translation_heat()).text
    assert text.count("Where in the context they err") == 1
    assert text.count("is what the model has read so far") == 1


def test_the_card_of_each_model_is_shown_once():
    found = rendered()
    assert [name for name in found.ids if name.startswith("card-")] == [f"card-{model}" for model in made.LINEAGE]
    assert found.text.count("c ← f·c + i·g") == len(made.LINEAGE)


KEPT = {"heat", "model", "seed", "metric", "entry"}


@pytest.mark.parametrize("part", sorted(set(made.row("recall", "rnn", 0, 0.5)) - KEPT))
def test_a_missing_part_leaves_the_rest_of_the_page(part):
    for change in ({part: None}, {}):
        rows = copy.deepcopy(made.recall_rows(("rnn", "lstm")) + made.translation_rows(1))
        for row in rows:
            row.pop(part)
            row.update(change)
        text = rendered(rows, made.heat(), made.translation_heat()).text
        assert text.count("won:") == 2


@pytest.mark.parametrize("part", ["title", "question", "terms", "ladder", "rungs", "notes", "metric", "learning"])
def test_a_heat_may_say_less(part):
    heat = made.heat()
    heat.pop(part)
    assert "transformer won" in rendered(None, heat).text


def test_values_that_are_no_numbers_are_failures():
    rows = [made.row("recall", "rnn", 0, float("nan")), made.row("recall", "lstm", 0, 0.5)]
    text = rendered(rows).text
    assert "Only lstm has a result" in text
    assert "rnn (Recall: which value stood beside this key?), seed 0: its share recalled is no number" in text


def test_many_models_and_one_model_and_none():
    many = made.recall_rows([f"model-{i}" for i in range(12)], seeds=2)
    text = rendered(many).text
    assert all(f"model-{i}" in text for i in range(12))
    assert "Only rnn has a result" in rendered(made.recall_rows(("rnn",), seeds=1)).text
    assert "No run has ended yet" in rendered([]).text


def test_the_page_is_written_beside_its_rows_whole_or_not_at_all(tmp_path, monkeypatch):
    folder = made.save(tmp_path / "race", *made.full())
    path = race.write(folder)
    assert path == folder / "report.html"
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        race.write(folder)
    assert path.read_bytes() == before
    assert {one.name for one in folder.iterdir()} == {"race.json", "results.jsonl", "report.html"}


def test_the_same_rows_give_the_same_page():
    assert race.render(*made.full()) == race.render(*made.full())


def test_a_row_that_says_almost_nothing_leaves_the_page_standing():
    assert "No entry finished" in rendered([{"heat": "recall"}]).text


def test_every_claim_is_in_the_summary_and_has_its_section(tmp_path):
    results = made.claims()
    claims.write(results, tmp_path / "claims.html")
    found = Outline((tmp_path / "claims.html").read_text(encoding="utf-8"))
    assert len(set(found.ids)) == len(found.ids)
    assert all(link[1:] in found.ids for link in found.links)
    assert all(b - a <= 1 for a, b in itertools.pairwise(found.headings))
    for result in results:
        assert found.text.count(result["statement"]) == 2
        assert found.text.count(result["summary"]) == 2
        assert page.anchor("claim", result["id"]) in found.ids
        for one in result["charts"]:
            assert one["title"] in found.text
    assert "1 holds; 1 holds within limits; 1 does not hold here; 1 undecided at this size" in found.text
    assert "slope · fixed -0.31" in found.text
    assert "asserted in the tests" in found.text


def test_a_claim_whose_experiment_broke_says_so():
    broken = {
        "id": "path",
        "statement": "",
        "figures": {},
        "charts": [],
        "verdict": "failed",
        "summary": "KeyError: 'x'",
    }
    text = Outline(claims.render([*made.claims(), broken])).text
    assert "1 undecided at this size; 1 failed." in text
    assert text.count("KeyError: 'x'") == 2


def test_claims_survive_json():
    results = json.loads(json.dumps(made.claims()))
    assert claims.render(results) == claims.render(made.claims())


def test_pages_need_neither_torch_nor_matplotlib():
    code = (
        "import sys, recollect.report.pages.race, recollect.report.pages.claims, recollect.report.drawing.chart\n"
        "sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
