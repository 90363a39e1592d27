"""The instruments."""

import sys
from typing import Annotated

import typer

from .common import DataDir, Device, Json, Run, app, device_of, numbered, print_json


@app.command(epilog="Example: [bold]recollect inspect runs/text-lstm-0 gradients --out flow.png[/bold]")
def inspect(
    run: Run,
    what: Annotated[
        str,
        typer.Argument(
            help="gradients, influence, horizon, state, cost; alignment (translation), gaze (captions), "
            "ahead (series), directions, nearest (ratings)."
        ),
    ],
    out: Annotated[
        str | None, typer.Option(help="Draw it: FILE.png, .svg or .pdf; more pictures as FILE-2.png.")
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Rows of validation that are looked at.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of each.")] = None,
    text: Annotated[str | None, typer.Option(help="This text in place of validation.")] = None,
    image: Annotated[str | None, typer.Option(help="Of captions: this picture.")] = None,
    initial: Annotated[
        bool | None, typer.Option("--initial/--no-initial", help="Of gradients: the first weights too (default: yes).")
    ] = None,
    by: Annotated[str | None, typer.Option(help="Of influence: an input gives way to another, or to zero.")] = None,
    draws: Annotated[int | None, typer.Option(help="Of influence: how many others, on average (default: 4).")] = None,
    layer: Annotated[int | None, typer.Option(help="The attention of this layer.")] = None,
    head: Annotated[int | None, typer.Option(help="Of alignment and gaze: this head.")] = None,
    at: Annotated[int | None, typer.Option(help="Of state: the step whose input is changed.")] = None,
    change: Annotated[str | None, typer.Option(help="Of state: the token to put there.")] = None,
    lengths: Annotated[str | None, typer.Option(help="Of cost: lengths, such as 16,64,256.")] = None,
    tries: Annotated[int | None, typer.Option(help="Of cost: tries, of which the fastest counts.")] = None,
    item: Annotated[str | None, typer.Option(help="Of nearest: the item.")] = None,
    count: Annotated[int | None, typer.Option(help="Of directions and nearest: how many items.")] = None,
    device: Device = "cpu",
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Look inside a run: what it remembers, how far back, by what way gradients go, and what a length costs."""
    from ..measure import instruments
    from ..report import gaze
    from ..report.drawing import chart, figure

    if out:
        figure.check_path(out)
    found = instruments.inspect(
        run, what, device=device_of(device), data_dir=data_dir, rows=rows, steps=steps, text=text, image=image,
        initial=initial, by=by, draws=draws, layer=layer, head=head, at=at, change=change, lengths=lengths, tries=tries,
        item=item, count=count,
    )  # fmt: skip
    for note in found.notes:
        print(f"note: {note}", file=sys.stderr)
    if json:
        print_json({"run": run, "instrument": what} | found.to_json())
    else:
        for line in found.summary:
            print(line)
    if out and found.picture is not None:
        gaze.draw(found.picture, found.figures["words"], found.figures["weights"], out, found.figures["kind"])
        print(f"drawn: {out}", file=sys.stderr)
    elif out:
        for number, one in enumerate(found.charts, 1):
            chart.draw(one.to_json(), numbered(out, number))
            print(f"drawn: {numbered(out, number)}: {one.title}", file=sys.stderr)
