"""The commands that make a run and measure it."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from .common import Data, DataDir, Device, Json, Run, Set, app, device_of, print_json


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


@app.command(epilog="Example: [bold]recollect train text --data book.txt --model lstm --params 1M --steps 2000[/bold]")
def train(
    context: typer.Context,
    task: Annotated[
        str,
        typer.Argument(help="text, translation, series, captions, labels, ratings, copy, adding, recall, parity, gap."),
    ],
    recipe: Annotated[str | None, typer.Option(help="A recipe file; flags go before what it says.")] = None,
    data: Data = None,
    valid: Annotated[list[str] | None, typer.Option(help="Validation text (default: the end of the data).")] = None,
    tokenizer: Annotated[str | None, typer.Option(help="chars, bytes, words or bpe.")] = None,
    pair: Annotated[str | None, typer.Option(help="Of translation: the languages, such as en-de.")] = None,
    target: Annotated[list[str] | None, typer.Option(help="Of series: a column to forecast; may be repeated.")] = None,
    time: Annotated[str | None, typer.Option(help="Of series: the column that holds the time.")] = None,
    lookback: Annotated[int | None, typer.Option(help="Of series: points that are seen.")] = None,
    horizon: Annotated[int | None, typer.Option(help="Of series: points ahead.")] = None,
    vocab: Annotated[str | None, typer.Option(help="Vocabulary size, for words and bpe.")] = None,
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
    batch: Annotated[int | None, typer.Option(help="Rows of a batch.")] = None,
    window: Annotated[int | None, typer.Option("--context", help="Tokens of a window.")] = None,
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
) -> None:
    """Train one model into a run folder. It can be stopped at any time and continued with --resume."""
    from .. import config as edge
    from ..train import jobs
    from ..train import text as texts_job
    from ..train.progress import Progress

    job, where = jobs.named(task), device_of(device)
    if resume:
        if out is None:
            raise edge.SettingError("--resume: expected --out with the folder of the run to go on with")
        _check_flags(context, RESUMED, "--resume: expected no setting but --steps, since a run goes on as it began")
        more = None if steps is None else edge.parse("--steps", steps, int)
        found = job.resume(out, device=where, data_dir=data_dir, longer=more, progress=Progress())
        _report(out, found, job.headline(found), json)
        return
    cooked = edge.read_recipe(recipe) if recipe else edge.Recipe()
    model = model or cooked.model or job.default
    out = out or f"runs/{task}-{model}-{seed or 0}"
    if model == "mixture":
        if not of or len(of) != 2:
            raise edge.SettingError("--model mixture: expected --of twice, once for each run")
        _check_flags(context, MIXED, "--model mixture: expected no setting, since it is fitted from two runs at once")
        found = texts_job.mix(of[0], of[1], out, device=where, data_dir=data_dir)
        _report(out, found, job.headline(found), json)
        return
    if of:
        raise edge.SettingError(f"--of: expected it with --model mixture, found it with --model {model}")
    given = {
        "width": width, "layers": layers, "steps": steps, "tokens": tokens, "seconds": seconds, "batch": batch,
        "context": window, "lr": lr, "seed": seed, "vocab": vocab, "lookback": lookback, "horizon": horizon,
        "cell": cell,
    }  # fmt: skip
    flags = {name: str(value) for name, value in given.items() if value is not None}
    texts = cooked.settings | flags | edge.split(settings or [])
    sources = {
        "data": tuple(data or cooked.data),
        "valid": tuple(valid or ()),
        "tokenizer": tokenizer or cooked.tokenizer,
        "pair": pair or cooked.pair,
        "target": tuple(target or ()),
        "time": time,
    }
    run = job.configure(texts, model=model, **{name: value for name, value in sources.items() if value})
    size = params or cooked.params
    wanted = None if size is None else int(edge.number(size, "--params"))
    found = job.train(run, out, device=where, data_dir=data_dir, params=wanted, init=init, progress=Progress())
    _report(out, found, job.headline(found), json)


RESUMED = ("resume", "out", "steps", "device", "data_dir", "json")
MIXED = ("model", "of", "out", "device", "data_dir", "json")


def _check_flags(context: typer.Context, allowed: Sequence[str], expected: str) -> None:
    """A flag that would change nothing is refused, not passed over."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
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
    split: Annotated[str, typer.Option(help="train, valid or test.")] = "valid",
    rule: Annotated[str | None, typer.Option(help="Of text: windows, stateful, sliding or all.")] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Measure a run: its metric, and the rule by which it was computed."""
    from ..train import jobs

    job = jobs.job_of(run)
    options: dict[str, Any] = {} if rule is None else {"rules": job.rules(rule)}
    found = job.measure(run, split=split, data=data or (), device=device_of(device), data_dir=data_dir, **options)
    if "changed" in found:
        print(f"note: {found['changed']}", file=sys.stderr)
    if json:
        print_json(found)
        return
    from ..report.table import render

    columns, rows, below = job.table(found)
    print(render(f"{run}: {found['data']}, {split}", columns, rows), end="")
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
    from ..train import jobs

    errors = jobs.job_of(run).verify(run)
    if json:
        print_json(errors)
        return
    for law, error in errors.items():
        print(f"{law:8} holds   largest error {error:.1e}")
