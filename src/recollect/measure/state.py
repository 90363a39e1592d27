"""The state step by step: its numbers, how much each step changes it, and what one changed input does to it later.

Whatever the layer, a tensor of its state is shown by how it behaves: one that grows by the size of each slot, a small
one by every number, a large one (sums of outer products, the weights of test-time training) by its size.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from ..core.chart import Chart, Line, Map
from ..core.contract import ContractError
from ..core.inspection import Instrument, Probe, Reading, Request, changing_tensors, step_through
from ..core.settings import option
from ..core.task import LoadedRun
from . import influence
from .probes import probe_of

UNITS = 256  # numbers that are drawn one by one
STEPS = 48  # of a row that may be read to any length
LINES = 12  # curves in one picture
DECADES = 50  # times the least value that the largest must be for a logarithmic axis


@dataclass(frozen=True, kw_only=True)
class Track:
    """The run over the first row: each changing tensor after each step, what the layers explain, and the outputs."""

    tensors: dict[str, list[Tensor]]
    shown: dict[str, list[Tensor]]
    outputs: Tensor  # T V

    def grows(self, name: str) -> bool:
        return self.tensors[name][0].shape != self.tensors[name][-1].shape


def follow(probe: Probe, x: Tensor | None = None) -> Track:
    """Go through the first row (or another x in its place) one step after the other."""
    stepper, steps, state = probe.first().stepping()
    tensors: dict[str, list[Tensor]] = {}
    shown: dict[str, list[Tensor]] = {}
    outputs = []
    for explained, y, after in step_through(stepper, steps if x is None else x, state):
        for name, tensor in changing_tensors(after):
            tensors.setdefault(name, []).append(tensor[0].double().cpu())
        for name, tensor in explained.items():
            shown.setdefault(name, []).append(tensor[0].double().cpu())
        outputs.append(y[0].double().cpu())
    return Track(tensors=tensors, shown=shown, outputs=torch.stack(outputs))


def sizes(track: Track) -> dict[str, list[float]]:
    """‖tensor‖ after each step."""
    return {name: [float(own.norm()) for own in way] for name, way in track.tensors.items()}


def changes(track: Track) -> dict[str, list[float]]:
    """‖after − before‖ of each step but the first; slots that are new count whole."""
    return {name: [_apart(a, b) for a, b in pairwise(way)] for name, way in track.tensors.items()}


def _apart(before: Tensor, after: Tensor) -> float:
    if before.shape != after.shape:
        new = torch.zeros_like(after)
        new[: len(before)] = before
        before = new
    return float((after - before).norm())


def effect(probe: Probe, at: int, token: int | None = None) -> dict[str, Any]:
    """What changes when input `at` of the first row is another: distances between the two runs after each step.

    `states` are relative to the size of the unchanged tensor; `outputs` are nats (KL), or a length.
    """
    one = probe.first()
    _, steps, _ = one.stepping()
    if not 0 <= at < steps.shape[1]:
        raise ContractError(f"--at: expected a step from 1 to {steps.shape[1]}, found {at + 1}")
    changed = steps.clone()
    if steps.is_floating_point():
        changed[:, at] = steps[:, at] + 1.0
    else:
        own = int(steps[0, at])
        others = [other for other in steps[0].tolist() if other != own]
        changed[0, at] = token if token is not None else others[0] if others else (own + 1) % probe.model.width
    before, after = follow(one), follow(one, changed)
    tiny = torch.finfo(torch.float64).tiny
    distances = {
        name: [float((a - b).norm() / a.norm().clamp(min=tiny)) for a, b in zip(way, after.tensors[name], strict=True)]
        for name, way in before.tensors.items()
    }
    categorical = one.categorical and one.stepper is one.model
    y = [one.read(track.outputs) if categorical else track.outputs for track in (before, after)]
    moved = influence.distance(y[0], y[1], categorical)
    replaced = None if steps.is_floating_point() else int(changed[0, at])
    return {"at": at, "token": replaced, "states": distances, "outputs": moved.tolist()}


def read(probe: Probe, *, at: int | None = None, token: int | None = None, named: str = "") -> Reading:
    """Pictures of the first row's state, and of what one changed input does to it."""
    track = follow(probe)
    steps = len(track.outputs)
    if not track.tensors:
        raise ContractError("state: expected a state with numbers in it, found tokens alone, the last that it read")
    at = steps // 4 if at is None else at
    moved = effect(probe, at, token)
    inputs = list(probe.inputs) if len(probe.inputs) == steps else [str(t + 1) for t in range(steps)]
    charts: list[Chart | Map] = []
    plain = name_plainly(list(track.tensors))
    groups = group_by_layer(plain)
    for name, way in track.tensors.items():
        if track.grows(name):
            slots = way[-1].flatten(2) if way[-1].dim() > 2 else way[-1][..., None]
            charts.append(
                Map(
                    title=f"{plain[name]}: the size of each slot at the end",
                    x="input of the slot" if len(slots) == steps else "slot",
                    y="part",
                    values=slots.norm(dim=-1).T.tolist(),
                    columns=inputs if len(slots) == steps else None,
                    unit="norm",
                    group=groups[name],
                )
            )
        elif way[0].numel() <= UNITS:
            values = torch.stack([own.flatten() for own in way], dim=1)
            charts.append(
                Map(
                    title=f"{plain[name]}: every number",
                    x="input of the step",
                    y="unit",
                    values=values.tolist(),
                    columns=inputs,
                    unit="value",
                    group=groups[name],
                )
            )
    x = [t + 1 for t in range(steps)]
    size, change = sizes(track), changes(track)
    later = {plain[name]: way[at:] for name, way in moved["states"].items()}
    size, change = ({plain[name]: way for name, way in found.items()} for found in (size, change))
    what = f"step {at + 1}, {inputs[at]!r}" + (f" → {named!r}" if named else "")
    charts += [
        _lines(
            f"how far one changed input moves the state ({what})",
            "distance as a share of the state's size",
            x[at:],
            later,
            group="one changed input",
        ),
        _lines("how much each step changes the state", "distance between before and after", x[1:], change),
        _lines("the size of the state", "norm", x, size),
        *_gates(track, x),
    ]
    figures = {
        "data": probe.data,
        "inputs": inputs,
        "size": sizes(track),
        "change": changes(track),
        "explained": {name: [float(own.mean()) for own in way] for name, way in track.shown.items() if _plain(name)},
        "effect": moved,
    }
    return Reading(summary=_words(track, moved, what), figures=figures, charts=charts)


def _words(track: Track, moved: dict[str, Any], what: str) -> list[str]:
    numbers = sum(way[-1].numel() for way in track.tensors.values())
    growing = [name for name in track.tensors if track.grows(name)]
    steps, at = len(track.outputs), moved["at"]
    plain = name_plainly(list(moved["states"]))
    summary = [f"state after {steps} steps: {numbers:,} numbers, none of its parts grows"]
    if growing:
        grow = "; ".join(plain[name] for name in growing)
        summary = [f"state after {steps} steps: {numbers:,} numbers; growing: {grow}"]
    for name, way in moved["states"].items():
        summary.append(
            f"{plain[name]}: another input at {what} moves it by {way[at]:.1%} of its size, at the end {way[-1]:.1%}"
        )
    summary.append(f"output: moved by {moved['outputs'][at]:.4g} there, at the end by {moved['outputs'][-1]:.4g}")
    return summary


def _plain(name: str) -> bool:
    """Whether what is explained are not attention weights."""
    return name.rsplit(".", 1)[-1] not in ("weights", "source")


PATH = re.compile(r"(?P<stack>(?:[^\d.][^.]*\.)*)(?:\d+\.)+(?P<tensor>.+)")
FIELDS = {  # of states: what a tensor, or a part that holds some, is; a part that says nothing has no words
    "h": "hidden state h", "c": "cell state c", "window": "last inputs", "sums": "sums of keys and values",
    "total": "sum of keys", "model": "inner model's", "gradient": "inner gradient's", "cell": "",
    "weight": "pool's sum of weights", "value": "pool's weighted sum",
    "first": "first convolution's", "second": "second convolution's",
}  # fmt: skip


def name_plainly(names: Sequence[str]) -> dict[str, str]:
    """Words for the paths of a model's tensors: `body.1.keys` are the keys of the first layer that has some.

    A path names the stack that a part is in, its place there, and the tensor. Parts with the same tensors are numbered
    as layers, since norms and other parts without a state stand between them.
    """
    paths = {name: PATH.fullmatch(name) for name in names}
    stacks = {path["stack"] for path in paths.values() if path}
    words: dict[str, str] = {}
    layers: dict[str, list[str]] = {}  # of each kind of tensor, the places that have one
    for name, path in paths.items():
        stack = path["stack"] if path and len(stacks) > 1 else ""
        own = f"{stack}{path['tensor']}" if path else name
        parts = [str(int(part) + 1) if part.isdigit() else FIELDS.get(part, part) for part in own.split(".")]
        words[name] = " ".join(part.replace("_", " ") for part in parts if part)
        if path:
            layers.setdefault(words[name], []).append(name)
    many = max(map(len, layers.values()), default=0) > 1
    return {
        name: f"layer {layers[own].index(name) + 1}, {own}" if many and name in layers.get(own, ()) else own
        for name, own in words.items()
    }


def group_by_layer(plain: dict[str, str]) -> dict[str, str]:
    """For each tensor the group that its map is in beside other models: the first of a layer stand side by side."""
    layers = [words.partition(", ")[0] if ", " in words else "layer 1" for words in plain.values()]
    return {
        name: f"state of {layer}, {layers[:i].count(layer)}"
        for i, (name, layer) in enumerate(zip(plain, layers, strict=True))
    }


def _gates(track: Track, x: Sequence[int]) -> list[Chart]:
    """Gates, inner losses and rates: the mean over units, and between what the middle half of them lies."""
    shown = {name: way for name, way in track.shown.items() if _plain(name)}
    plain = name_plainly(list(shown))
    kinds: dict[str, list[Line]] = {}
    for name, way in shown.items():
        flat = [own.flatten() for own in way]
        low, high = ([float(own.quantile(q)) for own in flat] for q in (0.25, 0.75))
        layer = plain[name].partition(",")[0] if "," in plain[name] else name.rsplit(".", 1)[-1]
        line = Line(name=layer, x=list(x), y=[float(own.mean()) for own in flat], low=low, high=high)
        kinds.setdefault(name.rsplit(".", 1)[-1], []).append(line)
    return [
        Chart(title=f"{kind}: mean and middle half over units", x="step", y=kind, lines=own[:LINES])
        for kind, own in kinds.items()
    ]


def _lines(title: str, y: str, x: Sequence[int], ways: dict[str, list[float]], *, group: str = "") -> Chart:
    sizes = [value for way in ways.values() for value in way if value > 0]
    log_y = bool(sizes) and max(sizes) > DECADES * min(sizes)
    largest = sorted(ways, key=lambda name: -max(ways[name], default=0.0))[:LINES]
    lines = [
        Line(name=name, x=list(x), y=[value if value > 0 or not log_y else None for value in ways[name]])
        for name in ways
        if name in largest
    ]
    return Chart(title=title, x="step", y=y, lines=lines, log_y=log_y, group=group)


@dataclass(frozen=True, kw_only=True)
class Options(Request):
    at: int | None = option(None, "Of state: the step whose input is changed.")
    change: str | None = option(None, "Of state: the token to put there.")


def inspect(run: LoadedRun[Any, Any], options: Options) -> Reading:
    probe = probe_of(run, options, steps=STEPS if run.kind.free_length else None)
    token = None if options.change is None else probe.token(options.change)
    at = None if options.at is None else options.at - 1
    return read(probe, at=at, token=token, named=options.change or "")


INSTRUMENT = Instrument("state", Options, inspect)
