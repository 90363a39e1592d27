"""The commands that put a run to work."""

import sys
from typing import Annotated, Any

import typer

from .common import DataDir, Device, Json, Run, app, device_of, lines_of_stdin, numbered, print_json


@app.command(epilog='Example: [bold]recollect generate runs/text-lstm-0 --prompt "KING:" --temperature 0.8[/bold]')
def generate(
    run: Run,
    prompt: Annotated[list[str] | None, typer.Option(help="What to go on from; several make a batch.")] = None,
    length: Annotated[int, typer.Option(help="Tokens to write.")] = 300,
    temperature: Annotated[float, typer.Option(help="Below 1 the likeliest tokens gain, above 1 the others.")] = 1.0,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k likeliest tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw from the fewest tokens with this much probability.")] = None,
    penalty: Annotated[float, typer.Option(help="Above 1: what was written becomes less likely.")] = 1.0,
    greedy: Annotated[bool, typer.Option("--greedy", help="Always the likeliest token.")] = False,
    stop: Annotated[list[str] | None, typer.Option(help="Stop when this was written.")] = None,
    seed: Annotated[int, typer.Option(max=2**63 - 1, help="Same seed, same text.")] = 0,
    state_in: Annotated[str | None, typer.Option(help="Go on from a saved state.")] = None,
    state_out: Annotated[str | None, typer.Option(help="Save the state at the end.")] = None,
    precision: Annotated[str | None, typer.Option(help="Of the weights: float32, float16, int8, bfloat16.")] = None,
    exact: Annotated[bool, typer.Option("--exact", help="By the model's own call alone: slower.")] = False,
    device: Device = "cpu",
) -> None:
    """Let a run write. The text streams to stdout; a prompt of - is read from stdin."""
    from ..core.files import check_place
    from ..decode import sampling, stream
    from ..tasks.text.task import TextTask
    from ..train.run import load

    if state_out:
        check_place(state_out)
    loaded = load(run, device_of(device), task=TextTask)
    config = sampling.Config(
        length=length, greedy=greedy, temperature=temperature, top_k=top_k, top_p=top_p, penalty=penalty, seed=seed
    )
    prompts = [sys.stdin.read() if p == "-" else p for p in prompt or []]
    ends = {"stops": stop or [], "state_in": state_in, "state_out": state_out}
    options = {"precision": precision, "exact": exact}
    for piece in stream.generate_text(loaded.model, loaded.artifacts, prompts, config, **ends, **options):
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

    from ..decode import pharaoh
    from ..decode.translate import lines, one_line
    from ..report import alignment as drawing
    from ..report.drawing import figure
    from ..tasks.decoding import search_settings
    from ..tasks.translation.instruments import align
    from ..tasks.translation.task import TranslationTask
    from ..train.run import load

    if alignment:
        figure.check_path(alignment)
    if (layer or head) and not (alignment or alignment_text):
        raise ValueError("--layer and --head: expected --alignment or --alignment-text with them, found neither")
    loaded = load(run, device_of(device), task=TranslationTask)
    source, target = loaded.artifacts
    if beam is None:
        beam = 1 if temperature is not None else max(loaded.config.task.beam, nbest)
    given: dict[str, Any] = {"beam": beam, "nbest": nbest, "length_penalty": length_penalty}
    given |= {"coverage": coverage, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    search = search_settings(loaded.config.task, **{name: value for name, value in given.items() if value is not None})
    live = sys.stdin.isatty()
    together = 1 if live else 1024
    with open(alignment_text, "w", encoding="utf-8") if alignment_text else nullcontext() as pairs:
        for number, (line, ids, found) in enumerate(
            lines(loaded.model, source, target, lines_of_stdin(live), search, together=together), 1
        ):
            texts = [one_line(target.decode(hypothesis.tokens)) for hypothesis in found]
            if found and (alignment or pairs):
                aligned = align(loaded, ids, found[0], layer=layer, head=head)
                if alignment:
                    place = numbered(alignment, number)
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

    from ..report import gaze as drawing
    from ..report.drawing import figure
    from ..tasks.captions import use
    from ..tasks.captions.instruments import gaze
    from ..tasks.captions.task import CaptionsTask
    from ..tasks.decoding import search_settings
    from ..train.run import load

    if map:
        figure.check_path(map)
    loaded = load(run, device_of(device), task=CaptionsTask)
    width = max(loaded.config.task.beam, nbest) if beam is None else beam
    given: dict[str, Any] = {"beam": width, "nbest": nbest, "length_penalty": length_penalty}
    search = search_settings(loaded.config.task, **{name: value for name, value in given.items() if value is not None})
    for number, found in enumerate(use.caption(loaded, images, search), 1):
        for note in found.notes:
            print(f"note: {note}", file=sys.stderr)
        if map:
            seen = gaze(loaded, found.image, found.found[0], layer=layer, head=head)
            place = numbered(map, number)
            drawing.draw(use.view(found.file), seen.words, seen.weights.tolist(), place, seen.kind)
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
    batch: Annotated[int, typer.Option(min=1, help="Rows of a batch.")] = 256,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Label lines: label, a tab, its probability. An empty line stays empty."""
    import json as jsons
    from itertools import chain
    from pathlib import Path

    from ..data.files import lines
    from ..tasks.labels.task import LabelsTask
    from ..tasks.labels.use import classify as label_lines
    from ..train.run import load

    loaded = load(run, device_of(device), task=LabelsTask)
    given = chain.from_iterable(lines(Path(name)) for name in files or ())
    for answer in label_lines(loaded, given if files else lines_of_stdin(sys.stdin.isatty()), batch=batch):
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
    out: Annotated[str | None, typer.Option(help="Write the CSV or JSON there (default: stdout).")] = None,
    device: Device = "cpu",
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """What follows the end of a table, with intervals: CSV of time, series, mean, lower, upper, how."""
    import csv
    from contextlib import nullcontext

    from ..report.drawing import figure
    from ..tasks.series import use
    from ..tasks.series.data import prepare
    from ..tasks.series.gaps import bridged
    from ..tasks.series.task import SeriesTask
    from ..train.run import load

    if plot:
        figure.check_path(plot)
    loaded = load(run, device_of(device), task=SeriesTask)
    table = use.open_file(loaded, file, data_dir)
    if fill:
        rows = list(use.fill(loaded, table))
        notes = [] if rows else [f"{file}: no gap to fill"]
    else:
        rows = list(use.forecast(loaded, table, horizon))
        notes = prepare(table, "linear")[2]
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    with open(out, "w", newline="", encoding="utf-8") if out else nullcontext(sys.stdout) as target:
        if json:
            print_json([row._asdict() for row in rows], target)
        else:
            writer = csv.writer(target, lineterminator="\n")
            writer.writerow(use.Row._fields)
            writer.writerows(rows)  # what is not known is an empty cell
    if plot and rows:
        from ..report.series import plot as draw

        shown = use.history(table, None if fill else max(3 * loaded.config.task.horizon, loaded.config.task.lookback))
        drawn = bridged(table, rows) if fill else rows
        for note in draw(shown, drawn, plot, table.times.style):
            print(f"note: {note}", file=sys.stderr)
