"""The command that puts a module from a file to the laws."""

from typing import Annotated

import typer

from .common import Json, Set, app, print_json


@app.command(epilog="Example: [bold]recollect doctor model.py:Memory --set hidden=8[/bold]")
def doctor(
    target: Annotated[
        str,
        typer.Argument(metavar="FILE:NAME", help="A class, module, factory or step, or a Hugging Face model's folder."),
    ],
    settings: Set = None,
    dim: Annotated[int | None, typer.Option(min=1, help="Width of x, where the module leaves it open.")] = None,
    batch: Annotated[int, typer.Option(min=2, max=64, help="Rows of x.")] = 3,
    steps: Annotated[int, typer.Option(min=4, max=512, help="Steps of x.")] = 8,
    tokens: Annotated[int | None, typer.Option(min=2, help="x are tokens below this number, B T.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of weights and inputs.")] = 0,
    json: Json = False,
) -> None:
    """Put any module to the laws: which hold, and of a broken one the step, the layer and the smallest input.

    The file is executed. Its prints go to stderr.
    """
    import contextlib
    import sys

    from ..core.settings import split
    from ..doctor.examine import examine
    from ..doctor.report import as_data, render

    with contextlib.redirect_stdout(sys.stderr):  # what the user's module prints
        found = examine(
            target, dim=dim, batch=batch, steps=steps, tokens=tokens, seed=seed, settings=split(settings or [])
        )
    if json:
        print_json(as_data(found))
    else:
        print(render(found))
    if found.broken:
        bound = [finding for finding in found.findings if finding.verdict != "skipped"]
        raise ValueError(
            f"{target}: expected every law that was judged to hold, found {len(found.broken)} of {len(bound)} broken: "
            f"{', '.join(found.broken)}"
        )
