"""The commands that make a run and measure it."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, get_args

import typer

from .. import tasks
from ..core.errors import RecollectError
from ..core.language import localize
from ..core.limits import one_line
from ..core.settings import SettingError, flags_of, parse, split
from .common import (
    DataDir,
    Device,
    Flags,
    Json,
    Log,
    Run,
    Set,
    app,
    command_with_flags,
    name_place,
    print_json,
    print_notes,
)


@app.command(epilog="Example: [bold]recollect models --json[/bold]")
def models(json: Json = False) -> None:
    """The lineage: what each layer remembers, how it updates that and how it reads it."""
    from ..layers import lineage
    from ..report.table import write_entries

    if json:
        rows = [vars(entry) | {"card": entry.card._asdict()} for entry in lineage.entries()]
        print_json({"width": lineage.WIDTH, "source": lineage.SOURCE, "layers": rows})
    else:
        print(
            localize(f"The lineage. bytes: of state at width {lineage.WIDTH}, after 1 → after 1,000 steps"), end="\n\n"
        )
        for entry in lineage.entries():
            name, *cells = entry.cells()
            named = zip(map(localize, lineage.COLUMNS[1:]), map(localize, cells), strict=True)
            print(write_entries(name, dict(named)))


@app.command(epilog="Example: [bold]recollect runs runs[/bold]")
def runs(
    folder: Annotated[
        str | None, typer.Argument(help="Where to look (default: runs, and what ships).", callback=name_place)
    ] = None,
    json: Json = False,
) -> None:
    """What has been trained: task, model, data, the metric on validation, size and date of each run."""
    from pathlib import Path

    from ..core.numbers import MISSING, count, scaled
    from ..report.table import render
    from ..training.listing import list_runs

    if folder is not None and not Path(folder).is_dir():
        raise ValueError(
            f"{folder}: expected a folder with runs, found {'a file' if Path(folder).exists() else 'none'}"
        )
    found = list_runs(None if folder is None else Path(folder))
    if json:
        print_json([vars(entry) for entry in found])
        return
    rows = [
        [
            each.run, each.task, each.model, each.data, _measured(each.metric, each.value), count(each.params),
            scaled(each.bytes, "B"),
            (each.date or MISSING)[:10], localize(each.state),
        ]
        for each in found
    ]  # fmt: skip
    print(render(f"{len(rows):,} run{'s' * (len(rows) != 1)}", RUN_COLUMNS, rows), end="")


RUN_COLUMNS = ("run", "task", "model", "data", "valid", "params", "file", "date", "state")


def _measured(metric: str | None, value: float | None) -> str:
    """The figure of validation with its name, where a run has them."""
    from ..core.numbers import MISSING

    if metric and metric.startswith("minus_") and value is not None:  # training lowers its figure
        metric, value = metric.removeprefix("minus_"), -value
    named = [localize(metric)] if metric else []
    return " ".join([*named, MISSING if value is None else f"{value:.4f}"])


def task_flags() -> Flags:
    """The flags that the settings of tasks declare, those of earlier tasks first."""
    found: dict[str, Any] = {}
    for part in ("DataConfig", "Config"):
        for _, settings in tasks.declared("settings", part):
            found = flags_of(settings) | found
    return found


@command_with_flags(
    task_flags,
    lambda: {"task": f"One of {', '.join(tasks.names())}."},
    epilog="Example: [bold]recollect train text --data book.txt --model lstm --params 1M --steps 2000[/bold]",
)
def train(
    ctx: typer.Context,
    task: Annotated[str, typer.Argument(help="What is trained.")],
    recipe: Annotated[
        str | None, typer.Option(help="A recipe file; flags go before what it says.", callback=name_place)
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="A name out of the lineage (for text also ngram, mixture), or one of RECOLLECT_LAYERS."),
    ] = None,
    cell: Annotated[str | None, typer.Option(help="Of translation, captions and films: rnn, gru or lstm.")] = None,
    width: Annotated[int | None, typer.Option(help="Width of the layers.")] = None,
    layers: Annotated[int | None, typer.Option(help="How many layers.")] = None,
    params: Annotated[str | None, typer.Option(help="Solve the width for so many parameters, such as 1M.")] = None,
    steps: Annotated[str | None, typer.Option(help="Budget in steps (default: 1,000).")] = None,
    tokens: Annotated[str | None, typer.Option(help="Budget in tokens, such as 10M.")] = None,
    seconds: Annotated[str | None, typer.Option(help="Budget in seconds.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    device: Device = "auto",
    out: Annotated[
        str | None, typer.Option(help="The run folder (default: runs/TASK-MODEL-SEED).", callback=name_place)
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    init: Annotated[str | None, typer.Option(help="Start from another run's weights.", callback=name_place)] = None,
    of: Annotated[
        list[str] | None, typer.Option(help="For --model mixture: the two runs.", callback=name_place)
    ] = None,
    data_dir: DataDir = None,
    log: Log = None,
    ranks: Annotated[
        int | None,
        typer.Option(min=1, help="Train on so many processes of this machine; torchrun for several machines."),
    ] = None,
    shard: Annotated[
        bool, typer.Option("--shard", help="Among ranks: divide the weights among them (FSDP), for large models.")
    ] = False,
    settings: Set = None,
    json: Json = False,
    **flags: Any,
) -> None:
    """Train one model into a run folder. It can be stopped at any time and continued with --resume."""
    from ..api import training

    kind = tasks.find(task)
    if ranks is not None and not among_ranks():
        raise typer.Exit(launch_ranks(ranks))
    if resume:
        if out is None:
            raise SettingError("--resume: expected --out with the folder of the run to go on with")
        _check_flags(ctx, RESUMED, "--resume: expected no setting but --steps, since a run goes on as it began")
        longer = None if steps is None else parse("--steps", steps, int)
        with leaving_quietly():
            found = training.run_resume(
                out, task=task, steps=longer, device=device, data_dir=data_dir, log=log, shard=shard, progress=True
            )
        if found:
            _report(out, found, kind.headline(found), json)
        return
    if model in kind.combined:
        _check_flags(ctx, COMBINED, f"--model {model}: expected no setting, since it is fitted from two runs at once")
    words = {
        "width": width, "layers": layers, "cell": cell, "steps": steps, "tokens": tokens, "seconds": seconds,
        "lr": lr, "seed": seed,
    }  # fmt: skip
    sources, numbers = split_flags(flags)
    texts = {name: str(value) for name, value in (words | numbers).items() if value is not None}
    with leaving_quietly():
        place, found = training.run_training(
            task, sources.pop("data", ()), sources=sources, model=model, params=params, out=out, recipe=recipe,
            init=init, of=of or (), device=device, data_dir=data_dir, log=log, shard=shard, progress=True,
            settings=texts | split(settings or []),
        )  # fmt: skip
    if found:
        _report(str(place), found, kind.headline(found), json)


def among_ranks() -> bool:
    """Whether this process is one of the ranks that `--ranks` has started."""
    return "RECOLLECT_RANKS" in os.environ


def launch_ranks(ranks: int) -> int:
    """This command on so many ranks; its exit code."""
    from ..training.launch import launch

    return launch(sys.argv[1:], ranks)


@contextmanager
def leaving_quietly() -> Iterator[None]:
    """A rank that others have left says nothing where `--ranks` does, which knows who left."""
    try:
        yield
    except RecollectError as error:
        from ..training.ranks import LOST, RankLost

        if isinstance(error, RankLost) and among_ranks():
            raise typer.Exit(LOST) from error
        raise


LONG = ("by_position", "pieces")  # of an evaluation, left out at the end of a training
RESUMED = ("resume", "out", "steps", "device", "data_dir", "log", "ranks", "shard", "json")
COMBINED = ("model", "of", "out", "device", "data_dir", "log", "json")


def split_flags(flags: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
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
    from ..api.training import evaluate as measure

    found = measure(run, split=part, data=data or (), rule=rule, device=device, data_dir=data_dir)
    print_notes([*([found["changed"]] if "changed" in found else []), *found.get("notes", [])])
    if json:
        print_json(found)
        return
    from ..report.table import render
    from ..training.run import task_of

    columns, rows, below = task_of(run).table(found)
    rows = [[localize(cell) for cell in row] for row in rows]
    print(render(f"{run}: {found['data']}, {localize(part)}", columns, rows), end="")
    for line in below:
        print(localize(line))
    if found.get("baselines_seen"):
        print(localize("baselines that count or fit do so on the data measured here: they have seen its answers"))


def _report(out: str, found: dict[str, Any], headline: str, json: bool) -> None:
    """What a training run ends with."""
    if json:
        print_json({"run": out} | {name: value for name, value in found.items() if name not in LONG})
    else:
        print(f"{out}: {localize(headline)}")
        if words := found.get("beside_baselines"):
            print(localize(words))


@app.command(epilog="Example: [bold]recollect verify runs/text-lstm-0[/bold]")
def verify(run: Run, json: Json = False) -> None:
    """Run the laws of the contract on the trained weights of a run."""
    from ..api.training import verify as run_laws
    from ..core.laws import Exempt

    found = run_laws(run)
    broken = {law: one_line(str(error)) for law, error in found.items() if isinstance(error, Exception)}
    exempt = {law: error.reason for law, error in found.items() if isinstance(error, Exempt)}
    if json:
        unheld = [("broken", broken), ("exempt", exempt)]
        print_json(found | {law: {kind: why} for kind, laws in unheld for law, why in laws.items()})
    else:
        width = max(8, *map(len, found))
        for law, error in found.items():
            if law in broken:
                words = f"BROKEN  {broken[law]}"
            else:
                words = f"exempt  {exempt[law]}" if law in exempt else f"holds   largest error {error:.1e}"
            print(f"{law:{width}} {localize(words)}")
    if broken:
        raise ValueError(
            f"{run}: expected every law to hold, found {len(broken)} of {len(found)} broken: {', '.join(broken)}"
        )
