"""A studio that listens, and pages of it in the system's chromium; shared by the tests of all views."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from recollect.serve import guard, server
from recollect.studio.app import Studio
from recollect.studio.limits import Limits
from recollect.training.folder import shipped
from serve.asgi import HOST, TOKEN, Client


class Running(NamedTuple):
    """A studio that answers on a port."""

    studio: Studio
    url: str
    folder: Path  # the folder of runs that it sees

    @property
    def link(self) -> str:
        return f"{self.url}/?token={TOKEN}"


@pytest.fixture(scope="session")
def start_studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Running]]:
    """A function that starts a studio in a thread: start_studio(runs=…, **limits)."""
    ends = []

    def start(runs: Any = None, folder: Path | None = None, **limits: Any) -> Running:
        place = tmp_path_factory.mktemp("studio") / "runs" if folder is None else folder
        made = Studio([place], shipped() if runs is None else runs, Limits(**limits))
        sock = server.bind("127.0.0.1", 0)
        port = sock.getsockname()[1]
        hosts = guard.host_names("127.0.0.1", port)
        app = made.application(hosts=hosts, token=TOKEN, cookie=f"recollect_{port}")
        running = server.make_server(app, made.limits, made.close)
        sock.listen(64)
        thread = threading.Thread(target=server.run, args=(running, sock), daemon=True)
        thread.start()

        def end() -> None:
            running.should_exit = True
            thread.join(20)
            sock.close()

        ends.append(end)
        deadline = time.monotonic() + 30
        while not running.started and time.monotonic() < deadline:
            time.sleep(0.01)
        return Running(made, f"http://127.0.0.1:{port}", place)

    yield start
    for end in ends:
        end()


@pytest.fixture(scope="session")
def running(start_studio: Callable[..., Running]) -> Running:
    """The studio over all runs that ship with the package."""
    return start_studio()


@pytest.fixture
def client() -> Iterator[Client]:
    """Requests without a socket, every byte the test's own."""
    made = Studio([], shipped(), Limits())
    yield Client(made.application(hosts=frozenset({HOST}), token=TOKEN))
    made.close()


class Page(NamedTuple):
    """A page of the studio and what happened since it was opened."""

    page: Any
    errors: list[str]  # exceptions that no script caught
    console: list[str]  # what scripts and the browser wrote there
    outside: list[str]  # requests to anything but the server

    def check(self) -> None:
        """Nothing went wrong, and nothing was asked of anybody else."""
        assert (self.errors, self.console, self.outside) == ([], [], [])


@pytest.fixture
def open_studio(browser: Any) -> Iterator[Callable[..., Page]]:
    """A function that opens a view: open_studio(running, "#text?…", width=1280, dark=False, lang="en")."""
    contexts = []

    def open_view(where: Running, hash: str = "", *, width: int = 1280, dark: bool = False, lang: str = "en") -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900}, is_mobile=width < 700, accept_downloads=True,
            color_scheme="dark" if dark else "light",
        )  # fmt: skip
        contexts.append(context)
        context.add_init_script(f"localStorage.setItem('recollect-lang', '{lang}')")
        page = context.new_page()
        page.set_default_timeout(60_000)
        found = Page(page, [], [], [])
        host = urlsplit(where.url).netloc
        page.on("pageerror", lambda error: found.errors.append(str(error)))
        page.on("console", lambda message: found.console.append(message.text))
        page.on(
            "request",
            lambda request: (
                None
                if urlsplit(request.url).netloc == host or request.url.startswith(("data:", "blob:"))
                else found.outside.append(request.url)
            ),
        )
        port = urlsplit(where.url).port
        context.add_cookies([{"name": f"recollect_{port}", "value": TOKEN, "url": where.url}])
        page.goto(f"{where.url}/{hash}")
        page.wait_for_selector("section.view:not([aria-busy])")
        return found

    yield open_view
    for context in contexts:
        context.close()


@pytest.fixture(params=(1280, 390), ids=("desk", "phone"))
def width(request: pytest.FixtureRequest) -> int:
    """A wide page and one of a phone."""
    return request.param
