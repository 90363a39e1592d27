"""The commands that hand a run to other programs, and make one of weights that another program trained."""

from typing import Annotated, Any

import typer

from ..core.language import localize
from ..core.settings import SettingError, known
from .common import DataDir, Json, Run, app, name_place, print_json

PRECISIONS = ("float32", "float16", "int8")


@app.command(
    epilog="Examples: [bold]recollect export runs/text-lstm-0 --out lstm-onnx --precision int8[/bold], "
    "[bold]recollect export demo-text --out demo-text-hub --to hub --license mit[/bold]"
)
def export(
    run: Run,
    out: Annotated[str, typer.Option(help="A new folder.")],
    precision: Annotated[str, typer.Option(help="Of the weights: float32, float16 or int8.")] = "float32",
    to: Annotated[str, typer.Option(help="The layout of the folder: onnx, or hub, that of Hugging Face.")] = "onnx",
    license: Annotated[
        str | None, typer.Option(help="With --to hub: the license of the weights, such as mit.", show_default=False)
    ] = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Write a run as files of ONNX, which any program can run without torch, or as a folder for Hugging Face's hub."""
    from ..training.run import load

    known("--precision", precision, PRECISIONS)
    write = TARGETS[known("--to", to, list(TARGETS))]
    write(load(run, data_dir=data_dir), out, precision, license, json=json)


def export_onnx(run: Any, out: str, precision: str, license: str | None, *, json: bool) -> None:
    """A folder with a graph for the step, and for whatever else the task has."""
    from pathlib import Path

    from ..export import package

    if license is not None:
        raise SettingError("--license: expected it with --to hub, found it with --to onnx; leave it out")
    place = Path(out)
    found = package.export(run, place, precision=precision)
    sizes = {name: (place / name).stat().st_size for name in found.files}
    if json:
        content = {"run": run.path.name, "out": out, "precision": precision, "files": sizes}
        quality = None if found.quality is None else vars(found.quality)
        print_json(content | {"agreement": vars(found.agreement), "quality": quality})
        return
    for name, size in sizes.items():
        print(f"{size / 1024:10,.1f} KiB  {name}")
    agreed = found.agreement
    steps = f"{agreed.steps} steps, " if agreed.steps else ""
    said = (
        f"largest error {agreed.largest_error:.1e} of the largest output ({steps}{' and '.join(agreed.inputs)} inputs, "
        f"batches of {' and '.join(map(str, agreed.batches))})"
    )
    print(localize(said))
    if found.quality is not None:
        cost = found.quality
        on = f" on {cost.tokens:,} tokens of {cost.split}" if cost.tokens else ""
        print(localize(f"{precision} weights: {cost.measure} {cost.before:.4g} before, {cost.after:.4g} after{on}"))


def export_hub(run: Any, out: str, precision: str, license: str | None, *, json: bool) -> None:
    """A folder with the run's own files and a model card."""
    from pathlib import Path

    from ..export import hub

    if precision != "float32":
        raise SettingError(f"--precision: expected it with --to onnx, found {precision} with --to hub; leave it out")
    place = Path(out)
    card = hub.export(run, place, license=license or hub.NO_LICENSE)
    sizes = {path.name: path.stat().st_size for path in sorted(place.iterdir())}
    if json:
        print_json({"run": run.path.name, "out": out, "license": card.license, "files": sizes, "metric": card.metric})
        return
    for name, size in sizes.items():
        print(f"{size / 1024:10,.1f} KiB  {name}")
    if card.metric is not None:
        print(f"{card.metric['name']} {card.metric['value']:.4g} ({card.metric['rule']})")
    for note in card.notes:
        print(localize(f"note: {note}"))


TARGETS: dict[str, Any] = {"onnx": export_onnx, "hub": export_hub}


@app.command(name="import", epilog="Example: [bold]recollect import gpt2 --out runs/gpt2[/bold]")
def import_run(
    folder: Annotated[str, typer.Argument(help="A folder of a GPT-2 in Hugging Face's layout.", callback=name_place)],
    out: Annotated[str, typer.Option(help="Run folder.", callback=name_place)],
    json: Json = False,
) -> None:
    """Make a run of pretrained weights, so that every command and instrument takes them."""
    from pathlib import Path

    from ..export.gpt2 import import_folder

    found = import_folder(Path(folder), Path(out))
    if json:
        print_json({"run": out} | found)
        return
    said = (
        f"{found['model']}  {found['parameters']:,} parameters, vocabulary {found['vocab']:,}, "
        f"{found['positions']:,} positions"
    )
    print(localize(said))
    print(localize("its training text is not known: give --data to what needs a text"))
