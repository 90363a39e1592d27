"""The command line: parses, calls, prints. Nothing heavy is imported before a command needs it."""

import sys
from typing import Annotated, Any

import typer

app = typer.Typer(
    name="recollect",
    help="Every way a neural network can remember a sequence, behind one call.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if version:
        from . import __version__

        print(__version__)
        raise typer.Exit


@app.command(epilog="Example: [bold]recollect models --json[/bold]")
def models(json: Json = False) -> None:
    """The lineage: what each layer remembers, how it updates that and how it reads it."""
    from .layers import lineage
    from .report.table import render

    if json:
        rows = [vars(entry) | {"card": entry.card._asdict()} for entry in lineage.entries()]
        _print_json({"width": lineage.WIDTH, "source": lineage.SOURCE, "layers": rows})
    else:
        title = f"The lineage. bytes: of state at width {lineage.WIDTH}, after 1 → after 1,000 steps"
        print(render(title, lineage.COLUMNS, (entry.cells() for entry in lineage.entries()), lines=True), end="")


Data = Annotated[list[str] | None, typer.Option(help="File, folder or known set; may be given more than once.")]
DataDir = Annotated[str | None, typer.Option(help="Folder with copies of the known sets (or RECOLLECT_DATA).")]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto.")]
Run = Annotated[str, typer.Argument(help="A run folder.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="key=value: any other setting.", show_default=False)]


@app.command(epilog="Example: [bold]recollect train text --data book.txt --model lstm --params 1M --steps 2000[/bold]")
def train(
    task: Annotated[
        str, typer.Argument(help="text, translation, series, labels, ratings, copy, adding, recall, parity, gap.")
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
        str | None, typer.Option(help="A name out of the lineage; for text also ngram and mixture.")
    ] = None,
    width: Annotated[int | None, typer.Option(help="Width of the layers.")] = None,
    layers: Annotated[int | None, typer.Option(help="How many layers.")] = None,
    params: Annotated[str | None, typer.Option(help="Solve the width for so many parameters, such as 1M.")] = None,
    steps: Annotated[str | None, typer.Option(help="Budget in steps (default: 1,000).")] = None,
    tokens: Annotated[str | None, typer.Option(help="Budget in tokens, such as 10M.")] = None,
    seconds: Annotated[str | None, typer.Option(help="Budget in seconds.")] = None,
    batch: Annotated[int | None, typer.Option(help="Rows of a batch.")] = None,
    context: Annotated[int | None, typer.Option(help="Tokens of a window.")] = None,
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
    from . import config as edge
    from .train import jobs
    from .train import text as texts_job
    from .train.progress import Progress

    job, where = jobs.named(task), _device(device)
    if resume:
        if out is None:
            raise edge.SettingError("--resume: expected --out with the folder of the run to go on with")
        more = None if steps is None else int(edge.number(steps))
        found = job.resume(out, device=where, data_dir=data_dir, longer=more, progress=Progress())
        _report(out, found, job.headline(found), json)
        return
    cooked = edge.read_recipe(recipe) if recipe else edge.Recipe()
    model = model or cooked.model or job.default
    out = out or f"runs/{task}-{model}-{seed or 0}"
    if model == "mixture":
        if not of or len(of) != 2:
            raise edge.SettingError("--model mixture: expected --of twice, once for each run")
        found = texts_job.mix(of[0], of[1], out, device=where, data_dir=data_dir)
        _report(out, found, job.headline(found), json)
        return
    given = {
        "width": width, "layers": layers, "steps": steps, "tokens": tokens, "seconds": seconds, "batch": batch,
        "context": context, "lr": lr, "seed": seed, "vocab": vocab, "lookback": lookback, "horizon": horizon,
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
    wanted = None if size is None else int(edge.number(size))
    found = job.train(run, out, device=where, data_dir=data_dir, params=wanted, init=init, progress=Progress())
    _report(out, found, job.headline(found), json)


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
    from .train import jobs

    job = jobs.job_of(run)
    options: dict[str, Any] = {} if rule is None else {"rules": job.rules(rule)}
    found = job.measure(run, split=split, data=data or (), device=_device(device), data_dir=data_dir, **options)
    if json:
        _print_json(found)
        return
    from .report.table import render

    columns, rows, below = job.table(found)
    print(render(f"{run}: {found['data']}, {split}", columns, rows), end="")
    for line in below:
        print(line)


@app.command(epilog='Example: [bold]recollect generate runs/text-lstm-0 --prompt "KING:" --temperature 0.8[/bold]')
def generate(
    run: Run,
    prompt: Annotated[list[str] | None, typer.Option(help="What to go on from; several make a batch.")] = None,
    length: Annotated[int, typer.Option(help="Tokens to write.")] = 300,
    temperature: Annotated[float, typer.Option(help="Below 1 bolder, above 1 wilder.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k likeliest tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw from the fewest tokens with this much probability.")] = None,
    penalty: Annotated[float, typer.Option(help="Above 1: what was written becomes less likely.")] = 1.0,
    greedy: Annotated[bool, typer.Option("--greedy", help="Always the likeliest token.")] = False,
    stop: Annotated[list[str] | None, typer.Option(help="Stop when this was written.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same text.")] = 0,
    state_in: Annotated[str | None, typer.Option(help="Go on from a saved state.")] = None,
    state_out: Annotated[str | None, typer.Option(help="Save the state at the end.")] = None,
    device: Device = "cpu",
) -> None:
    """Let a run write. The text streams to stdout; a prompt of - is read from stdin."""
    from .decode import sample, stream
    from .train.text import JOB

    used = JOB.load(run, _device(device))
    config = sample.Config(
        length=length, greedy=greedy, temperature=temperature, top_k=top_k, top_p=top_p, penalty=penalty, seed=seed
    )
    prompts = [sys.stdin.read() if p == "-" else p for p in prompt or []]
    ends = {"stops": stop or [], "state_in": state_in, "state_out": state_out}
    for piece in stream.write(used.model, used.kept, prompts, config, **ends):
        print(piece, end="", flush=True)
    print()


@app.command(epilog="Example: [bold]recollect translate runs/translation-attend-0 --beam 5 < in.txt > out.txt[/bold]")
def translate(
    run: Run,
    beam: Annotated[int | None, typer.Option(help="Prefixes kept in the search; 1 is greedy.")] = None,
    nbest: Annotated[int, typer.Option(help="Translations of each line, with their scores.")] = 1,
    length_penalty: Annotated[float | None, typer.Option(help="Above 0: longer translations score better.")] = None,
    coverage: Annotated[float | None, typer.Option(help="Above 0: the whole source should be looked at.")] = None,
    temperature: Annotated[float | None, typer.Option(help="Draw instead of searching.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k likeliest tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw from the fewest tokens with this much probability.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same draws.")] = 0,
    alignment: Annotated[str | None, typer.Option(help="Draw the map of each line: FILE.png, .svg or .pdf.")] = None,
    alignment_text: Annotated[str | None, typer.Option(help="Write word pairs (source-target) of each line.")] = None,
    layer: Annotated[int | None, typer.Option(help="The map of this layer (default: the mean of all).")] = None,
    head: Annotated[int | None, typer.Option(help="The map of this head.")] = None,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Translate lines from stdin to stdout, or as you type them. Empty lines stay empty; order and number are kept."""
    import json as jsons
    from contextlib import nullcontext

    from .decode import pharaoh
    from .decode.translate import lines, one_line
    from .measure.alignment import align
    from .report import alignment as drawing
    from .report import figure
    from .train.translation import JOB

    if alignment:
        figure.check_path(alignment)
    if (layer or head) and not (alignment or alignment_text):
        raise ValueError("--layer and --head: expected --alignment or --alignment-text with them, found neither")
    used = JOB.load(run, _device(device))
    source, target = used.kept
    given = {"beam": 1 if beam is None and temperature is not None else beam, "length_penalty": length_penalty}
    given |= {"coverage": coverage, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    search = used.run.task.search(nbest=nbest, **{name: value for name, value in given.items() if value is not None})
    live = sys.stdin.isatty()
    together = 1 if live else 1024
    with open(alignment_text, "w", encoding="utf-8") if alignment_text else nullcontext() as pairs:
        for number, (line, ids, found) in enumerate(
            lines(used.model, source, target, _lines(live), search, together=together), 1
        ):
            texts = [one_line(target.decode(hypothesis.tokens)) for hypothesis in found]
            if found and (alignment or pairs):
                aligned = align(used, ids, found[0], layer=layer, head=head)
                if alignment:
                    place = _numbered(alignment, number)
                    drawing.draw(aligned.weights.tolist(), aligned.source, aligned.target, place, aligned.kind)
                if pairs:
                    pairs.write(pharaoh.line(aligned.pairs))
            if pairs:
                pairs.write("\n")
            if json:
                best = [
                    {"text": text, "score": h.score, "finished": h.finished}
                    for text, h in zip(texts, found, strict=True)
                ]
                print(jsons.dumps({"line": number, "source": line, "best": best}, ensure_ascii=False), flush=live)
            elif nbest == 1:
                print(texts[0] if texts else "", flush=live)
            else:
                for text, hypothesis in zip(texts, found, strict=True):
                    print(f"{number}\t{hypothesis.score:.4f}\t{text}", flush=live)


def _numbered(path: str, number: int) -> str:
    """FILE.png for the first line, FILE-2.png for the second."""
    from pathlib import Path

    place = Path(path)
    return path if number == 1 else str(place.with_name(f"{place.stem}-{number}{place.suffix}"))


def _lines(live: bool) -> Any:
    """The lines of stdin, parted at \\n alone; on a terminal with a prompt, elsewhere with a count on stderr."""
    import time

    if live:
        print("one line at a time; end with Ctrl-D", file=sys.stderr)
    began = last = time.monotonic()
    number = 0
    while True:
        if live:
            print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.buffer.readline()
        if not line:
            return
        number += 1
        try:
            yield (
                line.decode("utf-8").removesuffix("\n").removesuffix("\r").removeprefix("\ufeff" if number == 1 else "")
            )
        except UnicodeDecodeError as error:
            raise ValueError(
                f"stdin, line {number}: expected UTF-8, found a byte that is none ({error.reason})"
            ) from None
        if not live and time.monotonic() - last > 5:
            last = time.monotonic()
            print(f"{number:,} lines read, {number / (last - began):,.0f} a second", file=sys.stderr, flush=True)


@app.command(epilog="Example: [bold]recollect caption runs/captions-attend-0 photo.jpg --map gaze.png[/bold]")
def caption(
    run: Run,
    images: Annotated[list[str], typer.Argument(help="Pictures.")],
    beam: Annotated[int | None, typer.Option(help="Prefixes kept in the search; 1 is greedy.")] = None,
    nbest: Annotated[int, typer.Option(help="Captions of each picture, with their scores.")] = 1,
    length_penalty: Annotated[float | None, typer.Option(help="Above 0: longer captions score better.")] = None,
    map: Annotated[str | None, typer.Option(help="Draw where it looked for each word: FILE.png, .svg or .pdf.")] = None,
    layer: Annotated[int | None, typer.Option(help="The map of this layer (default: the mean of all).")] = None,
    head: Annotated[int | None, typer.Option(help="The map of this head.")] = None,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Say what pictures show, a line each; with --map a panel for each word, lit where the model looked."""
    import json as jsons

    from .measure.gaze import gaze
    from .report import figure
    from .report import gaze as drawing
    from .train import captions as job

    if map:
        figure.check_path(map)
    used = job.JOB.load(run, _device(device))
    given = {"beam": max(beam or used.run.task.beam, nbest), "nbest": nbest, "length_penalty": length_penalty}
    search = used.run.task.search(**{name: value for name, value in given.items() if value is not None})
    for number, found in enumerate(job.caption(used, images, search), 1):
        for note in found.notes:
            print(f"note: {note}", file=sys.stderr)
        if map:
            seen = gaze(used, found.image, found.found[0], layer=layer, head=head)
            place = _numbered(map, number)
            drawing.draw(job.view(found.file), seen.words, seen.weights.tolist(), place, seen.kind)
        best = [
            {"text": text, "score": h.score, "finished": h.finished}
            for text, h in zip(found.texts, found.found, strict=True)
        ]
        if json:
            print(jsons.dumps({"file": found.file, "best": best}, ensure_ascii=False))
        else:
            for one in best:
                score = f"\t{one['score']:.4f}" if nbest > 1 else ""
                name = f"{found.file}\t" if len(images) > 1 or nbest > 1 else ""
                print(f"{name}{one['text']}{score}")


@app.command(epilog="Example: [bold]recollect classify runs/labels-gru-0 < lines.txt[/bold]")
def classify(
    run: Run,
    files: Annotated[list[str] | None, typer.Argument(help="Text files, a row a line (default: stdin).")] = None,
    batch: Annotated[int, typer.Option(help="Rows of a batch.")] = 256,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Label lines: label, a tab, its probability. An empty line stays empty."""
    import json as jsons
    from itertools import chain
    from pathlib import Path

    from .data import labels as sets
    from .train import labels as job

    used = job.JOB.load(run, _device(device))
    given = chain.from_iterable((line for _, line in sets.lines(Path(name))) for name in files or ())
    for answer in job.classify(used, given if files else _lines(sys.stdin.isatty()), batch=batch):
        if json:
            print("null" if answer is None else jsons.dumps(answer._asdict(), ensure_ascii=False))
        else:
            print("" if answer is None else f"{answer.label}\t{answer.probability:.4f}")


@app.command(epilog="Example: [bold]recollect forecast runs/series-gru-0 load.csv --plot load.svg > ahead.csv[/bold]")
def forecast(
    run: Run,
    file: Annotated[str, typer.Argument(help="A CSV file with the columns of the run, or a known set.")],
    horizon: Annotated[int | None, typer.Option(help="Points ahead (default: the run's own horizon).")] = None,
    fill: Annotated[bool, typer.Option("--fill", help="Fill the gaps inside instead of looking ahead.")] = False,
    plot: Annotated[str | None, typer.Option(help="Draw history and forecast into a .png, .svg or .pdf.")] = None,
    out: Annotated[str | None, typer.Option(help="Write the CSV there (default: stdout).")] = None,
    device: Device = "cpu",
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """What follows the end of a table, with intervals: CSV of time, series, mean, lower, upper, how."""
    import csv
    from contextlib import nullcontext

    from .train import series

    used = series.JOB.load(run, _device(device))
    table = series.open_file(used, file, data_dir)
    rows = list(series.fill(used, table) if fill else series.forecast(used, table, horizon))
    if json:
        _print_json([row._asdict() for row in rows])
    else:
        with open(out, "w", newline="", encoding="utf-8") if out else nullcontext(sys.stdout) as target:
            writer = csv.writer(target, lineterminator="\n")
            writer.writerow(series.Row._fields)
            writer.writerows(rows)  # what is not known is an empty cell
    if plot:
        from .report.series import plot as draw

        shown = series.history(table, max(3 * used.run.task.horizon, used.run.task.lookback))
        for note in draw(shown, rows, plot):
            print(f"note: {note}", file=sys.stderr)


@app.command(epilog="Example: [bold]recollect verify runs/text-lstm-0[/bold]")
def verify(run: Run, json: Json = False) -> None:
    """Run the laws of the contract on the trained weights of a run."""
    from .train import jobs

    errors = jobs.job_of(run).verify(run)
    if json:
        _print_json(errors)
        return
    for law, error in errors.items():
        print(f"{law:8} holds   largest error {error:.1e}")


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

    from . import config as edge
    from .layers import known
    from .race import heat
    from .report.table import render
    from .train import text as job

    known("task", task, ["text"])
    chosen = [known("model", name.strip(), job.MODELS) for name in (models or ",".join(job.MODELS)).split(",")]
    terms = heat.Heat(
        models=tuple(chosen), params=int(edge.number(params)), steps=steps, batch=batch, context=context, seeds=seeds
    )
    rows = heat.run(
        terms,
        job.DataConfig(data=tuple(data or ()), tokenizer=tokenizer),
        Path(out),
        device=_device(device),
        data_dir=data_dir,
        command=" ".join(["recollect", *sys.argv[1:]]),
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    if json:
        _print_json(rows)
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


def _device(name: str) -> str:
    if name == "cpu":
        return name
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"--device: expected a device of this machine, found {name!r}; use cpu or auto")
    return name


def _report(out: str, found: dict[str, Any], headline: str, json: bool) -> None:
    """What a training run ends with."""
    if json:
        _print_json({"run": out} | {name: value for name, value in found.items() if name != "by_position"})
    else:
        print(f"{out}: {headline}")


def _print_json(content: object) -> None:
    import json

    print(json.dumps(content, indent=1, ensure_ascii=False))


def main() -> None:
    """Run the command line; an error of the user's is one line on stderr and exit code 1."""
    try:
        app()
    except (ValueError, OSError) as error:
        # Our own errors are ValueErrors told in one line; an OSError names its file.
        print(f"recollect: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
