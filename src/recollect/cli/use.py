"""The commands that put a run to work."""

import sys
from typing import Annotated, Any

import typer

from ..core.language import localize
from .common import (
    DataDir,
    Device,
    Json,
    Run,
    app,
    check_utf8,
    device_of,
    is_live,
    lines_of_stdin,
    name_place,
    numbered,
    open_model,
    print_json,
    print_notes,
    read_stdin,
)


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
    state_in: Annotated[str | None, typer.Option(help="Go on from a saved state.", callback=name_place)] = None,
    state_out: Annotated[str | None, typer.Option(help="Save the state at the end.", callback=name_place)] = None,
    precision: Annotated[str | None, typer.Option(help="Of the weights: float32, float16, int8, bfloat16.")] = None,
    exact: Annotated[bool, typer.Option("--exact", help="By the model's own call alone: slower.")] = False,
    device: Device = "cpu",
) -> None:
    """Let a run write. The text streams to stdout; a prompt of - is read from stdin."""
    from ..core.files import check_place

    check_utf8("--prompt", prompt)
    check_utf8("--stop", stop)
    if state_out:
        check_place(state_out)
    model = open_model(run, "text", device=device_of(device))
    prompts = [read_stdin() if p == "-" else p for p in prompt or []]
    for number, text in enumerate(prompts, 1):
        if model.is_unknown(text):
            said = f"warning: prompt {number}: nothing but unknown tokens, so it says nothing"
            print(localize(said), file=sys.stderr)
    pieces = model.generate(
        prompts,
        length=length, greedy=greedy, temperature=temperature, top_k=top_k, top_p=top_p, penalty=penalty, seed=seed,
        stop=stop or [], state_in=state_in, state_out=state_out, precision=precision, exact=exact,
    )  # fmt: skip
    for piece in pieces:
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
    alignment: Annotated[
        str | None, typer.Option(help="Draw the map of each line: FILE.png, .svg or .pdf.", callback=name_place)
    ] = None,
    alignment_text: Annotated[
        str | None, typer.Option(help="Write word pairs (source-target) of each line.", callback=name_place)
    ] = None,
    layer: Annotated[int | None, typer.Option(help="The map of this layer (default: the mean of all).")] = None,
    head: Annotated[int | None, typer.Option(help="The map of this head.")] = None,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Translate lines from stdin to stdout, or as you type them. Empty lines stay empty; order and number are kept."""
    import json as jsons
    from contextlib import nullcontext

    from ..decode import pharaoh
    from ..report import alignment as drawing
    from ..report.drawing import figure

    if alignment:
        figure.check_path(alignment)
    if (layer or head) and not (alignment or alignment_text):
        raise ValueError("--layer and --head: expected --alignment or --alignment-text with them, found neither")
    model, live = open_model(run, "translation", device=device_of(device)), is_live()
    found = model.stream(
        lines_of_stdin(live), beam=beam, nbest=nbest, length_penalty=length_penalty, coverage=coverage,
        temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, alignments=bool(alignment or alignment_text),
        layer=layer, head=head, together=1 if live else 1024,
    )  # fmt: skip
    with open(alignment_text, "w", encoding="utf-8") if alignment_text else nullcontext() as pairs:
        for number, each in enumerate(found, 1):
            if alignment and each.texts:
                place = numbered(alignment, number)
                drawing.draw(each.alignment.tolist(), each.source_tokens, each.target_tokens, place, each.kind)
            if each.unknown:
                said = f"warning: line {number:,}: nothing but unknown tokens, so no translation"
                print(localize(said), file=sys.stderr)
            if pairs:
                pairs.write((pharaoh.line(each.pairs) if each.texts else "") + "\n")
            if json:
                line = {"line": number, "source": each.source, "best": _list_best(each)}
                print(jsons.dumps(line, ensure_ascii=False), flush=live)
            elif nbest == 1:
                print(each.text, flush=live)
            else:
                for text, score in zip(each.texts, each.scores, strict=True):
                    print(f"{number}\t{score:.4f}\t{text}", flush=live)


def _list_best(found: Any) -> list[dict[str, Any]]:
    """The texts of a translation or a caption for JSON, best first."""
    parts = zip(found.texts, found.scores, found.finished, strict=True)
    return [{"text": text, "score": score, "finished": finished} for text, score, finished in parts]


@app.command(epilog="Example: [bold]recollect caption runs/films-gru-0 film.gif --map gaze.png[/bold]")
def caption(
    run: Run,
    images: Annotated[
        list[str], typer.Argument(help="Pictures, or films: GIF files, folders of frames.", callback=name_place)
    ],
    beam: Annotated[int | None, typer.Option(help="Prefixes kept in the search; 1 is greedy.")] = None,
    nbest: Annotated[int, typer.Option(help="Captions of each, with their scores.")] = 1,
    length_penalty: Annotated[float | None, typer.Option(help="Above 0: longer captions score better.")] = None,
    map: Annotated[
        str | None,
        typer.Option(help="Draw where it looked for each word: FILE.png, .svg or .pdf.", callback=name_place),
    ] = None,
    layer: Annotated[int | None, typer.Option(help="The map of this layer (default: the mean of all).")] = None,
    head: Annotated[int | None, typer.Option(help="The map of this head.")] = None,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Say what pictures or films show, a line each; with --map a panel for each word, lit where the model looked."""
    import json as jsons

    from ..report import film_gaze
    from ..report import gaze as drawing
    from ..report.drawing import figure

    if map:
        figure.check_path(map)
    model = open_model(run, "captions", "films", device=device_of(device))
    given: dict[str, Any] = {"beam": beam, "nbest": nbest, "length_penalty": length_penalty}
    for number, found in enumerate(model.stream(images, gaze=bool(map), layer=layer, head=head, **given), 1):
        print_notes(found.notes)
        if map:
            place = numbered(map, number)
            draw = film_gaze.draw if found.gaze.ndim == 4 else drawing.draw
            draw(model.view(found.file), found.words, found.gaze.tolist(), place, found.kind)
        if json:
            print(jsons.dumps({"file": found.file, "best": _list_best(found)}, ensure_ascii=False))
        else:
            for text, score in zip(found.texts, found.scores, strict=True):
                mark = f"\t{score:.4f}" if nbest > 1 else ""
                name = f"{found.file}\t" if len(images) > 1 or nbest > 1 else ""
                print(f"{name}{text}{mark}")


@app.command(epilog="Example: [bold]recollect transcribe runs/transcribe-ctc-0 said.wav --map heard.png[/bold]")
def transcribe(
    run: Run,
    sounds: Annotated[list[str], typer.Argument(help="Recordings.", callback=name_place)],
    beam: Annotated[int | None, typer.Option(help="Prefixes kept in the search; 1 is greedy.")] = None,
    nbest: Annotated[int, typer.Option(help="Texts of each recording, with their scores.")] = 1,
    length_penalty: Annotated[float | None, typer.Option(help="Above 0: longer texts score better.")] = None,
    map: Annotated[
        str | None,
        typer.Option(help="Draw where each character was heard: FILE.png, .svg or .pdf.", callback=name_place),
    ] = None,
    layer: Annotated[int | None, typer.Option(help="The map of this layer (default: the mean of all).")] = None,
    head: Annotated[int | None, typer.Option(help="The map of this head.")] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Write as the sound comes in, of any length: by ctc from left to right.")
    ] = False,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Write what is said in recordings, a line each; with --map over the spectrogram where each character was heard."""
    import json as jsons

    from ..api.loading import load_task
    from ..report import spectrogram as drawing
    from ..report.drawing import figure

    if map:
        figure.check_path(map)
    if stream and (map or nbest > 1 or beam not in (None, 1)):
        raise ValueError("--stream: expected it without --map, --nbest and --beam, found one of them; leave it out")
    model = load_task(run, "transcribe", device=device_of(device))
    if stream:
        for file in sounds:
            print(f"{file}\t" if len(sounds) > 1 else "", end="", flush=True)
            for piece in model.listen(model.open(file)):
                print(piece, end="", flush=True)
            print()
        return
    given: dict[str, Any] = {"beam": beam, "nbest": nbest, "length_penalty": length_penalty}
    for number, found in enumerate(model.stream(sounds, alignment=bool(map), layer=layer, head=head, **given), 1):
        if map:
            _draw_heard(drawing, found, numbered(map, number))
        if json:
            line = {"file": found.file, "seconds": round(found.seconds, 3), "best": _list_best(found)}
            print(jsons.dumps(line, ensure_ascii=False))
        else:
            for text, score in zip(found.texts, found.scores, strict=True):
                mark = f"\t{score:.4f}" if nbest > 1 else ""
                name = f"{found.file}\t" if len(sounds) > 1 or nbest > 1 else ""
                print(f"{name}{text}{mark}")


def _draw_heard(drawing: Any, found: Any, place: str) -> None:
    """The map of a transcript; where nothing was heard, a line says so."""
    if not found.characters:
        print(localize(f"note: {found.file}: nothing was heard, so there is no map"), file=sys.stderr)
        return
    frame = found.seconds / len(found.spectrum)
    times = {"frame": frame, "step": found.step}
    drawing.draw(found.spectrum, found.alignment, found.characters, place, title=found.kind, unit=found.unit, **times)


@app.command(epilog="Example: [bold]recollect classify runs/labels-gru-0 reviews.csv --column comment[/bold]")
def classify(
    run: Run,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="Text files, a row a line, .csv and .tsv tables, or recordings (default: stdin).", callback=name_place
        ),
    ] = None,
    column: Annotated[str | None, typer.Option(help="The column of texts in a table: its name, or a number.")] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Of files that are no UTF-8: their encoding, such as gb18030.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Rows of a batch.")] = 256,
    device: Device = "cpu",
    json: Json = False,
) -> None:
    """Label lines, a table's texts or recordings: label, a tab, its probability. Without a known word: nothing."""
    import json as jsons
    from itertools import chain
    from pathlib import Path

    def warn(number: int) -> None:
        print(localize(f"warning: row {number:,}: nothing but unknown tokens, so no label"), file=sys.stderr)

    model = open_model(run, "labels", device=device_of(device))
    if column is not None and not files:
        raise ValueError("--column: expected a table with it, found none; name its file")
    if encoding is not None and not files:
        raise ValueError("--encoding: expected a file with it, found none; name the file")
    given = chain.from_iterable(model.read(Path(name), column, encoding) for name in files or ())
    for answer in model.stream(given if files else lines_of_stdin(is_live()), batch=batch, on_unknown=warn):
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
    plot: Annotated[
        str | None, typer.Option(help="Draw history and forecast into a .png, .svg or .pdf.", callback=name_place)
    ] = None,
    out: Annotated[
        str | None, typer.Option(help="Write the CSV or JSON there (default: stdout).", callback=name_place)
    ] = None,
    device: Device = "cpu",
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """What follows the end of a table, with intervals: CSV of time, series, mean, lower, upper, how."""
    import csv
    from contextlib import nullcontext

    from ..report.drawing import figure
    from ..tasks.series import use
    from ..tasks.series.tables.gaps import bridged

    if plot:
        figure.check_path(plot)
    model = open_model(run, "series", device=device_of(device), data_dir=data_dir)
    if fill:
        rows, table = model.fill(file), model.open(file)
        notes = [] if rows else [f"{file}: no gap to fill"]
        if bare := sum(row.lower is None for row in rows):
            notes.append(
                f"{bare:,} of {len(rows):,} filled values have no interval: less than a look-back lies before them, "
                "few stretches of their length are whole, or they lie beyond the horizon of the run"
            )
    else:
        ahead = model.forecast(file, horizon)
        rows, table, notes = ahead.rows(), ahead.history, ahead.notes
    print_notes(notes)
    with open(out, "w", newline="", encoding="utf-8") if out else nullcontext(sys.stdout) as target:
        if json:
            print_json([row._asdict() for row in rows], target)
        else:
            writer = csv.writer(target, lineterminator="\n")
            writer.writerow(use.Row._fields)
            writer.writerows(rows)  # what is not known is an empty cell
    if plot and rows:
        from ..report.series import plot as draw

        shown = use.history(table, None if fill else model.shown)
        drawn = bridged(table, rows) if fill else rows
        print_notes(draw(shown, drawn, plot, table.times.style, period=model.period, baselines=not fill))
