"""The views of tasks in a real browser: what is pointed at, dropped in, slid and moved, by pointer and by keys."""

import io
import re
import wave

import numpy as np
import pytest

import recollect
from export import made
from tasks import cases

pytestmark = [pytest.mark.deep, pytest.mark.timeout(240)]
READY = {
    "sentences": ".bridge",
    "pictures": ".caption .token",
    "series": ".facts strong",
    "labels": ".reasons",
    "ratings": ".score strong",
}
VIEWS = tuple(READY)
ROUTES = {  # what a view asks → the words of its link
    "sentences": "#sentences?text=ninety-nine&nbest=1",
    "pictures": "#pictures?number=7&word=3",
    "series": "#series?origin=270&near=0",
    "labels": "#labels?text=this+book+is+hardly+boring&rule=path&label=negative",
    "ratings": "#ratings?user=user7&item=item3&u=0.500%2C0.250",
}
CONTRAST = """() => {  // texts of the view that stand out less than 4.5 : 1 from what is behind them
  const pen = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
  const over = (colours) => {  // colours on top of each other, the lowest first
    pen.clearRect(0, 0, 1, 1);
    for (const colour of colours) { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); }
    const linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3).map(v => linear(v / 255));
  };
  const light = ([r, g, b]) => .2126 * r + .7152 * g + .0722 * b;
  const low = [];
  for (const each of document.querySelectorAll('main *')) {
    if (each.closest('svg, canvas, [disabled], option')) continue;
    if (![...each.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
    if (!each.getClientRects().length) continue;
    const behind = [];
    for (let at = each; at; at = at.parentElement) behind.unshift(getComputedStyle(at).backgroundColor);
    const [back, front] = [light(over(behind)), light(over([...behind, getComputedStyle(each).color]))];
    const ratio = (Math.max(back, front) + .05) / (Math.min(back, front) + .05);
    if (ratio < 4.5) low.push(`${each.textContent.trim().slice(0, 30)} ${ratio.toFixed(2)}`);
  }
  return low;
}"""
NAMELESS = """() => {  // what can be worked or looked at and has no name
  const all = 'input, select, button, [role=slider], [role=img], canvas'.split(', ').map(each => `main ${each}`);
  return [...document.querySelectorAll(all)].filter(each => each.getClientRects().length && each.type !== 'file')
    .filter(each => !each.getAttribute('aria-label') && !each.textContent.trim())
    .filter(each => !each.closest('label') && !each.closest('[aria-hidden]')).map(each => each.outerHTML.slice(0, 120));
}"""


def until(page, expression):
    """Wait for what a page says; the policy of the page forbids playwright's own way, which is `eval`."""
    for _ in range(300):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"never: {expression}")


def ready(found, view):
    found.page.wait_for_selector(READY[view])
    until(found.page, "!document.querySelector('main [aria-busy=true]')")
    return found.page


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    ("dark", "lang", "width"), [(False, "en", 1280), (True, "zh", 390)], ids=("light", "dark-zh-phone")
)
def test_a_view_is_readable_and_named(running, open_studio, view, dark, lang, width):
    found = open_studio(running, f"#{view}", dark=dark, lang=lang, width=width)
    page = ready(found, view)
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(NAMELESS) == []
    assert page.locator("h1").count() == 1
    lead = page.locator(".lead").inner_text()
    assert bool(re.search("[\u4e00-\u9fff]", lead)) == (lang == "zh")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    found.check()


@pytest.mark.parametrize("view", VIEWS)
def test_a_link_reopens_what_was_seen(running, open_studio, view):
    first = open_studio(running, ROUTES[view])
    page = ready(first, view)
    page.wait_for_timeout(300)
    link = page.evaluate("location.hash")
    again = ready(open_studio(running, link), view)
    again.wait_for_timeout(300)
    assert again.evaluate("location.hash") == link
    seen = f"document.querySelector('{READY[view]}').textContent"
    assert again.evaluate(seen) == page.evaluate(seen)
    first.check()


def test_a_word_lights_its_sources_and_back(running, open_studio):
    found = open_studio(running, "#sentences?text=two+hundred+and+twenty-one")
    page = ready(found, "sentences")
    model = recollect.load("demo-translation", engine="torch")
    _, (trace,) = model.trace("two hundred and twenty-one")
    assert [each.inner_text() for each in page.locator(".target .token").all()] == [
        "deux",
        "cent",
        "vingt",
        "et",
        "un",
        "⏎",
    ]
    page.locator(".target .token").nth(1).hover()
    page.wait_for_selector(".source .token.lit")
    shown = [
        float(each.evaluate("e => e.style.getPropertyValue('--w')")) for each in page.locator(".source .token").all()
    ]
    wanted = trace.maps["mean"][1]
    words = np.array(trace.source_words)
    np.testing.assert_allclose(shown[:4], [wanted[words == word].sum() for word in range(4)], atol=0.002)
    assert "hundred" in page.locator("#tip").inner_text()
    page.locator(".source .token").nth(3).focus()
    assert page.locator(".target .token.lit").count() == 6
    page.keyboard.press("ArrowUp")
    assert page.locator(".target .token.chosen").inner_text() in ("vingt", "et", "un")
    page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="influence").click()
    page.wait_for_selector('.bridge[data-map="influence"]')
    found.check()


def test_translators_stand_side_by_side_and_the_second_best_is_shown(running, open_studio):
    found = open_studio(running, "#sentences?runs=demo-translation,demo-translation-zh&text=ninety-nine")
    page = ready(found, "sentences")
    until(page, "document.querySelectorAll('.bridge').length === 2")
    card = page.locator('section[aria-label="demo-translation"]')
    card.locator(".best button").nth(1).click()
    written = card.locator(".best button").nth(1).inner_text()
    assert "".join(written.split()) == "".join(card.locator(".target .token").all_inner_texts()[:-1]).replace(" ", "")
    page.get_by_label("Sentence", exact=True).fill("six")
    until(page, "[...document.querySelectorAll('.target .token')].some(e => e.textContent === 'six')")
    found.check()


@pytest.fixture(scope="module")
def own_runs(tmp_path_factory):
    """A folder with a translator without attention and a Transformer."""
    place = tmp_path_factory.mktemp("own")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_CACHE", str(place / "cache"))
        cases.write_data(place)
        (place / "runs").mkdir()
        for name, more in (("fixed", {}), ("transformer", {"layers": 2, "heads": 2, "width": 16})):
            made.make(place / name, place, "translation", name, **more).path.rename(place / "runs" / f"own-{name}")
    return place / "runs"


def test_own_runs_translate_by_layer_and_head_or_by_influence(start_studio, open_studio, own_runs):
    studio = start_studio(runs=[], folder=own_runs)
    found = open_studio(studio, "#sentences?runs=own-transformer&text=a+b+c")
    page = ready(found, "sentences")
    assert page.locator(".head").count() == 6
    page.get_by_role("button", name="layer 2, head 1").click()
    page.wait_for_selector('.bridge[data-map="layer 2 head 1"]')
    page.goto(f"{studio.url}/#sentences?runs=own-fixed&text=a+b+c")
    page.wait_for_selector('.bridge[data-map="influence"]')
    assert "has no weights over its words" in page.locator(".translator").inner_text()
    for view, words in (
        ("pictures", "captioner"),
        ("series", "forecaster"),
        ("labels", "classifier"),
        ("ratings", "ratings"),
    ):
        page.goto(f"{studio.url}/#{view}")
        page.wait_for_selector(".missing code")
        assert words in page.locator(".missing").inner_text()
    found.check()


def photo():
    from PIL import Image

    image = np.full((60, 100, 3), 90, np.uint8)
    image[15:45, 10:40] = (220, 40, 40)
    content = io.BytesIO()
    Image.fromarray(image).save(content, "PNG")
    return content.getvalue()


def test_a_picture_is_dropped_in_and_its_words_are_stepped_through(running, open_studio):
    found = open_studio(running, "#pictures")
    page = ready(found, "pictures")
    file = {"name": "<b>red.png", "mimeType": "image/png", "buffer": photo()}
    with page.expect_response("**/describe**") as answer:
        page.set_input_files("input[type=file]", file)
    assert answer.value.status == 200
    until(
        page, "document.querySelector('canvas.picture').width / document.querySelector('canvas.picture').height > 1.6"
    )
    model = recollect.load("demo-captions", engine="torch")
    wanted = model.caption(photo(), gaze=True)
    shown = page.locator(".caption .token").all_inner_texts()
    assert shown[1:-1] == list(wanted.words[:-1])
    before = page.locator("canvas.picture").evaluate("c => c.toDataURL()")
    page.locator(".caption .token").nth(2).click()
    after = page.locator("canvas.picture").evaluate("c => c.toDataURL()")
    assert before != after
    page.keyboard.press("ArrowRight")
    assert page.locator('.caption .token[aria-pressed="true"]').inner_text() == shown[3]
    assert page.evaluate("location.hash").endswith("word=3")
    page.get_by_role("button", name="as a map").click()
    page.set_input_files(
        "input[type=file]", {"name": "x.png", "mimeType": "image/png", "buffer": b"<script>alert(1)</script>"}
    )
    page.wait_for_selector("#problem:not([hidden])")
    assert "picture: expected" in page.locator("#problem").inner_text()
    assert [text for text in found.console if "400" not in text] == []
    assert found.errors == []


def test_a_scene_shows_the_words_that_were_asked_for(running, open_studio):
    found = open_studio(running, "#pictures")
    page = ready(found, "pictures")
    field = page.get_by_placeholder("a small red circle")
    field.fill("a large green cross above a small yellow circle")
    with page.expect_response("**/scene"):
        field.press("Enter")
        field.blur()
    until(page, "document.body.innerText.includes('The scene shows: a large green cross above')")
    found.check()


def test_the_origin_slides_and_the_numbers_are_the_models(running, open_studio):
    found = open_studio(running, "#series?origin=300")
    page = ready(found, "series")
    model = recollect.load("demo-series", engine="torch")
    values = model.open("sunspots").values[:, 0].tolist()
    for origin, key in ((300, None), (301, "ArrowRight"), (300, "ArrowLeft")):
        if key:
            page.locator("input.origin").press(key)
        until(page, f"location.hash.includes('origin={origin}')")
        wanted = model.forecast({"year": list(range(1700, 1700 + origin)), "sunspots": values[:origin]})
        first = page.locator("table tbody tr").first.locator("td").all_inner_texts()
        assert first[0] == str(1700 + origin)
        assert float(first[1].replace("−", "-")) == pytest.approx(wanted.mean[0, 0], abs=0.51)
        assert float(first[3]) == pytest.approx(values[origin], abs=0.51)
    wide = page.locator(".strip-chart").bounding_box()["width"]
    page.locator(".strip-chart").click(position={"x": wide / 2, "y": 20})
    until(page, "Number(new URLSearchParams(location.hash.split('?')[1]).get('origin')) < 200")
    assert "not counted" in page.locator(".facts").inner_text()
    page.get_by_role("button", name="the whole series").click()
    page.get_by_role("button", name="Play").click()
    until(page, "Number(document.querySelector('input.origin').value) > 140")
    page.get_by_role("button", name="Stop").click()
    found.check()


def test_a_table_is_dropped_in_its_gaps_are_seen_and_another_is_refused(running, open_studio):
    found = open_studio(running, "#series")
    page = ready(found, "series")
    rows = [f"{1900 + n},{'' if 60 <= n < 66 else 60 + 50 * (n % 11) / 11}" for n in range(110)]
    table = {"name": "<img src=x>.csv", "mimeType": "text/csv", "buffer": "\n".join(["year,sunspots", *rows]).encode()}
    page.set_input_files("input[type=file]", table)
    page.wait_for_selector(".chart .lost")
    assert "all of this table is new" in page.locator(".facts").inner_text()
    bad = {"name": "x.csv", "mimeType": "text/csv", "buffer": b"<script>alert(1)</script>,b\n1,2\n2,3\n"}
    page.set_input_files("input[type=file]", bad)
    page.wait_for_selector("#problem:not([hidden])")
    assert "<script>alert(1)</script>" in page.locator("#problem").inner_text()
    assert page.locator("main script").count() == 0
    assert found.errors == []


def test_words_and_what_they_contribute_are_the_models(running, open_studio):
    found = open_studio(running, "#labels?rule=path&label=positive")
    page = ready(found, "labels")
    page.get_by_label("Sentence", exact=True).fill("the food was great but the Foo was awful")
    until(page, "document.querySelectorAll('.reason').length === 9")
    wanted = recollect.load("demo-opinions", engine="torch").contributions(
        "the food was great but the Foo was awful", "path"
    )
    shown = [float(text.replace("−", "-")) for text in page.locator(".reason .value").all_inner_texts()]
    np.testing.assert_allclose(shown, wanted.values[:, 1], atol=0.006)
    assert page.locator(".reason.unknown").all_inner_texts()[0].startswith("Foo")
    assert page.locator(".verdict strong").inner_text() == "negative"
    with page.expect_response("**/contributions"):
        page.get_by_role("button", name="leave it out").click()
    until(page, "document.body.innerText.includes('need not sum to the whole')")
    until(page, "document.body.innerText.includes('How far to trust it')")
    page.locator(".probability").nth(1).focus()
    page.keyboard.press("Enter")
    assert page.locator("h2").first.inner_text() == "What each word contributed to “positive”"
    found.check()


def test_a_recording_is_dropped_in(running, open_studio):
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setparams((1, 2, 8_000, 0, "NONE", ""))
        file.writeframes((8_000 * np.sin(np.arange(4_000) / 5)).astype("<i2").tobytes())
    found = open_studio(running, "#labels?run=demo-speech")
    page = found.page
    page.set_input_files("input[type=file]", {"name": "a.wav", "mimeType": "audio/wav", "buffer": content.getvalue()})
    page.wait_for_selector(".verdict strong")
    model = recollect.load("demo-speech", engine="torch")
    assert page.locator(".verdict strong").inner_text() == model.classify(content.getvalue()).label
    assert page.locator("canvas.map").count() == 1
    found.check()


def test_a_vector_is_moved_by_keys_and_by_hand_and_put_back(running, open_studio):
    found = open_studio(running, "#ratings?user=user4&item=item9")
    page = ready(found, "ratings")
    score = page.locator(".score strong")
    own = recollect.load("demo-ratings", engine="torch").pair("user4", "item9")
    assert float(score.inner_text()) == pytest.approx(own.score, abs=0.006)
    tip = page.locator('[data-tip="user"]')
    tip.focus()
    for _ in range(3):
        page.keyboard.press("Shift+ArrowUp")
    until(page, "location.hash.includes('u=')")
    shown, moved = page.evaluate(  # of one picture: more keys may be on their way
        "[document.querySelector('.score strong').textContent,"
        " new URLSearchParams(location.hash.split('?')[1]).get('u')]"
    )
    vector = np.array([float(value) for value in moved.split(",")])
    wanted = own.mean + own.user_bias + own.item_bias + vector @ own.item
    assert float(shown) == pytest.approx(wanted, abs=0.01)
    assert page.evaluate("document.activeElement.dataset.tip") == "user"
    box = page.locator('[data-tip="item"]').bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] - 60, box["y"] + 90, steps=4)
    page.mouse.up()
    until(page, "location.hash.includes('v=')")
    page.get_by_role("button", name="Put them back").click()
    until(page, "!location.hash.includes('u=') && !location.hash.includes('v=')")
    assert float(score.inner_text()) == pytest.approx(own.score, abs=0.006)
    page.locator(".ranking button").nth(1).click()
    until(page, "!location.hash.includes('item=item9')")
    found.check()


def test_a_film_is_stepped_through_frame_by_frame(start_studio, open_studio, tmp_path_factory):
    place = tmp_path_factory.mktemp("films")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_CACHE", str(place / "cache"))
        cases.write_data(place)
        (place / "runs").mkdir()
        made.make(place / "made", place, "films").path.rename(place / "runs" / "own-films")
    found = open_studio(start_studio(runs=[], folder=place / "runs"), "#pictures?number=3")
    page = ready(found, "pictures")
    assert not page.get_by_role("button", name="Other words").is_visible()
    page.locator(".caption .token").nth(1).click()
    before = page.locator("canvas.picture").evaluate("c => c.toDataURL()")
    page.get_by_label("Frame").press("ArrowRight")
    until(page, "location.hash.includes('frame=1')")
    assert page.locator("canvas.picture").evaluate("c => c.toDataURL()") != before
    assert page.locator(".shares > span").count() == int(page.get_by_label("Frame").get_attribute("max")) + 1
    found.check()


@pytest.mark.parametrize("view", VIEWS)
def test_a_saved_view_is_one_file_that_shows_the_same(running, open_studio, view, browser, tmp_path):
    found = open_studio(running, ROUTES[view])
    page = ready(found, view)
    with page.expect_download() as kept:
        page.locator("#save").click()
    file = tmp_path / "view.html"
    kept.value.save_as(file)
    context = browser.new_context(offline=True)
    saved = context.new_page()
    errors = []
    saved.on("pageerror", lambda error: errors.append(str(error)))
    saved.on("requestfailed", lambda request: errors.append(request.url))
    saved.goto(file.as_uri())
    assert saved.locator("h1").inner_text() == page.locator("h1").inner_text()
    assert saved.locator(READY[view]).first.inner_text() == page.locator(READY[view]).first.inner_text()
    assert errors == []
    context.close()
    found.check()
