"""The race."""

import sys
from typing import Annotated

import typer

from .common import Data, DataDir, Device, Json, app, device_of, print_json


@app.command(epilog="Example: [bold]recollect race text --models lstm,transformer --params 500k --seeds 3[/bold]")
def race(
    task: Annotated[str, typer.Argument(help="The task: text.")] = "text",
    data: Data = None,
    models: Annotated[str | None, typer.Option(help="Names with commas between (default: the whole lineage).")] = None,
    params: Annotated[str, typer.Option(help="Parameters of each model.")] = "150k",
    steps: Annotated[int, typer.Option(help="Batches that each model learns from.")] = 200,
    batch: Annotated[int, typer.Option(help="Windows of a batch.")] = 16,
    context: Annotated[int, typer.Option(help="Tokens of a window.")] = 64,
    seeds: Annotated[int, typer.Option(help="How often each model runs.")] = 1,
    tokenizer: Annotated[str, typer.Option(help="chars, bytes, words or bpe.")] = "bytes",
    device: Device = "auto",
    data_dir: DataDir = None,
    out: Annotated[str, typer.Option(help="Where the rows go; a stopped race goes on from there.")] = "races/text",
    json: Json = False,
) -> None:
    """Every model of the lineage on the same text, on equal terms. With no data: Python's own library."""
    from pathlib import Path

    from .. import config as edge
    from ..layers import known
    from ..race import heat
    from ..report.table import render
    from ..train import text as job

    known("task", task, ["text"])
    chosen = [known("model", name.strip(), job.MODELS) for name in (models or ",".join(job.MODELS)).split(",")]
    terms = heat.Heat(
        models=tuple(chosen), params=int(edge.number(params)), steps=steps, batch=batch, context=context, seeds=seeds
    )
    rows = heat.run(
        terms,
        job.DataConfig(data=tuple(data or ()), tokenizer=tokenizer),
        Path(out),
        device=device_of(device),
        data_dir=data_dir,
        command=" ".join(["recollect", *sys.argv[1:]]),
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    if json:
        print_json(rows)
        return
    good = [row for row in rows if "error" not in row]
    columns, lines = heat.table(rows)
    title = f"{good[0]['data'] if good else 'text'}: {steps} steps of {batch} × {context} tokens, {params} parameters"
    print(render(title, columns, lines), end="")
    if good:
        guesses = "  ".join(f"{name} {value:.3f}" for name, value in good[0]["baselines"].items())
        print(f"nats/token on validation, {good[0]['metric']['rule']}; without learning: {guesses}")
        _say_about_ngram(lines)
    print(f"rows: {out}/results.jsonl")


def _say_about_ngram(lines: list[list[str]]) -> None:
    place = next((i for i, line in enumerate(lines) if line[0] == "ngram"), None)
    if place is not None and place < len(lines) - 1:
        behind = len(lines) - 1 - place
        print(f"At this small budget the n-gram model, which only counts, is ahead of {behind} of the networks.")
