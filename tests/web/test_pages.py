"""The pages in a real browser: at a desk and on a phone, in light and in dark, on paper, without the network."""

import pytest

from recollect.report.pages import claims, race
from web import made
from web.browser import browser, executable

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(executable() is None, reason="needs chromium (Debian: apt-get install chromium)"),
]


@pytest.fixture(scope="module")
def tab():
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def addresses(tmp_path_factory):
    home = tmp_path_factory.mktemp("pages")
    claims.write(made.claims(), home / "claims.html")
    return {
        "race": race.write(made.save(home / "full", *made.full())).as_uri(),
        "empty": race.write(made.save(home / "empty", made.race(made.heat()), [])).as_uri(),
        "claims": (home / "claims.html").as_uri(),
    }


@pytest.mark.parametrize("name", ["race", "empty", "claims"])
@pytest.mark.parametrize("width", [1280, 800, 360])
@pytest.mark.parametrize("dark", [False, True])
def test_a_page_fits_and_is_silent(tab, addresses, name, width, dark):
    tab.open(addresses[name], width=width, dark=dark)
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run("document.body.scrollWidth") <= width
    assert tab.run("getComputedStyle(document.body).backgroundColor") == (
        "rgb(20, 23, 26)" if dark else "rgb(255, 255, 255)"
    )
    assert tab.of("Runtime.exceptionThrown") == []
    assert tab.of("Runtime.consoleAPICalled") == []
    assert tab.of("Log.entryAdded") == []
    asked = [event["request"]["url"] for event in tab.of("Network.requestWillBeSent")]
    assert [url for url in asked if not url.startswith("data:")] == [addresses[name]]


@pytest.mark.parametrize("width", [1280, 360])
def test_charts_are_drawn_large_enough_to_read(tab, addresses, width):
    """Each figure shows one of its two drawings, whose letters are at least 10 pixels high."""
    tab.open(addresses["race"], width=width)
    shown = tab.run(
        "[...document.querySelectorAll('figure')].map(f=>[...f.querySelectorAll('svg')]"
        ".filter(s=>s.getClientRects().length).map(s=>12.5*s.getBoundingClientRect().width/s.viewBox.baseVal.width))"
    )
    assert len(shown) > 10
    assert all(len(sizes) == 1 and sizes[0] >= 10 for sizes in shown)


@pytest.mark.parametrize("width", [1280, 360])
def test_no_word_of_a_chart_leaves_its_paper(tab, addresses, width):
    for name in ("race", "claims"):
        tab.open(addresses[name], width=width)
        outside = tab.run(
            "[...document.querySelectorAll('svg.chart')].filter(s=>s.getClientRects().length).flatMap(s=>{"
            "const p=s.getBoundingClientRect();return [...s.querySelectorAll('text')].filter(t=>{"
            "const b=t.getBoundingClientRect();"
            "return b.left<p.left-3||b.right>p.right+3||b.top<p.top-3||b.bottom>p.bottom+3"
            "}).map(t=>t.textContent)})"
        )
        assert outside == []


@pytest.mark.parametrize("width", [1280, 360])
def test_names_in_a_chart_do_not_lie_on_each_other(tab, addresses, width):
    tab.open(addresses["race"], width=width)
    touching = tab.run(
        "[...document.querySelectorAll('svg.chart')].filter(s=>s.getClientRects().length).flatMap(s=>{"
        "const t=[...s.querySelectorAll('text')].map(e=>[e.textContent,e.getBoundingClientRect()]);"
        "return t.flatMap(([a,p],i)=>t.slice(i+1).filter(([b,q])=>"
        "Math.min(p.right,q.right)-Math.max(p.left,q.left)>2&&Math.min(p.bottom,q.bottom)-Math.max(p.top,q.top)>6"
        ").map(([b])=>a+' / '+b))})"
    )
    assert touching == []


def test_the_button_turns_the_page_dark_and_back(tab, addresses):
    tab.open(addresses["race"], width=1280)
    ground = "getComputedStyle(document.body).backgroundColor"
    before = tab.run(ground)
    tab.run("document.getElementById('theme').click()")
    assert tab.run(ground) == "rgb(20, 23, 26)" != before
    assert tab.run("document.getElementById('theme').textContent") == "Light page"
    tab.run("document.getElementById('theme').click()")
    assert tab.run(ground) == before


def test_paper_is_white_and_has_no_button(tab, addresses):
    tab.open(addresses["race"], width=720, dark=True, media="print")
    assert tab.run("getComputedStyle(document.documentElement).colorScheme") == "light"
    assert tab.run("document.getElementById('theme').getClientRects().length") == 0
    assert tab.printed().startswith(b"%PDF")


def test_a_request_would_be_refused_and_noticed(tab, addresses, tmp_path):
    """The page's own policy stops what the tests above look for, and they would see it."""
    source = race.render(made.race(made.heat()), []).replace("</main>", '<img src="http://127.0.0.1:9/x.png"></main>')
    (tmp_path / "spoilt.html").write_text(source, encoding="utf-8")
    tab.open((tmp_path / "spoilt.html").as_uri(), width=1280)
    assert any("Content Security Policy" in event["entry"]["text"] for event in tab.of("Log.entryAdded"))
