"""The command that answers for runs over HTTP."""

import os
import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from ..core.language import localize
from .common import Json, Set, app, name_place, print_json

PORT = 8017


@app.command(epilog="Example: [bold]recollect serve demo-text runs/translation-attend-0 --port 8017[/bold]")
def serve(
    runs: Annotated[
        list[str],
        typer.Argument(help="Run folders, or names of runs that come with the package.", callback=name_place),
    ],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.")] = PORT,
    allow: Annotated[
        list[str] | None,
        typer.Option(help="Answer requests to this name too, such as models.example:80.", show_default=False),
    ] = None,
    set: Set = None,
    json: Json = False,
) -> None:
    """Answer for runs over HTTP: completions as OpenAI's clients ask them, sessions, and every task in JSON.

    It prints a link with a token, without which nobody comes in (RECOLLECT_TOKEN sets it). docs/serve.md has the
    routes and the limits, which --set sessions=64 and the like change. Ctrl-C ends it.
    """
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise ValueError("serve: expected starlette and uvicorn, found none; pip install 'recollect[serve]'")
    from ..core.settings import distribute, split
    from ..serve import guard, server
    from ..serve.app import Service
    from ..serve.limits import Limits

    limits = Limits(**distribute(split(set or ()), {"limits": Limits})["limits"])
    token = read_token() or guard.make_token()
    sock = server.bind(host, port)
    try:
        service = Service(runs, limits)
        port = sock.getsockname()[1]
        hosts = guard.host_names(host, port, tuple(allow or ()))
        guarded = service.application(hosts=hosts, token=token, cookie=f"recollect_{port}")  # cookies know no ports
        made = server.make_server(guarded, limits, service.close)
        sock.listen(limits.connections)
        announce(service, link_to(host, port), token, json=json)
        server.run(made, sock)
        if not service.close():  # a call that nothing can end from outside
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
    finally:
        sock.close()


def read_token() -> str:
    """The token that was set beforehand, if any."""
    found = os.environ.get("RECOLLECT_TOKEN", "")
    allowed = found.isascii() and found.replace("-", "").replace("_", "").isalnum()
    if found and not (allowed and 16 <= len(found) <= 200):
        raise ValueError(
            "RECOLLECT_TOKEN: expected 16 to 200 letters, digits, - and _, found others; unset it, and one is made"
        )
    return found


def link_to(host: str, port: int) -> str:
    """The address by which a browser on this machine comes in."""
    from ..serve.guard import EVERY

    name = "127.0.0.1" if host in EVERY else f"[{host}]" if ":" in host else host
    return "http://" + name + f":{port}"


def announce(service: object, url: str, token: str, *, json: bool) -> None:
    """Say what is served and where."""
    models = [served.name for served in service.models]  # type: ignore[attr-defined]
    if json:
        print_json({"url": url, "token": token, "models": models})
    else:
        print(localize(f"serving {', '.join(models)}; Ctrl-C ends it"))
        print(url + "/?token=" + token)
    sys.stdout.flush()
