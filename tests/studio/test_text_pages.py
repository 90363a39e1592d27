"""The text view in a real browser: typing, going back, branches, edits, writing on, links and saved views."""

import re
from itertools import pairwise
from urllib.parse import unquote_plus

import pytest

pytestmark = [pytest.mark.deep, pytest.mark.timeout(300)]
LANES = "lane-ngram,lane-lstm,lane-transformer,lane-gated-delta"
TWO = "#text?lanes=lane-lstm,lane-transformer&text=who+goes+there"


READ = """canvas => {  // the pixels of a canvas, read from a copy
  const copy = new OffscreenCanvas(canvas.width, canvas.height);
  const pen = copy.getContext('2d', {willReadFrequently: true});
  pen.drawImage(canvas, 0, 0);
  return pen;
}"""
CHANGED = """() => {  // how many pixels of each column of the LSTM's map are no paper
  const map = document.querySelector('[data-lane="lane-lstm"] .map'), pen = (READ)(map);
  const ratio = map.width / parseFloat(map.style.width);
  return [...Array(14).keys()].map(column => {
    const found = pen.getImageData(Math.round((column * 14 + 5) * ratio), 4, 1, map.height - 8).data;
    let count = 0;
    for (let i = 0; i < found.length; i += 4) count += Math.abs(found[i + 1] - 255) > 12;
    return count;
  })}""".replace("READ", READ)


def lane(page, name):
    return page.locator(f'[data-lane="lane-{name}"]')


def wait_read(page, name, count, line=0):
    """Until a lane has drawn so many characters of a line."""
    page.wait_for_selector(f'[data-lane="lane-{name}"][data-{"branch" if line else "read"}="{count}"]')


def pixels(page, selector):
    """How many pixels of a canvas are painted."""
    return page.locator(selector).evaluate(
        f"canvas => {{const found = ({READ})(canvas).getImageData(0, 0, canvas.width, canvas.height).data;"
        "let count = 0;"
        "for (let i = 3; i < found.length; i += 4) count += found[i] > 0; return count}"
    )


def surprise(page, name):
    return lane(page, name).locator(".facts dd").first.inner_text()


@pytest.fixture
def opened(running, open_studio):
    found = open_studio(running, TWO)
    for name in ("lstm", "transformer"):
        wait_read(found.page, name, 14)
    yield found
    found.check()


def test_what_is_typed_is_read_by_every_lane(running, open_studio):
    found = open_studio(running, f"#text?lanes={LANES}&text=who")
    page = found.page
    for name in ("ngram", "lstm", "transformer", "gated-delta"):
        wait_read(page, name, 3)
    before = pixels(page, '[data-lane="lane-lstm"] .map')
    page.locator("textarea").press("End")
    page.locator("textarea").press_sequentially(" goes")
    for name in ("ngram", "lstm", "transformer", "gated-delta"):
        wait_read(page, name, 8)
    assert pixels(page, '[data-lane="lane-lstm"] .map') > 2 * before
    assert pixels(page, '[data-lane="lane-gated-delta"] .map') > 1000
    assert page.locator(".letters[data-line='0'] .letter").all_inner_texts() == list("who␣goes")
    found.check()


def test_the_likeliest_next_characters_are_those_of_the_run(opened):
    import recollect

    rows = lane(opened.page, "lstm").locator(".next li:visible")
    model = recollect.load("lane-lstm", engine="torch")
    expected = model.next_tokens("who goes there", 8)
    assert [text.split("\n")[0] for text in rows.all_inner_texts()] == [token for token, _ in expected]
    score = model.score("who goes there")
    assert surprise(opened.page, "lstm").startswith(f"{score.bits / score.tokens:.2f}")


def test_going_back_takes_every_lane_back(opened):
    page = opened.page
    page.locator("#letter-3").click()
    page.get_by_role("button", name="Go back here").click()
    wait_read(page, "lstm", 3)
    wait_read(page, "transformer", 3)
    assert page.locator("textarea").input_value() == "who"
    assert "text=who" in page.url


def test_a_branch_is_read_beside_the_text(opened):
    page = opened.page
    page.locator("#letter-9").click()
    page.get_by_role("button", name="Branch here").click()
    page.get_by_label("How the branch goes on").fill("on, sir")
    wait_read(page, "lstm", 16, line=1)
    wait_read(page, "lstm", 14)
    letters = page.locator(".letters[data-line='1'] .letter").all_inner_texts()
    assert "".join(letters) == "who␣goes␣on,␣sir"
    assert page.locator(".letters[data-line='1'] .letter.shared").count() == 9
    assert pixels(page, '[data-lane="lane-lstm"] .bars:nth-of-type(2)') > 0
    page.get_by_role("button", name="Drop branch").click()
    assert page.locator(".letters[data-line='1']").is_hidden()


def test_a_replaced_character_spreads_through_states(opened):
    page = opened.page
    page.locator("#letter-5").click()
    page.get_by_label("Another character").fill("d")
    wait_read(page, "lstm", 14, line=1)
    assert page.get_by_role("button", name="Difference").get_attribute("aria-pressed") == "true"
    columns = page.evaluate(CHANGED)
    assert max(columns[:4]) <= 2  # what came before is the same: nothing but paper
    assert columns[4] > 10
    assert columns[6] > 5


def test_a_number_of_the_state_is_set_and_the_lane_writes_otherwise(opened):
    page = opened.page
    map_ = lane(page, "lstm").locator(".map")
    map_.focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    assert "unit 1, at “e”" in page.locator("#tip").inner_text()
    page.keyboard.press("Enter")
    editor = lane(page, "lstm").locator(".editor")
    assert "number 1 after “e”" in editor.inner_text()
    editor.get_by_label("New value", exact=True).fill("6")
    page.keyboard.press("Enter")
    wait_read(page, "lstm", 14, line=1)
    assert "lane-lstm 1.h [1] = 6" in page.locator(".changes").inner_text()
    page.get_by_label("characters").fill("30")
    page.get_by_role("button", name="Let all write on").click()
    for name, line in ((name, line) for name in ("lstm", "transformer") for line in (0, 1)):
        page.wait_for_selector(f'[data-lane="lane-{name}"][data-written{line}="30"]')
    texts = {name: lane(page, name).locator(".written p").all_inner_texts() for name in ("lstm", "transformer")}
    assert texts["transformer"][0] == texts["transformer"][1]  # its state was left alone


def test_all_write_on_with_the_same_seed_and_one_text_is_read_by_all(opened):
    page = opened.page
    page.get_by_label("characters").fill("20")

    def write():
        page.get_by_role("button", name="Let all write on").click()
        for name in ("lstm", "transformer"):
            page.wait_for_selector(f'[data-lane="lane-{name}"][data-written0="20"]')
        page.wait_for_selector("#write:not([disabled])")
        return page.locator(".written p").all_inner_texts()

    first = write()
    assert write() == first
    assert all(text.startswith("who goes there") for text in first)
    page.get_by_role("button", name="Let all lanes read this").first.click()
    wait_read(page, "transformer", 34)
    assert page.locator("textarea").input_value() == first[0]


def test_the_link_opens_the_same_view_again(running, open_studio, opened):
    page = opened.page
    lane(page, "lstm").locator("select").select_option("0.c")
    page.locator("#letter-5").click()
    page.get_by_label("Another character").fill("d")
    page.get_by_role("button", name="Branch", exact=True).click()
    wait_read(page, "lstm", 14, line=1)
    address = page.url
    assert "text=who goes there" in unquote_plus(address)
    again = open_studio(running, address[address.index("#") :])
    wait_read(again.page, "lstm", 14, line=1)
    assert again.page.url == address
    for selector in (".letters[data-line='1']", ".facts >> nth=0", ".next >> nth=0", ".place"):
        assert again.page.locator(selector).inner_text() == page.locator(selector).inner_text()
    assert lane(again.page, "lstm").locator("select").input_value() == "0.c"
    assert again.page.get_by_role("button", name="Branch", exact=True).get_attribute("aria-pressed") == "true"
    again.check()


def test_a_saved_view_opens_without_a_network(opened, browser, tmp_path):
    page = opened.page
    with page.expect_download() as found:
        page.get_by_role("button", name="Save view").click()
    path = tmp_path / "view.html"
    found.value.save_as(path)
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"<script|https?://(?!www\.w3\.org)|/studio/", text.partition("<style>")[0])
    context = browser.new_context(offline=True)
    saved, asked, wrong = context.new_page(), [], []
    saved.on("request", lambda request: asked.append(request.url))
    saved.on("console", lambda message: wrong.append(message.text))
    saved.goto(path.as_uri())
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
    assert wrong == []
    assert saved.locator("h1").inner_text() == "One text, every memory"
    assert saved.locator("img.map").count() == 2
    assert saved.locator("img.map").first.evaluate("image => image.naturalWidth") > 100
    assert saved.locator("textarea").input_value() == "who goes there"
    context.close()


def test_the_page_is_chinese_dark_and_narrow(running, open_studio):
    found = open_studio(running, TWO, width=390, dark=True, lang="zh")
    page = found.page
    wait_read(page, "lstm", 14)
    assert page.evaluate("document.documentElement.lang") == "zh-Hans"
    assert re.search("[\u4e00-\u9fff]", page.locator("h1").inner_text())
    english = re.findall(r"\b[a-z]{3,} [a-z]{3,} [a-z]{3,}\b", page.locator("main").inner_text())
    assert english == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    colours = page.evaluate("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")
    assert colours == ["rgb(20, 23, 26)", "rgb(230, 233, 236)"]
    found.check()


def test_the_theme_and_the_language_can_be_changed_and_the_view_stays(opened):
    page = opened.page
    page.get_by_role("button", name="Dark page").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    page.locator("#lang-zh").click()
    wait_read(page, "lstm", 14)
    assert page.locator("textarea").input_value() == "who goes there"
    page.locator("#lang-en").click()
    page.get_by_role("button", name="Light page").click()
    wait_read(page, "lstm", 14)
    assert page.locator("h1").inner_text() == "One text, every memory"


CONTRAST = """() => {  // texts that stand out too little from what is behind them
  const part = v => v / 255 <= .03928 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => .2126 * part(r) + .7152 * part(g) + .0722 * part(b);
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const found = parse(getComputedStyle(e).backgroundColor);
      if (found.length === 3 || found[3] > 0) return found.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || !e.getClientRects().length || e.closest('.shared, option, :disabled')) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color).slice(0, 3)), light(behind(e))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) low.push([e.className, e.textContent.slice(0, 20), ratio.toFixed(2)]);
  }
  return low}"""
UNNAMED = """() => [...document.querySelectorAll(
    'button, a, input, select, textarea, [role=listbox], [role=application]')]
  .filter(e => e.getClientRects().length && !e.getAttribute('aria-label') && !e.textContent.trim()
    && !(e.labels && e.labels.length)).map(e => e.outerHTML)"""


@pytest.mark.parametrize("dark", [False, True])
def test_words_can_be_read_and_everything_has_a_name(running, open_studio, dark):
    found = open_studio(running, TWO, dark=dark)
    page = found.page
    wait_read(page, "lstm", 14)
    page.locator("#letter-5").click()
    page.get_by_role("button", name="Branch here").click()
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(UNNAMED) == []
    assert page.locator("main").count() == page.locator("nav").count() == page.locator("header#top").count() == 1
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map(e => +e.localName[1])")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_everything_is_reached_by_keys_in_the_order_of_the_page(opened):
    page = opened.page
    page.evaluate("document.activeElement.blur()")
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate(
                "(document.activeElement.id || document.activeElement.className || document.activeElement.localName)"
            )
        )
        if "map" in seen[-1]:
            break
    order = ["skip", "brand", "copy", "text", "write", "strip", "map"]
    places = [next(i for i, name in enumerate(seen) if name.split()[0] == each) for each in order]
    assert places == sorted(places)
    page.locator(".strip").focus()
    page.keyboard.press("Home")
    assert page.locator("#letter-1").get_attribute("aria-selected") == "true"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    wait_read(page, "lstm", 3)
    page.keyboard.type("m")
    wait_read(page, "lstm", 4)
    assert page.locator("textarea").input_value() == "whom"


def test_a_page_that_the_server_forgot_goes_on(running, opened):
    page = opened.page
    running.studio.text_pages.pages.clear()
    page.locator("textarea").press("End")
    page.locator("textarea").press_sequentially("!")
    wait_read(page, "lstm", 15)
    assert all("404" in line for line in opened.console)  # by which the page learnt of it
    opened.console.clear()


def test_scripts_in_a_text_are_letters(running, open_studio):
    found = open_studio(running, "#text?lanes=lane-lstm&text=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E")
    page = found.page
    dialogs = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message) or dialog.dismiss())
    page.wait_for_selector('[data-lane="lane-lstm"][data-read]')
    assert page.locator("main img").count() == 0
    assert dialogs == []
    found.check()
