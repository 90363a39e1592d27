"""The command that opens the studio."""

import os
import sys
import threading
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import typer

from ..core.language import localize
from .common import Json, Set, app, print_json
from .serve import link_to, read_token

PORT = 8018
FOLDERS = ("runs", "races")  # of the current folder


@app.command(epilog="Example: [bold]recollect studio runs --set lanes=8[/bold]")
def studio(
    places: Annotated[
        list[str] | None,
        typer.Argument(
            help="Runs by folder or name, and folders of runs or races (default: runs, races and what ships).",
            show_default=False,
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = PORT,
    open: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    jobs: Annotated[
        Literal["keep", "stop"], typer.Option(help="At the end, let what was started go on, or save and stop it.")
    ] = "keep",
    set: Set = None,
    json: Json = False,
) -> None:
    """Open the studio: a page on which every memory reads the text that one types, and runs and races are watched.

    It prints a link with a token, without which nobody comes in (RECOLLECT_TOKEN sets it). docs/studio.md has what the
    pages show and the limits, which --set lanes=8 and the like change. Ctrl-C ends it.
    """
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise ValueError("studio: expected starlette and uvicorn, found none; pip install 'recollect[serve]'")
    from ..core.settings import distribute, split
    from ..serve import guard, server
    from ..studio.app import Studio
    from ..studio.limits import Limits

    limits = Limits(**distribute(split(set or ()), {"limits": Limits})["limits"])
    token = read_token() or guard.make_token()
    folders, runs = sort_places(places or [])
    sock = server.bind("127.0.0.1", port)
    try:
        made = Studio(folders, runs, limits, stop_jobs=jobs == "stop")
        port = sock.getsockname()[1]
        url = link_to("127.0.0.1", port)
        app = made.application(
            hosts=guard.host_names("127.0.0.1", port), token=token, cookie=f"recollect_{port}"
        )  # cookies know no ports
        running = server.make_server(app, limits, made.close)
        sock.listen(limits.connections)
        announce(made, url, token, json=json)
        if open and not json:  # a browser in a terminal would keep the server waiting
            threading.Thread(target=webbrowser.open, args=(url + "/?token=" + token,), daemon=True).start()
        server.run(running, sock)
        if not made.close():  # a call that nothing can end from outside
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
    finally:
        sock.close()


def sort_places(places: list[str]) -> tuple[list[Path], list[str]]:
    """Folders and runs of what was given: what has a config.json, or the name of what ships, is a run."""
    from ..training.folder import RunFolder, shipped

    if not places:
        return [Path(name) for name in FOLDERS], shipped()
    folders, runs = [], []
    for place in places:
        path = Path(place)
        if path.is_dir() and not (path / "config.json").exists():
            folders.append(path)
        else:
            RunFolder.open(place)  # what is wrong with it is said now
            runs.append(place)
    return folders, runs


def announce(made: object, url: str, token: str, *, json: bool) -> None:
    """Say what is shown and where."""
    found = made.registry.list_runs()  # type: ignore[attr-defined]
    if json:
        print_json({"url": url, "token": token, "runs": list(found)})
    else:
        print(localize(f"the studio shows {len(found):,} runs; Ctrl-C ends it"))
        print(url + "/?token=" + token)
    sys.stdout.flush()
