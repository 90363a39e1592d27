"""A run as a folder in Hugging Face's layout: its own files, and a model card made of what the run says of itself.

`recollect.load` reads the folder as any other run. No file names the machine's folders, its user or its host.
"""

import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .. import __version__
from ..core.files import sync_folder, write_aside
from ..core.sharing import list_paths, share, share_about
from ..core.task import LoadedRun, RunError
from ..layers.position import find_limit
from ..models.size import parameters
from ..training.evaluation import compared, data_change
from ..training.folder import RunFolder

CARD = "README.md"
NO_LICENSE = "unknown"  # the hub's word for it
OTHER = "other"  # the hub's word for a task that it does not know


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a model card says, in JSON's types."""

    name: str
    license: str
    task: str
    pipeline_tag: str | None
    model: str
    parameters: int
    limit: int | None  # positions, where they are learned
    methods: tuple[str, ...]
    data: Mapping[str, Any]  # the corpus of config.json
    origin: Mapping[str, Any] | None  # of weights that were imported
    settings: Mapping[str, Any]
    spent: Mapping[str, Any]  # the end of metrics.jsonl
    metric: Mapping[str, Any] | None = None  # name, value, rule
    baselines: Mapping[str, float] = field(default_factory=dict)
    compared: Mapping[str, Any] | None = None  # name of the figure that baselines are of, and the model's value
    notes: tuple[str, ...] = ()


def export(run: LoadedRun[Any, Any], out: Path, *, license: str = NO_LICENSE) -> Card:
    """Write the folder of a run into the new folder `out`; what its card says."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"{out}: expected a new or empty folder, found files in it; use another --out")
    if run.config.model["name"] in run.kind.combined:
        raise RunError(
            f"{run.path}: expected a run with weights of its own, found a {run.config.model['name']}, which is made of "
            "other runs; export those"
        )
    folder = RunFolder(run.path)
    card = describe(run, folder, out.resolve().name, license)
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{out.name}.", suffix=".part", dir=out.parent) as temporary:
        place = RunFolder(Path(temporary) / "export")
        place.path.mkdir()
        weights = folder.model_path if folder.model_path.exists() else folder.best
        shutil.copyfile(weights, place.model_path)
        place.write_json("config.json", share(folder.config()))
        place.write_json("manifest.json", share(folder.manifest()))
        if folder.metrics_path.exists():
            shutil.copyfile(folder.metrics_path, place.metrics_path)
        run.kind.save_artifacts(run.artifacts, place.path)
        write_aside(place.path / CARD, write_card(card).encode())
        if out.exists():
            out.rmdir()
        place.path.rename(out)
    sync_folder(out.parent)
    return card


def describe(run: LoadedRun[Any, Any], folder: RunFolder, name: str, license: str) -> Card:
    """What can be said of a run, measured on its validation data where these are at hand."""
    from ..tasks import find_use

    places = [*list_paths(folder.config()), str(folder.path)]
    content = share(folder.config())
    spent: dict[str, Any] = {}
    for row in folder.metrics():
        spent |= row
    metric, baselines, measured = None, {}, None
    notes = [share_about(note, places) for note in run.notes]
    if "imported" in content:
        notes.append("no figure of the model: its training data are not known")
    else:
        try:
            found = run.task.figures(run.model, "valid")
            change = data_change(run)
        except (ValueError, OSError) as error:
            notes.append(share_about(f"no figure of the model: its data could not be read ({error})", places))
        else:
            metric, baselines = found["metric"], plain_numbers(found.get("baselines"))
            measured = compared(found)
            notes += [share_about(change, places)] if change else []
    if license == NO_LICENSE:
        notes.append("the license is unknown; give --license")
    return Card(
        name=name,
        license=license,
        task=run.kind.name,
        pipeline_tag=run.kind.exports.pipeline_tag(run),
        model=run.config.model["name"],
        parameters=parameters(run.model),
        limit=find_limit(run.model),
        methods=tuple(find_use(run.kind.name).methods),
        data=content.get("corpus") or {},
        origin=content.get("imported"),
        settings={part: content[part] for part in ("data", run.kind.name, "model", "train") if part in content},
        spent=spent,
        metric=metric,
        baselines=baselines,
        compared=measured,
        notes=tuple(notes),
    )


def plain_numbers(found: Any) -> dict[str, float]:
    """The finite numbers of an object."""
    if not isinstance(found, Mapping):
        return {}
    return {
        name: float(value) for name, value in found.items() if isinstance(value, int | float) and math.isfinite(value)
    }


# The card


def write_card(card: Card) -> str:
    """README.md: what the hub reads in front, then the page."""
    front = "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in front_matter(card).items())
    parts = [f"---\n{front}\n---", *open_page(card), *write_figures(card), *write_training(card), *write_limits(card)]
    return "\n\n".join(parts) + "\n"


def front_matter(card: Card) -> dict[str, Any]:
    """What the hub reads of a card; JSON's values are YAML's."""
    found: dict[str, Any] = {"license": card.license, "library_name": "recollect"}
    if card.pipeline_tag is not None:
        found["pipeline_tag"] = card.pipeline_tag
    found["tags"] = ["recollect", card.task, card.model]
    if card.metric is not None and math.isfinite(card.metric["value"]):
        named = str(card.data.get("name") or OTHER)
        figure = {"type": card.metric["name"], "name": card.metric["name"], "value": card.metric["value"]}
        result = {
            "task": {"type": card.pipeline_tag or OTHER, "name": card.task},
            "dataset": {"type": named, "name": named, "split": "validation"},
            "metrics": [figure | {"args": {"rule": card.metric["rule"]}}],
        }
        found["model-index"] = [{"name": card.name, "results": [result]}]
    return found


def open_page(card: Card) -> list[str]:
    methods = ", ".join(f"`{name}`" for name in (*card.methods, "step", "evaluate", "verify"))
    return [
        f"# {card.name}",
        f"A `{card.model}` for the task `{card.task}` with {card.parameters:,} parameters. "
        f"Written by recollect {__version__}.",
        "## Use",
        "```python\nimport recollect\n\n"
        'model = recollect.load(".")  # this folder, as huggingface_hub.snapshot_download leaves it\n'
        "print(model)\n```",
        f"The model has the methods {methods}.",
    ]


def write_figures(card: Card) -> list[str]:
    parts = ["## Figures"]
    if card.metric is not None:
        parts.append(f"On the validation part of the data. Rule: {card.metric['rule']}.")
        one = card.compared is None or card.compared["name"] == card.metric["name"]
        parts.append(write_table(card.metric, card.baselines if one else {}))
        if card.compared is not None and not one and card.baselines:
            parts.append(f"What is reached without learning is known by another figure, {card.compared['name']}:")
            parts.append(write_table(card.compared, card.baselines))
    parts += [f"Note: {note}." for note in card.notes if not note.startswith("the license")]
    return parts


def write_table(figure: Mapping[str, Any], baselines: Mapping[str, float]) -> str:
    """A figure of the model above the same figure of guesses."""
    rows = [("this model", figure["value"])]
    rows += [(f"without learning: {name}", value) for name, value in baselines.items()]
    return f"| | {figure['name']} |\n|---|---|\n" + "\n".join(f"| {name} | {value:.5g} |" for name, value in rows)


def write_training(card: Card) -> list[str]:
    rows = [f"- {name}: {show(value)}" for name, value in card.data.items() if name != "notes"]
    notes = [f"- {note}" for note in card.data.get("notes") or ()]
    parts = ["## Data", "\n".join([*rows, *notes]) or "Nothing is known of the training data."]
    if card.origin:
        digests = "\n".join(f"- `{name}`: sha256 {value}" for name, value in card.origin["sha256"].items())
        parts += ["## Training", f"The weights were trained elsewhere, and read from:\n\n{digests}"]
    else:
        spent = ", ".join(
            f"{card.spent[name]:,.0f} {name}"
            for name in ("step", "tokens", "seconds")
            if isinstance(card.spent.get(name), int | float)
        ).replace(" step", " steps", 1)
        parts += ["## Training", f"{spent}. All settings:" if spent else "All settings:"]
    parts.append(f"```json\n{json.dumps(card.settings, indent=1, ensure_ascii=False)}\n```")
    return parts


def show(value: Any) -> str:
    """A count with commas, a text as it is, anything else as JSON."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def write_limits(card: Card) -> list[str]:
    limits = [
        "- Meant for studying and comparing how models remember, and for use on data like its training data. Figures "
        "say nothing of other data.",
        "- Nobody checked what it gives for errors of fact, bias or harm; do not let it decide about people.",
        "- `model.verify()` checks the model's contract on these weights: the same output step by step and in chunks, "
        "and none that depends on the future.",
    ]
    if card.limit is not None:
        limits.append(f"- Positions are learned: it reads and writes at most {card.limit:,} steps.")
    return ["## Intended use and limits", "\n".join(limits)]
