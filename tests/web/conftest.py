"""Pages in the system's chromium, with what they ask for and complain of."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest


class Opened(NamedTuple):
    """A loaded page and what happened since its tab was made."""

    page: Any
    errors: list[str]  # exceptions that no script caught
    console: list[str]  # what scripts and the browser wrote there, refused requests included
    requests: list[str]  # addresses


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Opened]]:
    """A function that loads a page in a new tab, as on a phone where it is narrow."""
    contexts = []

    def open_page(address: str, *, width: int, dark: bool = False, media: str = "screen") -> Opened:
        contexts.append(
            browser.new_context(
                viewport={"width": width, "height": 800},
                is_mobile=width < 700,
                color_scheme="dark" if dark else "light",
            )
        )
        page = contexts[-1].new_page()
        opened = Opened(page, [], [], [])
        page.on("pageerror", lambda error: opened.errors.append(str(error)))
        page.on("console", lambda message: opened.console.append(message.text))
        page.on("request", lambda request: opened.requests.append(request.url))
        page.emulate_media(media=media)
        page.goto(address)
        return opened

    yield open_page
    for context in contexts:
        context.close()
