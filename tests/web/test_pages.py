"""The pages in a real browser: at a desk and on a phone, in light and in dark, on paper, without the network."""

import pytest

from recollect.report.pages import claims, race
from report.test_injection import PLANTS, planted_race
from web import made

pytestmark = pytest.mark.deep
GROUND, DARK = "getComputedStyle(document.body).backgroundColor", "rgb(20, 23, 26)"


@pytest.fixture(scope="module")
def addresses(tmp_path_factory):
    home = tmp_path_factory.mktemp("pages")
    claims.write(made.claims(), home / "claims.html")
    hostile = {f"hostile-{i}": race.write(made.save(home / f"{i}", *planted_race(t))) for i, t in enumerate(PLANTS)}
    return {
        **{name: path.as_uri() for name, path in hostile.items()},
        "race": race.write(made.save(home / "full", *made.full())).as_uri(),
        "empty": race.write(made.save(home / "empty", made.race(made.heat()), [])).as_uri(),
        "claims": (home / "claims.html").as_uri(),
    }


@pytest.mark.parametrize("name", ["race", "empty", "claims"])
@pytest.mark.parametrize("width", [1280, 800, 360])
@pytest.mark.parametrize("dark", [False, True])
def test_a_page_fits_and_is_silent(open_page, addresses, name, width, dark):
    page, errors, console, requests = open_page(addresses[name], width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.body.scrollWidth") <= width
    assert page.evaluate(GROUND) == (DARK if dark else "rgb(255, 255, 255)")
    assert errors == []
    assert console == []
    assert [url for url in requests if not url.startswith("data:")] == [addresses[name]]


@pytest.mark.parametrize("number", range(len(PLANTS)))
def test_what_somebody_planted_in_a_race_does_nothing(open_page, addresses, number):
    page, errors, console, requests = open_page(addresses[f"hostile-{number}"], width=1280)
    dialogs = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message) or dialog.dismiss())
    for link in page.locator("main a").all()[:10]:
        link.click()
    page.click("#theme")
    assert (errors, console, dialogs) == ([], [], [])
    assert {url for url in requests if not url.startswith("data:")} == {addresses[f"hostile-{number}"]}
    assert page.evaluate("document.scripts.length") == 1
    assert page.text_content("#theme") == "Light page"  # the page's own script runs


@pytest.mark.parametrize("width", [1280, 360])
def test_charts_are_drawn_large_enough_to_read(open_page, addresses, width):
    """Each figure shows one of its two drawings, whose letters are at least 10 pixels high."""
    page = open_page(addresses["race"], width=width).page
    shown = page.evaluate(
        "[...document.querySelectorAll('figure')].map(f=>[...f.querySelectorAll('svg')]"
        ".filter(s=>s.getClientRects().length).map(s=>12.5*s.getBoundingClientRect().width/s.viewBox.baseVal.width))"
    )
    assert len(shown) > 10
    assert all(len(sizes) == 1 and sizes[0] >= 10 for sizes in shown)


@pytest.mark.parametrize("width", [1280, 360])
def test_no_word_of_a_chart_leaves_its_paper(open_page, addresses, width):
    for name in ("race", "claims"):
        page = open_page(addresses[name], width=width).page
        outside = page.evaluate(
            "[...document.querySelectorAll('svg.chart')].filter(s=>s.getClientRects().length).flatMap(s=>{"
            "const p=s.getBoundingClientRect();return [...s.querySelectorAll('text')].filter(t=>{"
            "const b=t.getBoundingClientRect();"
            "return b.left<p.left-3||b.right>p.right+3||b.top<p.top-3||b.bottom>p.bottom+3"
            "}).map(t=>t.textContent)})"
        )
        assert outside == []


@pytest.mark.parametrize("width", [1280, 360])
def test_names_in_a_chart_do_not_lie_on_each_other(open_page, addresses, width):
    page = open_page(addresses["race"], width=width).page
    touching = page.evaluate(
        "[...document.querySelectorAll('svg.chart')].filter(s=>s.getClientRects().length).flatMap(s=>{"
        "const t=[...s.querySelectorAll('text')].map(e=>[e.textContent,e.getBoundingClientRect()]);"
        "return t.flatMap(([a,p],i)=>t.slice(i+1).filter(([b,q])=>"
        "Math.min(p.right,q.right)-Math.max(p.left,q.left)>2&&Math.min(p.bottom,q.bottom)-Math.max(p.top,q.top)>6"
        ").map(([b])=>a+' / '+b))})"
    )
    assert touching == []


def test_the_button_turns_the_page_dark_and_back(open_page, addresses):
    page = open_page(addresses["race"], width=1280).page
    before = page.evaluate(GROUND)
    page.click("#theme")
    assert page.evaluate(GROUND) == DARK != before
    assert page.text_content("#theme") == "Light page"
    page.click("#theme")
    assert page.evaluate(GROUND) == before


def test_paper_is_white_and_has_no_button(open_page, addresses):
    page = open_page(addresses["race"], width=720, dark=True, media="print").page
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
    assert [button.is_visible() for button in page.locator("#theme").all()] == [False]
    assert page.pdf().startswith(b"%PDF")


def test_a_refused_request_is_noticed(open_page, tmp_path):
    """The page's own policy refuses requests, and the console that must be empty above says so."""
    source = race.render(made.race(made.heat()), []).replace("</main>", '<img src="http://127.0.0.1:9/x.png"></main>')
    (tmp_path / "spoilt.html").write_text(source, encoding="utf-8")
    opened = open_page((tmp_path / "spoilt.html").as_uri(), width=1280)
    assert any("Content Security Policy" in text for text in opened.console)


def test_errors_messages_and_requests_are_noticed(open_page, tmp_path):
    """A page without a policy fills each of the lists that are compared above."""
    script = "<img src='other.png'><script>console.log('a message'); throw new Error('an error')</script>"
    (tmp_path / "noisy.html").write_text(script, encoding="utf-8")
    opened = open_page((tmp_path / "noisy.html").as_uri(), width=1280)
    assert opened.errors == ["an error"]
    assert "a message" in opened.console
    assert opened.requests[-1].endswith("other.png")
