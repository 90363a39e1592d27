"""The shell in a real browser."""

import pytest

from recollect.studio.views import VIEWS

pytestmark = [pytest.mark.deep, pytest.mark.timeout(240)]


@pytest.mark.parametrize("view", [view.name for view in VIEWS])
def test_a_view_opens_without_errors_and_asks_nobody_else(running, open_studio, view, width):
    found = open_studio(running, f"#{view}", width=width)
    assert found.page.locator("h1").count() == 1
    found.check()
    assert found.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_link_with_the_token_opens_the_first_view(running, browser):
    context = browser.new_context()
    page = context.new_page()
    page.goto(running.link)
    page.wait_for_selector("section.view")
    assert "token" not in page.url
    context.close()
