"""The claims of the books, run and judged."""

import sys
from typing import Annotated

import typer

from ..core.language import localize
from .common import Device, Json, app, device_of, name_place, print_json

MOST_SEEDS = 1_000


@app.command(epilog="Example: [bold]recollect claims vanish forget-gate --out claims[/bold]")
def claims(
    ids: Annotated[list[str] | None, typer.Argument(help="Which ones (default: all; see --list).")] = None,
    listed: Annotated[bool, typer.Option("--list", help="Show ids and statements, run nothing.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="The larger form, for a GPU (quick: about a minute each).")
    ] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds of each, instead of its own number.")] = None,
    device: Device = "auto",
    out: Annotated[
        str, typer.Option(help="Where rows and page go; a stopped run goes on from there.", callback=name_place)
    ] = "claims",
    json: Json = False,
) -> None:
    """What textbooks and papers say about this lineage, each put to an experiment and judged."""
    from pathlib import Path

    from ..claims import load, names, runner
    from ..claims.claim import CHAPTERS, Effort
    from ..core.settings import known
    from ..report.pages import claims as page
    from ..report.table import render

    wanted = list(dict.fromkeys(known("claim", name, names()) for name in ids or names()))
    if listed:
        found = {name: load(name) for name in wanted}
        if json:
            print_json([{"id": name, "statement": each.statement} for name, each in found.items()])
            return
        for number, title in enumerate(CHAPTERS, 1):
            own = [(name, localize(each.statement)) for name, each in found.items() if each.chapter == number]
            if own:
                print(render(f"{number}. {localize(title)}", ("id", "statement"), own), end="")
        if rest := [(name, localize(each.statement)) for name, each in found.items() if each.chapter is None]:
            print(render("The claims", ("id", "statement"), rest), end="")
        return
    if seeds is not None and seeds > MOST_SEEDS:
        raise ValueError(
            f"--seeds: expected at most {MOST_SEEDS:,}, found {seeds:,}, with which {len(wanted)} claims would "
            f"train at least {seeds * len(wanted):,} models"
        )
    place = Path(out)
    effort = Effort(full=full, device=device_of(device), seeds=seeds)
    rows = runner.run(
        wanted, effort, place, lambda text, end: print(localize(text), end=end, file=sys.stderr, flush=True)
    )
    page.write(rows, place / "claims.html")
    chosen = [row for row in rows if row["id"] in wanted]
    if json:
        print_json(chosen)
    else:
        lines = [
            [row["id"], localize(row["verdict"]), localize(row["summary"]), f"{row['seconds']:.1f}"] for row in chosen
        ]
        print(render("The claims", ("id", "verdict", "summary", "seconds"), lines, lines=True), end="")
        print(localize(f"rows: {place / runner.FILE}  page: {place / 'claims.html'}"))
    if failed := [row["id"] for row in chosen if row["verdict"] == runner.FAILED]:
        raise ValueError(f"claims: expected every experiment to run, found that {', '.join(failed)} could not")
