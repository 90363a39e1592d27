"""The instruments."""

import sys
from typing import Annotated, Any

import typer

from ..core.settings import flags_of
from .common import DataDir, Device, Flags, Json, Run, command_with_flags, device_of, numbered, print_json


def instrument_flags() -> Flags:
    """The flags that the options of instruments declare."""
    from ..measure.instruments import instruments

    found: dict[str, Any] = {}
    for instrument in instruments().values():
        found |= flags_of(instrument.options)
    return found


def list_instruments() -> str:
    """The names of all instruments, those of single tasks with their task."""
    from .. import tasks
    from ..measure.instruments import instruments

    owners = {own.name: folder for folder, group in tasks.declared("instruments", "INSTRUMENTS") for own in group}
    return ", ".join(f"{name} ({owners[name]})" if name in owners else name for name in instruments())


@command_with_flags(
    instrument_flags,
    lambda: {"what": f"{list_instruments()}."},
    epilog="Example: [bold]recollect inspect runs/text-lstm-0 gradients --out flow.png[/bold]",
)
def inspect(
    run: Run,
    what: Annotated[str, typer.Argument(help="An instrument.")],
    out: Annotated[
        str | None, typer.Option(help="Draw it: FILE.png, .svg or .pdf; more pictures as FILE-2.png.")
    ] = None,
    device: Device = "cpu",
    data_dir: DataDir = None,
    json: Json = False,
    **flags: Any,
) -> None:
    """Look inside a run: what it remembers, how far back, by what way gradients go, and what a length costs."""
    from ..measure import instruments
    from ..report import gaze
    from ..report.drawing import chart, figure

    if out:
        figure.check_path(out)
    found = instruments.inspect(run, what, device=device_of(device), data_dir=data_dir, **flags)
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
