"""Figures of a trained run: its metric on a split, its row for results/, and the laws on its weights."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan
from pathlib import Path
from statistics import fmean
from typing import Any

from ..core import laws, typed
from ..core.sharing import share, share_command, share_path
from ..core.task import LoadedRun, RunError
from ..models.size import parameters
from .folder import RunFolder
from .run import load


def evaluate(
    path: str | Path,
    *,
    split: str,
    data: Sequence[str] = (),
    device: str = "cpu",
    data_dir: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """The figures of a run, on its own data or on other data."""
    run = load(path, device, data_dir=data_dir)
    source = run.config.data
    if data:
        source = run.kind.other_data(source, data, run.artifacts)
        run.config = replace(run.config, data=source)
    names = {"run": share_path(str(path)), "data": share_path(run.data.name)}
    about: dict[str, Any] = names | {"split": split, "params": parameters(run.model)}
    if run.notes:
        about["notes"] = list(run.notes)
    if _is_seen(source):
        about["baselines_seen"] = True
    if not data and (change := data_change(run)):
        about["changed"] = change
    found = run.task.figures(run.model, split, **options)
    if "baselines" in found:
        found["compared"] = compared(found)
    return about | found


def compared(found: Mapping[str, Any]) -> dict[str, Any]:
    """The figure that the baselines in `found` are of, and the model's own value of it."""
    own = found.get("compared") or found["metric"]
    return {"name": own["name"], "value": own["value"]}


def _is_seen(config: Any) -> bool:
    """Whether all that baselines can learn from is the very data that they are measured on."""
    valid = getattr(config, "valid", ())
    return getattr(config, "whole", False) or bool(valid and valid == config.data)


def data_change(run: LoadedRun[Any, Any]) -> str | None:
    """How a run's data differ from those that it was trained on, in a line; None where they do not."""
    before, now = RunFolder(run.path).config().get("corpus"), run.kind.describe_data(run.data)
    if not isinstance(before, dict) or before.get("fingerprint") in (None, now["fingerprint"]):
        return None
    counts = [name for name in now if name not in ("fingerprint", "notes") and before.get(name) != now[name]]
    words = ", ".join(f"{name} was {typed.show(before.get(name))} and is {now[name]}" for name in counts)
    place, other = share_path(str(run.path)), "as much as before, but other content"
    return f"the data of {place} changed since training: {words or other}"


def result(path: str | Path, *, split: str, device: str, data_dir: str | None = None, **options: Any) -> dict[str, Any]:
    """The row of a finished run for results/."""
    found = evaluate(path, split=split, device=device, data_dir=data_dir, **options)
    del found["run"]
    folder = RunFolder.open(path)
    config, manifest, metrics = folder.config(), folder.manifest(), folder.metrics()
    run = load(path)
    last: dict[str, Any] = {}
    for logged in metrics:
        last |= logged
    name = run.kind.name
    return {
        "schema": 1,
        "task": name,
        "model": config["model"]["name"],
        "settings": share({part: config[part] for part in (name, "model", "train")}),
        "seed": run.config.train.seed,
        **found,
        "entries": entries() if (entries := getattr(run.model, "entries", None)) else None,
        "tokens": last.get("tokens"),
        "flops": last.get("flops"),
        "seconds": last.get("seconds"),
        "peak_bytes": last.get("memory"),
        "state_bytes": run.kind.state_bytes(run.model, run.config),
        "curve": [[row["step"], row["valid"]] for row in metrics if "valid" in row],
        "learning": [
            [row["step"], row["tokens"], row["seconds"], row["valid"]]
            for row in metrics
            if "valid" in row and "seconds" in row and "tokens" in row
        ],
        "end": {
            "train": fmean([row["loss"] for row in metrics if "loss" in row][-5:] or [nan]),
            "valid": next((row["valid"] for row in reversed(metrics) if "valid" in row), None),
        },
        "commit": manifest["commit"],
        "command": share_command(manifest["command"]),
        "machine": manifest["machine"],
    }


def verify(path: str | Path, steps: Mapping[str, Any] | None = None) -> dict[str, float | laws.LawBroken | laws.Exempt]:
    """The laws on trained weights and random inputs: in float64, and in each precision that decoding runs in.

    `steps` are the exported ones that decode in place of the model's own call, by the precision of their weights. Of a
    law that holds the largest error; of others how it was broken, or why it does not bind the model.
    """
    run, exact = load(path), load(path).model.double()
    run.steps = steps or {}
    try:
        every = run.kind.list_laws(exact, run)
    except RunError as error:
        raise RunError(f"{path}: {error}") from None
    return {name: laws.judge(name, exact, law) for name, law in every.items()}
