"""The commands that make a run and measure it."""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, get_args

import typer

from .. import tasks
from ..core.settings import SettingError, flags_of, number, parse, split
from .common import DataDir, Device, Flags, Json, Run, Set, app, command_with_flags, device_of, print_json


@app.command(epilog="Example: [bold]recollect models --json[/bold]")
def models(json: Json = False) -> None:
    """The lineage: what each layer remembers, how it updates that and how it reads it."""
    from ..layers import lineage
    from ..report.table import render

    if json:
        rows = [vars(entry) | {"card": entry.card._asdict()} for entry in lineage.entries()]
        print_json({"width": lineage.WIDTH, "source": lineage.SOURCE, "layers": rows})
    else:
        title = f"The lineage. bytes: of state at width {lineage.WIDTH}, after 1 → after 1,000 steps"
        print(render(title, lineage.COLUMNS, (entry.cells() for entry in lineage.entries()), lines=True), end="")


def task_flags() -> Flags:
    """The flags that the settings of tasks declare, those of earlier tasks first."""
    found: dict[str, Any] = {}
    for part in ("DataConfig", "Config"):
        for _, settings in tasks.declared("settings", part):
            found = flags_of(settings) | found
    return found


@command_with_flags(
    task_flags,
    lambda: {"task": f"{', '.join(tasks.names())}."},
    epilog="Example: [bold]recollect train text --data book.txt --model lstm --params 1M --steps 2000[/bold]",
)
def train(
    ctx: typer.Context,
    task: Annotated[str, typer.Argument(help="What is trained.")],
    recipe: Annotated[str | None, typer.Option(help="A recipe file; flags go before what it says.")] = None,
    model: Annotated[
        str | None,
        typer.Option(help="A name out of the lineage (for text also ngram, mixture), or one of RECOLLECT_LAYERS."),
    ] = None,
    cell: Annotated[str | None, typer.Option(help="Of translation and captions: rnn, gru or lstm.")] = None,
    width: Annotated[int | None, typer.Option(help="Width of the layers.")] = None,
    layers: Annotated[int | None, typer.Option(help="How many layers.")] = None,
    params: Annotated[str | None, typer.Option(help="Solve the width for so many parameters, such as 1M.")] = None,
    steps: Annotated[str | None, typer.Option(help="Budget in steps (default: 1,000).")] = None,
    tokens: Annotated[str | None, typer.Option(help="Budget in tokens, such as 10M.")] = None,
    seconds: Annotated[str | None, typer.Option(help="Budget in seconds.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    device: Device = "auto",
    out: Annotated[str | None, typer.Option(help="The run folder (default: runs/TASK-MODEL-SEED).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    init: Annotated[str | None, typer.Option(help="Start from another run's weights.")] = None,
    of: Annotated[list[str] | None, typer.Option(help="For --model mixture: the two runs.")] = None,
    data_dir: DataDir = None,
    settings: Set = None,
    json: Json = False,
    **flags: Any,
) -> None:
    """Train one model into a run folder. It can be stopped at any time and continued with --resume."""
    from ..train import run as runs
    from ..train.progress import Progress
    from ..train.recipe import Recipe, read_recipe

    kind, where = tasks.find(task), device_of(device)
    if resume:
        if out is None:
            raise SettingError("--resume: expected --out with the folder of the run to go on with")
        _check_flags(ctx, RESUMED, "--resume: expected no setting but --steps, since a run goes on as it began")
        longer = None if steps is None else parse("--steps", steps, int)
        found = runs.resume(out, task=kind, device=where, data_dir=data_dir, longer=longer, progress=Progress())
        _report(out, found, kind.headline(found), json)
        return
    base = read_recipe(recipe, task) if recipe else Recipe(task=task)
    model = model or base.model or kind.default
    out = out or f"runs/{task}-{model}-{seed or 0}"
    given: dict[str, Any] = {"device": where, "data_dir": data_dir, "progress": Progress()}
    if model in kind.combined:
        if not of or len(of) != 2:
            raise SettingError(f"--model {model}: expected --of twice, once for each run")
        _check_flags(ctx, COMBINED, f"--model {model}: expected no setting, since it is fitted from two runs at once")
        found = runs.combine(kind, model, of, out, **given)
        _report(out, found, kind.headline(found), json)
        return
    if of:
        others = ", ".join(name for other in tasks.every() for name in other.combined)
        raise SettingError(f"--of: expected it with --model {others}, found it with --model {model}")
    words = {
        "width": width, "layers": layers, "cell": cell, "steps": steps, "tokens": tokens, "seconds": seconds,
        "lr": lr, "seed": seed,
    }  # fmt: skip
    data, numbers = _split_flags(flags)
    texts = base.settings | {name: str(value) for name, value in (words | numbers).items() if value is not None}
    config = runs.configure(kind, texts | split(settings or []), model=model, **base.data_settings() | data)
    size = params or base.params
    wanted = None if size is None else int(number(size, "--params"))
    found = runs.train(kind, config, out, params=wanted, init=init, **given)
    _report(out, found, kind.headline(found), json)


RESUMED = ("resume", "out", "steps", "device", "data_dir", "json")
COMBINED = ("model", "of", "out", "device", "data_dir", "json")


def _split_flags(flags: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The declared flags that were given: names of data, which have their types already, and numbers, to be parsed."""
    declared = task_flags()
    given = {name: value for name, value in flags.items() if value not in (None, (), [])}
    numeric = {name for name in given if int in get_args(declared[name][1]) or declared[name][1] is int}
    data = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return (
        {name: value for name, value in data.items() if name not in numeric},
        {name: value for name, value in data.items() if name in numeric},
    )


def _check_flags(ctx: typer.Context, allowed: Sequence[str], expected: str) -> None:
    """A flag that would change nothing is refused, not passed over."""
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(parameter.name or "")
        if parameter.name not in ("task", *allowed) and source is not None and source.name == "COMMANDLINE":
            raise ValueError(f"{expected}, found {parameter.opts[0]}; leave it out")


EvalData = Annotated[
    list[str] | None,
    typer.Option(help="Other data than the run's own; of a test of memory a dial, such as distance=200."),
]


@app.command("eval", epilog="Example: [bold]recollect eval runs/text-lstm-0 --rule stateful[/bold]")
def evaluate(
    run: Run,
    data: EvalData = None,
    part: Annotated[str, typer.Option("--split", help="train, valid or test.")] = "valid",
    rule: Annotated[str | None, typer.Option(help="Of text: windows, stateful, sliding or all.")] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Measure a run: its metric, and the rule by which it was computed."""
    from ..train import run as runs

    kind = runs.task_of(run)
    options: dict[str, Any] = {} if rule is None else {"rules": kind.evaluation_rules(rule)}
    where = device_of(device)
    found = runs.evaluate(run, split=part, data=data or (), device=where, data_dir=data_dir, **options)
    if "changed" in found:
        print(f"note: {found['changed']}", file=sys.stderr)
    if json:
        print_json(found)
        return
    from ..report.table import render

    columns, rows, below = kind.table(found)
    print(render(f"{run}: {found['data']}, {part}", columns, rows), end="")
    for line in below:
        print(line)
    if found.get("baselines_seen"):
        print("baselines that count or fit do so on the data measured here: they have seen its answers")


def _report(out: str, found: dict[str, Any], headline: str, json: bool) -> None:
    """What a training run ends with."""
    if json:
        print_json({"run": out} | {name: value for name, value in found.items() if name != "by_position"})
    else:
        print(f"{out}: {headline}")


@app.command(epilog="Example: [bold]recollect verify runs/text-lstm-0[/bold]")
def verify(run: Run, json: Json = False) -> None:
    """Run the laws of the contract on the trained weights of a run."""
    from ..train import run as runs

    errors = runs.verify(run)
    if json:
        print_json(errors)
        return
    width = max(8, *map(len, errors))
    for law, error in errors.items():
        print(f"{law:{width}} holds   largest error {error:.1e}")
