"""The race, and its page."""

import shlex
import sys
from contextlib import suppress
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from ..core.language import localize
from .common import Data, DataDir, Device, Json, Log, Set, app, name_place, print_json


@app.command(epilog="Example: [bold]recollect race text --models ngram,lstm,transformer --seeds 3[/bold]")
def race(
    task: Annotated[
        str | None, typer.Argument(help="A task (default: recall and translation, where memory decides).")
    ] = None,
    ladder: Annotated[
        str | None, typer.Option(help="recurrence, attention, translation, state or memory: each rung one change.")
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
    seeds: Annotated[
        int | None, typer.Option(help="How often each model runs (default: 3; 1 where no task is named).")
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(
            help="Learning rates to try for each, or committed (default: the committed ones where every model has one, "
            "else all models are searched alike)."
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Entries at a time, a core each (default: every core); on a GPU, of each.")
    ] = None,
    on: Annotated[str, typer.Option(help="Where entries run: local, ray, or ray=ADDRESS of a cluster.")] = "local",
    part: Annotated[
        str | None, typer.Option(help="Run a part, such as 1/4; recollect report joins the parts.", show_default=False)
    ] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    out: Annotated[
        str | None, typer.Option(help="Where all goes; a stopped race goes on from there.", callback=name_place)
    ] = None,
    log: Log = None,
    settings: Set = None,
    json: Json = False,
) -> None:
    """Every model of the lineage on the same task, on equal terms: a table, and a page that explains it."""
    from ..api.racing import race as run_race
    from ..core.settings import SettingError, split
    from ..report.table import render

    own = split(settings or [])
    if clash := next((name for name in own if name in signature(run_race).parameters), None):
        raise SettingError(f"--set {clash}: expected a setting of models or training, found a flag; use --{clash}")
    given: dict[str, Any] = dict(own)
    found = run_race(
        task, data or (), ladder=ladder, models=models, equal=equal, budget=budget, params=params, seeds=seeds,
        search=search, jobs=jobs, on=on, part=part, valid=valid or (), tokenizer=tokenizer, pair=pair, device=device,
        data_dir=data_dir, out=out, log=log, command=shlex.join(["recollect", *sys.argv[1:]]), **given,
    )  # fmt: skip
    if json:
        print_json(found.rows)
    else:
        for heat in found.summaries():
            columns, lines = heat.table()
            lines = [[place, name, *map(localize, cells)] for place, name, *cells in lines]
            print(render(heat.heading(), columns, lines), end="")
            print(heat.told())
            for note in heat.notes:
                print(f"  {localize(note)}")
            print()
        print(localize(f"every figure: {found.folder / 'results.jsonl'}   the page: {found.page}"))
    _refuse_nothing(found.rows)


def _refuse_nothing(rows: list[dict[str, Any]]) -> None:
    """A race that nobody finished has failed, whatever it wrote."""
    errors = [row["error"] for row in rows if "error" in row]
    if rows and len(errors) == len(rows):
        raise ValueError(f"race: expected an entry that finishes, found that all {len(rows)} failed; {errors[0]}")


@app.command(
    epilog="Example: [bold]recollect report races/text --figure learning.pdf --chart learning --width 3.25in[/bold]"
)
def report(
    folders: Annotated[
        list[str], typer.Argument(help="The folder of a race; several are parts of one.", callback=name_place)
    ],
    out: Annotated[
        str | None, typer.Option(help="Of several parts: where the whole race goes.", callback=name_place)
    ] = None,
    figure: Annotated[
        str | None, typer.Option(help="Draw a chart of the page: FILE.pdf, .svg or .png.", callback=name_place)
    ] = None,
    chart: Annotated[
        str,
        typer.Option(
            help="Of --figure: results, learning, learning-time, positions, work, state, gradient, worth-of-state or "
            "seen-and-written; several with commas."
        ),
    ] = "results",
    heat: Annotated[str | None, typer.Option(help="The heat, where the race has several (default: the first).")] = None,
    width: Annotated[str, typer.Option(help="Of --figure, such as 3.25in, 84mm or 240pt.")] = "6in",
    font: Annotated[str | None, typer.Option(help="Of --figure: a font of this machine.")] = None,
    font_size: Annotated[float, typer.Option(help="Of --figure: points.")] = 8.0,
    latex: Annotated[
        str | None, typer.Option(help="Write the results as a LaTeX table; - is stdout.", callback=name_place)
    ] = None,
    csv: Annotated[str | None, typer.Option(help="Write the results as CSV; - is stdout.", callback=name_place)] = None,
) -> None:
    """Make the page of a race anew from its rows, or a figure or a table for a paper."""
    from ..report import figures, results
    from ..report.pages import race as page

    for folder in folders:
        if not (Path(folder) / "results.jsonl").is_file():
            raise ValueError(f"{folder}: expected the folder of a race, with its results.jsonl, found none")
    place = Path(folders[0])
    if len(folders) > 1 or out is not None:
        from ..racing.parts import join

        if out is None:
            raise ValueError("report: expected --out with a folder for the race that the parts make, found none")
        place = Path(out)
        join([Path(folder) for folder in folders], place)
    if figure is not None:
        figures.write(place, figure, names=chart, heat=heat, width=width, font=font, size=font_size)
        print(figure, file=sys.stderr)
    for path, write in ((latex, results.write_latex), (csv, results.write_csv)):
        if path is not None:
            _write_table(path, write(figures.select_heats(place, heat)))
    if figure is latex is csv is None:
        print(page.write(place))


def _write_table(path: str, text: str) -> None:
    if path == "-":
        print(text, end="")
        return
    from ..core.files import write_aside

    with suppress(OSError):  # what then cannot be written is said with its place
        Path(path).absolute().parent.mkdir(parents=True, exist_ok=True)
    write_aside(path, text.encode())
    print(path, file=sys.stderr)
