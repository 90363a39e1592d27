"""The race, and its page."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .common import Data, DataDir, Device, Json, Set, app, device_of, print_json


@app.command(epilog="Example: [bold]recollect race text --models ngram,lstm,transformer --seeds 3[/bold]")
def race(
    task: Annotated[
        str | None, typer.Argument(help="A task (default: recall and translation, where memory decides).")
    ] = None,
    ladder: Annotated[
        str | None, typer.Option(help="recurrence, attention, translation or state: each rung one change.")
    ] = None,
    data: Data = None,
    valid: Annotated[list[str] | None, typer.Option(help="Validation data (default: a part of the data).")] = None,
    tokenizer: Annotated[str | None, typer.Option(help="chars, bytes, words or bpe.")] = None,
    pair: Annotated[str | None, typer.Option(help="Of translation: the languages, such as en-de.")] = None,
    models: Annotated[str | None, typer.Option(help="Names with commas between (default: the whole lineage).")] = None,
    equal: Annotated[
        str, typer.Option(help="What ends each training: params (fixed steps), tokens, flops or seconds.")
    ] = "params",
    budget: Annotated[str | None, typer.Option(help="How much of that; with params: steps. Such as 500 or 1M.")] = None,
    params: Annotated[str | None, typer.Option(help="Parameters of each model, such as 150k.")] = None,
    seeds: Annotated[int, typer.Option(help="How often each model runs.")] = 1,
    search: Annotated[
        int | None, typer.Option(help="Learning rates to try for each (default: committed ones, else 3).")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Entries at a time, a core each (default: every core).")
    ] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    out: Annotated[str | None, typer.Option(help="Where all goes; a stopped race goes on from there.")] = None,
    settings: Set = None,
    json: Json = False,
) -> None:
    """Every model of the lineage on the same task, on equal terms: a table, and a page that explains it."""
    from ..core.settings import SettingError, known, number, split
    from ..race import heats as declared
    from ..race import run as races
    from ..race.processes import count_cores
    from ..race.terms import Terms, with_models
    from ..report.pages import race as page
    from ..train.progress import Progress

    if ladder is not None:
        if task is not None or models is not None:
            raise SettingError("--ladder: expected neither a task nor --models with it; a ladder names its own")
        heats = [declared.ladders()[known("ladder", ladder, declared.ladders())]]
    elif task is not None:
        heats = [declared.heats()[known("task", task, declared.heats())]]
    else:
        heats = declared.default_heats()
    if models is not None:
        heats = [with_models(heat, [name.strip() for name in models.split(",")]) for heat in heats]
    where = device_of(device)
    given = {"data": tuple(data or ()), "valid": tuple(valid or ()), "tokenizer": tokenizer, "pair": pair}
    terms = Terms(
        equal=equal,
        budget=None if budget is None else number(budget, "--budget"),
        params=None if params is None else int(number(params, "--params")),
        seeds=seeds,
        settings=split(settings or []),
        data={name: value for name, value in given.items() if value},
        device=where,
        data_dir=data_dir,
        search=search,
    )
    place = Path(out or f"races/{f'ladder-{ladder}' if ladder else task or 'memory'}")
    alone = where != "cpu" or equal == "seconds"  # others at work beside it would cost an entry its seconds
    rows = races.run(
        heats,
        terms,
        place,
        title=heats[0].title if len(heats) == 1 else "Every memory of the lineage, where memory decides",
        command=" ".join(["recollect", *sys.argv[1:]]),
        jobs=jobs or (1 if alone else count_cores()),
        progress=Progress(),
    )
    report = page.write(place)
    if json:
        print_json(rows)
        _refuse_nothing(rows)
        return
    _print_summary(place)
    print(f"every figure: {place / 'results.jsonl'}   the page: {report}")
    _refuse_nothing(rows)


def _refuse_nothing(rows: list[dict[str, Any]]) -> None:
    """A race that nobody finished has failed, whatever it wrote."""
    errors = [row["error"] for row in rows if "error" in row]
    if rows and len(errors) == len(rows):
        raise ValueError(f"race: expected an entry that finishes, found that all {len(rows)} failed; {errors[0]}")


def _print_summary(folder: Path) -> None:
    from ..race.summary import load, summarize
    from ..report.table import render

    for heat in summarize(*load(folder)):
        print(render(heat.heading(), *heat.table()), end="")
        print(heat.in_words())
        for note in heat.notes:
            print(f"  {note}")
        print()


@app.command(epilog="Example: [bold]recollect report races/text[/bold]")
def report(folder: Annotated[str, typer.Argument(help="The folder of a race.")]) -> None:
    """Make the page of a race anew from its rows."""
    from ..report.pages import race as page

    if not (Path(folder) / "results.jsonl").is_file():
        raise ValueError(f"{folder}: expected the folder of a race, with its results.jsonl, found none")
    print(page.write(Path(folder)))
