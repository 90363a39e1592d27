"""Runs, races, starts, the lineage and the course in a real browser."""

import json
import shutil

import pytest

from recollect.core.files import locked

from .folders import add_rows, make_run

pytestmark = [pytest.mark.deep, pytest.mark.timeout(400)]
VIEWS = ("runs", "races", "start", "lineage", "course")
MARKUP = "<img src=x onerror=alert(1)>"


def race_files(folder, ended=1):
    """A race of two entries, some of which have ended."""
    heat = {
        "name": "recall", "task": "recall", "title": f"Recall {MARKUP}", "question": "Who was with whom?",
        "metric": {"name": "accuracy", "better": "higher", "unit": "share"}, "terms": {"equal": "params", "steps": 200},
        "entries": [{"entry": name, "seed": 0, "run": f"runs/recall-{name}-0"} for name in ("gru", "lstm")],
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    about = {"schema": 1, "title": f"A race {MARKUP}", "command": "recollect race recall", "heats": [heat]}
    (folder / "race.json").write_text(json.dumps(about))
    rows = [
        {
            "heat": "recall", "entry": name, "model": name, "seed": 0, "metric": {"value": 0.5}, "params": 1000,
            "tokens": 1000, "flops": 1e6, "seconds": 1.0, "state_bytes": 64, "fair": {}, "unfair": [], "baselines": {},
            "settings": {"train": {"lr": 0.001}}, "data": "recall",
        }
        for name in ("gru", "lstm")[:ended]
    ]  # fmt: skip
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs of two kinds, one of them with markup in its name, and a race that runs."""
    place = tmp_path_factory.mktemp("studio") / "runs"
    make_run(place / "text-lstm-0", model="lstm", rows=60, valid=1.5)
    make_run(place / "text-gru-0", model="gru", rows=60, valid=1.4, lr=3e-3)
    make_run(place / f"text-{MARKUP.replace('/', '')}", model="rnn", rows=30, finished=False)
    race_files(place / "race")
    make_run(place / "race" / "runs" / "recall-lstm-0", rows=5, finished=False)
    return place


@pytest.fixture(scope="module")
def studio(start_studio, folder):
    return start_studio(runs=[], folder=folder)


def wait(page, script, arg=None):
    page.wait_for_function(script, arg=arg, timeout=60_000)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("dark", "lang"), [(False, "en"), (True, "zh")])
def test_every_view_fits_and_names_what_it_holds(studio, open_studio, view, width, dark, lang):
    found = open_studio(studio, f"#{view}", width=width, dark=dark, lang=lang)
    page = found.page
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("main button, main input, main select, main a, main [role=button]")]
            .filter((each) => !(each.getAttribute("aria-label") || each.textContent.trim() || (each.labels || []).length
                || each.getAttribute("placeholder") || each.title)).map((each) => each.outerHTML)"""
    )
    assert unnamed == []
    assert page.locator("main script, main [onerror], main iframe").count() == 0
    assert page.locator("h1").count() == 1
    if lang == "zh":
        assert page.evaluate("/[\\u4e00-\\u9fff]/.test(document.querySelector('h1').textContent)")
    found.check()


def test_curves_grow_while_a_run_learns(studio, open_studio, folder):
    run = make_run(folder / "text-live-0", model="transformer", rows=12, finished=False)
    found = open_studio(studio, "#runs?runs=runs%2Ftext-live-0%7Cruns%2Ftext-lstm-0&y=loss&x=step")
    page = found.page
    line = "document.querySelector('polyline[data-run=\"runs/text-live-0\"]')"
    wait(page, f"() => {line} && {line}.getAttribute('points').split(' ').length === 12")
    with locked(run, wait=False):
        add_rows(run, range(13, 21))
        wait(page, f"() => {line}.getAttribute('points').split(' ').length === 20")
        wait(page, "() => [...document.querySelectorAll('.state.running')].length === 1")
    wait(page, "() => document.querySelectorAll('.state.running').length === 0")
    shutil.rmtree(run)
    wait(page, f"() => !{line}")
    found.check()


def test_runs_are_filtered_chosen_and_compared_and_the_link_brings_them_back(studio, open_studio):
    found = open_studio(studio, "#runs?runs=runs%2Ftext-lstm-0")
    page = found.page
    page.fill("#runs-filter", "gru text")
    wait(page, "() => document.querySelectorAll('table.runs tbody tr').length === 1")
    page.locator("table.runs tbody tr").first.click()
    wait(page, "() => document.querySelectorAll('polyline[data-run]').length === 2")
    page.select_option("#runs-y", "valid")
    page.select_option("#runs-x", "seconds")
    page.check("#runs-log_x")
    wait(page, "() => document.querySelector('table.settings') !== null")
    rows = page.locator("table.settings tbody tr").all_inner_texts()
    assert [row.split()[0] for row in rows] == ["model.name", "train.lr"]
    link = page.url
    again = open_studio(studio, "#" + link.partition("#")[2]).page
    wait(again, "() => document.querySelectorAll('polyline[data-run]').length === 2")
    assert again.input_value("#runs-filter") == "gru text"
    assert (again.input_value("#runs-y"), again.input_value("#runs-x")) == ("valid", "seconds")
    assert again.is_checked("#runs-log_x")
    found.check()


def test_values_are_read_with_the_keyboard(studio, open_studio):
    found = open_studio(studio, "#runs?runs=runs%2Ftext-lstm-0&y=loss&x=step")
    page = found.page
    wait(page, "() => document.querySelector('polyline[data-run]')")
    page.focus(".curves-chart")
    page.keyboard.press("Home")
    page.keyboard.press("Home")
    wait(page, "() => document.querySelector('#said').textContent.includes('steps 10: 4')")
    page.keyboard.press("End")
    wait(page, "() => document.querySelector('#said').textContent.includes('steps 600: ')")
    said = page.inner_text("#said")
    assert float(said.rpartition(" ")[2]) == pytest.approx(4 / 60**0.5, rel=1e-3)
    found.check()


def test_the_page_of_a_race_fills_while_it_runs(studio, open_studio, folder):
    race = folder / "race"
    race_files(race, ended=1)
    with locked(race, wait=False), locked(race / "runs" / "recall-lstm-0", wait=False):
        found = open_studio(studio, "#races?race=runs%2Frace")
        page = found.page
        wait(page, "() => document.querySelector('.runningnow li')")
        assert "lstm" in page.inner_text(".runningnow")
        assert "1 of 2" in page.inner_text(".racelist")
        wait(page, "() => document.querySelector('.report .heat')")
        assert MARKUP in page.inner_text(".report .racetitle")
        race_files(race, ended=2)
        wait(page, "() => document.querySelector('.racelist').textContent.includes('2 of 2')")
        wait(page, "() => document.querySelector('.report table').textContent.includes('lstm')")
    wait(page, "() => document.querySelector('.state.finished')")
    found.check()


def test_a_training_is_started_watched_stopped_and_resumed(studio, open_studio):
    values = json.dumps(
        {"width": "8", "layers": "1", "batch": "4", "steps": "1000000", "log_every": "5", "eval_every": "50",
         "save_every": "50", "eval_rows": "8"}
    )  # fmt: skip
    found = open_studio(studio, f"#start?task=recall&model=gru&out=mine&set={values}")
    page = found.page
    wait(page, "() => document.querySelector('pre.command').textContent.includes('--width 8')")
    page.fill("#start-lr", "abc")
    wait(page, "() => document.querySelector('#start-lr').getAttribute('aria-invalid') === 'true'")
    assert "expected a number" in page.inner_text("#start-lr-problem")
    assert page.is_disabled("#start-button")
    page.fill("#start-lr", "0.01")
    page.fill("#start-more", "dropot=0.1")
    wait(page, "() => document.querySelector('#start-more-problem').textContent.includes(\"did you mean 'dropout'?\")")
    page.fill("#start-more", "")
    wait(page, "() => !document.querySelector('#start-button').disabled")
    page.click("#start-button")
    wait(page, "() => document.querySelector('.job .state.running')")
    page.click(".job a")
    wait(page, "() => document.querySelector('polyline[data-run=\"runs/mine\"]')")
    line = "document.querySelector('polyline[data-run=\"runs/mine\"]').getAttribute('points').split(' ').length"
    before = page.evaluate(line)
    wait(page, f"(before) => {line} > before + 3", before)
    page.goto(f"{studio.url}/#start")
    wait(page, "() => document.querySelector('.job .state.running')")
    page.click(".job button:not(.quiet)")
    wait(page, "() => document.querySelector('.job .state.stopped')")
    assert "saved; go on with --resume" in page.inner_text(".jobline")
    page.click(".job button:not(.quiet)")  # resume
    wait(page, "() => document.querySelectorAll('.job .state.running').length === 1")
    page.locator(".job button.quiet").first.click()
    wait(
        page,
        "() => (document.querySelector('pre.output') || {textContent: ''}).textContent.includes('--resume')",
    )
    page.locator(".job button:not(.quiet)").first.click()
    wait(page, "() => document.querySelectorAll('.job .state.stopped').length === 2")
    found.check()


def test_a_race_is_set_up_and_its_command_shown(studio, open_studio):
    found = open_studio(studio, "#start?form=race&task=parity&models=gru,rnn")
    page = found.page
    wait(page, "() => document.querySelector('pre.command').textContent.includes('race parity --models')")
    page.fill("#start-budget", "20")
    page.fill("#start-seeds", "1")
    wait(page, "() => document.querySelector('pre.command').textContent.includes('--seeds 1')")
    words = page.inner_text("pre.command")
    assert "--models rnn,gru --budget 20 --seeds 1 --out" in words
    page.fill("#start-jobs", "0")
    wait(page, "() => document.querySelector('#start-jobs').getAttribute('aria-invalid') === 'true'")
    again = open_studio(studio, "#" + page.url.partition("#")[2]).page
    wait(again, "() => document.querySelector('pre.command').textContent.includes('--budget 20')")
    found.check()


def test_the_lineage_is_walked_with_the_keyboard(studio, open_studio, width):
    found = open_studio(studio, "#lineage?layer=rnn", width=width)
    page = found.page
    page.focus('.idea[data-name="rnn"]')
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight" if width > 700 else "ArrowDown")
    wait(
        page,
        "() => ['lstm', 'conv'].some((name) => document.querySelector('article.idea h2').textContent.startsWith(name))",
    )
    page.locator('.idea[data-name="delta"]').dispatch_event("click")
    wait(page, "() => document.querySelector('article.idea h2').textContent.startsWith('delta')")
    assert "layer=delta" in page.url
    assert "UPDATE" in page.inner_text("article.idea dl")
    assert page.locator(".claims li").count() == 2
    page.click("details.layerpage summary")
    wait(page, "() => location.hash.includes('page=1')")
    assert page.locator("details.layerpage .prose").count() > 1
    found.check()


def test_a_chapter_runs_its_code_and_remembers_the_reader(studio, open_studio, monkeypatch, tmp_path):
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path))
    found = open_studio(studio, "#course?chapter=4")
    page = found.page
    assert page.locator("img.figure").count() >= 3
    code = page.locator('section[data-key="code"] .runnable').first
    code.locator("button.main").click()
    wait(page, "() => document.querySelector('section[data-key=code] .state.finished')")
    assert "UPDATE and READ: True True" in code.locator("pre.printed").inner_text()
    page.locator(".chapterend button.main").click()
    wait(page, "() => document.querySelector('.chapters .holds')")
    kept = json.loads((tmp_path / "course.json").read_text())
    assert kept["finished"] == ["gates"]
    page.goto(f"{studio.url}/#course?chapter=8")
    wait(page, "() => document.querySelector('math')")
    found.check()
