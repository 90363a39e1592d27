"""What a training would cost, before it runs."""

from typing import Annotated, Any

import typer

from .. import tasks
from ..core.language import localize
from ..core.settings import split
from .common import DataDir, Device, Json, Set, command_with_flags, name_place, print_json
from .train import split_flags, task_flags


@command_with_flags(
    task_flags,
    lambda: {"task": f"One of {', '.join(tasks.names())}."},
    epilog="Example: [bold]recollect plan text --model transformer --params 10M --steps 5000 --gpus 4[/bold]",
)
def plan(
    ctx: typer.Context,
    task: Annotated[str, typer.Argument(help="What would be trained.")],
    recipe: Annotated[
        str | None, typer.Option(help="A recipe file; flags go before what it says.", callback=name_place)
    ] = None,
    model: Annotated[str | None, typer.Option(help="A name out of the lineage, or one of RECOLLECT_LAYERS.")] = None,
    width: Annotated[int | None, typer.Option(help="Width of the layers.")] = None,
    layers: Annotated[int | None, typer.Option(help="How many layers.")] = None,
    params: Annotated[str | None, typer.Option(help="Solve the width for so many parameters, such as 1M.")] = None,
    steps: Annotated[str | None, typer.Option(help="Budget in steps (default: 1,000).")] = None,
    tokens: Annotated[str | None, typer.Option(help="Budget in tokens, such as 10M.")] = None,
    device: Device = "auto",
    gpus: Annotated[int | None, typer.Option(min=1, help="What it would take on so many GPUs.")] = None,
    kind: Annotated[str, typer.Option(help="Of GPU: a100, h100, h200, b200, l4 or rtx4090.")] = "h100",
    data_dir: DataDir = None,
    settings: Set = None,
    json: Json = False,
    **flags: Any,
) -> None:
    """What a training will need: FLOPs, bytes and time on this machine, measured for two seconds, and on GPUs."""
    from ..api import training
    from ..core.numbers import scaled
    from ..report.table import render
    from ..training.progress import format_seconds

    words = {"width": width, "layers": layers, "steps": steps, "tokens": tokens}
    sources, numbers = split_flags(flags)
    texts = {name: str(value) for name, value in (words | numbers).items() if value is not None}
    found = training.plan(
        task, sources.pop("data", ()), sources=sources, model=model, params=params, recipe=recipe, device=device,
        data_dir=data_dir, settings=texts | split(settings or []),
    )  # fmt: skip
    elsewhere = None if gpus is None else found.on_gpus(kind, gpus)
    if json:
        print_json(found.to_json() | ({} if elsewhere is None else {"on_gpus": elsewhere}))
        return
    lines = [
        ["parameters", f"{found.parameters:,}"],
        ["steps", f"{found.steps:,}"],
        ["tokens", f"{found.tokens:,}"],
        ["FLOPs", scaled(found.flops, "")],
        ["weights, gradients, optimiser", scaled(found.weights + found.gradients + found.optimizer, "B")],
        ["kept by a step for its backward pass", scaled(found.kept, "B")],
        ["state of one row", scaled(found.state, "B")],
        ["peak of the process or GPU", "–" if found.peak_bytes is None else scaled(found.peak_bytes, "B")],
        ["training here, without evaluations", format_seconds(found.seconds)],
        ["evaluations", f"{found.evaluations:,}"],
    ]
    if elsewhere is not None:
        fits = "fits" if elsewhere["fits"] else "does not fit; --shard divides the weights"
        lines += [
            [f"training on {gpus} × {kind}", format_seconds(elsewhere["seconds"])],
            ["of each one's memory", f"{scaled(elsewhere['bytes_each'], 'B')}, {localize(fits)}"],
        ]
    title = localize(f"{task}: {found.measured_steps:,} steps measured")
    rows = [[localize(name), cell] for name, cell in lines]
    print(render(title, (localize("what"), localize("how much")), rows), end="")
    if elsewhere is not None:
        share = f"{elsewhere['assumed_share_of_peak']:.0%}"
        print(localize(f"assumed of each GPU: {share} of its peak in bfloat16, which small models do not reach"))
