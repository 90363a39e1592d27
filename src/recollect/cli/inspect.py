"""The instruments."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..core.language import localize
from ..core.settings import flags_of
from .common import (
    DataDir,
    Device,
    Flags,
    Json,
    check_utf8,
    command_with_flags,
    device_of,
    name_place,
    print_json,
)


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
    lambda: {"what": f"Runs, then an instrument: {list_instruments()}."},
    epilog="Example: [bold]recollect inspect runs/text-rnn-0 runs/text-lstm-0 state --out both.png[/bold]",
)
def inspect(
    what: Annotated[
        list[str],
        typer.Argument(help="Runs, then an instrument.", metavar="RUN... INSTRUMENT", callback=name_place),
    ],
    out: Annotated[
        str | None,
        typer.Option(help="Draw all of it as one panel: FILE.png, .svg or .pdf.", callback=name_place),
    ] = None,
    parts: Annotated[
        bool, typer.Option("--parts", help="With --out: each chart as a file too, FILE-1.png, FILE-2.png.")
    ] = False,
    device: Device = "cpu",
    data_dir: DataDir = None,
    json: Json = False,
    **flags: Any,
) -> None:
    """Look inside runs: what they remember, how far back, by what way gradients go, and what a length costs."""
    from ..core.settings import known
    from ..measure import instruments
    from ..report.drawing import figure

    *runs, instrument = what
    if not runs:
        raise ValueError(f"inspect: expected a run and an instrument, found {instrument!r} alone; name both")
    known("instrument", instrument, instruments.instruments())
    for name, value in flags.items():
        check_utf8(f"--{name}", [value] if isinstance(value, str) else None)
    if parts and not out:
        raise ValueError("--parts: expected --out with it, found none; name the file")
    if out:
        figure.check_path(out)
    found = [instruments.inspect(run, instrument, device=device_of(device), data_dir=data_dir, **flags) for run in runs]
    for run, each in zip(runs, found, strict=True):
        for note in each.notes:
            print(localize(f"note: {note}" if len(runs) == 1 else f"note: {run}: {note}"), file=sys.stderr)
    if json:
        rows = [{"run": run, "instrument": instrument} | each.to_json() for run, each in zip(runs, found, strict=True)]
        print_json(rows[0] if len(rows) == 1 else rows)
    else:
        for run, each in zip(runs, found, strict=True):
            for line in each.summary:
                print(localize(line) if len(runs) == 1 else f"{run}: {localize(line)}")
    if out:
        given = any(flags.get(name) is not None for name in ("text", "image", "sound"))
        draw_panel(instrument, runs, found, out, parts=parts, given=given)


def draw_panel(instrument: str, runs: list[str], found: list[Any], out: str, *, parts: bool, given: bool) -> None:
    """One figure of what an instrument found in each run, and its charts as files of their own where asked for."""
    from ..report import film_gaze, gaze, inspection
    from ..report.drawing import chart

    every = []
    for run, each in zip(runs, found, strict=True):
        drawn = [one.to_json() for one in each.charts]
        if each.picture is not None:
            look = film_gaze if each.picture.ndim == 4 else gaze
            drawn = [look.chart(each.picture, each.figures["words"], each.figures["weights"], each.figures["kind"])]
        if each.spectrum is not None:
            drawn = [draw_heard(each)]
        name = Path(run).name or run
        every.append(inspection.Inspected(name, each.model or name, drawn, each.figures.get("inputs", ())))
    chart.save(inspection.draw(instrument, every, given=given), out)
    print(localize(f"drawn: {out}"), file=sys.stderr)
    if parts:
        place, number = Path(out), 0
        for run in every:
            for one in run.charts:
                number += 1
                file = str(place.with_name(f"{place.stem}-{number}{place.suffix}"))
                chart.draw(one, file)
                print(localize(f"drawn: {file}: {one['title']}"), file=sys.stderr)


def draw_heard(found: Any) -> dict[str, Any]:
    """Where in a sound each character was heard, as a chart."""
    from ..report import spectrogram

    own = found.figures
    times = {"frame": own["seconds_of_a_frame"], "step": own["seconds_of_a_step"]}
    return spectrogram.chart(found.spectrum, own["weights"], own["characters"], own["kind"], unit=own["unit"], **times)
