"""Attention weights by layer and head, over a model's own past and over a source."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ..core.chart import SHARES, Map
from ..core.contract import ContractError
from ..core.inspection import Probe, step_through

MOST = 8  # maps of single heads in one reading


def weights(probe: Probe) -> dict[str, Tensor]:
    """T T for each head, `layer 2 head 1`, over the steps of the first row; over a source T S, `… source`.

    A model without attention gives nothing.
    """
    one = probe.first()
    if one.stepper is None:
        return {}
    stepper, x, state = one.stepping()
    steps = x.shape[1]
    found: dict[str, list[Tensor]] = {}
    for t, (shown, _, _) in enumerate(step_through(stepper, x, state)):
        levels = {"weights": 0, "source": 0}
        for name, tensor in shown.items():
            kind = name.rsplit(".", 1)[-1]
            if "." not in name or kind not in levels:
                continue
            levels[kind] += 1
            for head, row in enumerate(tensor[0], 1):  # of a forecaster, the first of its series
                full = (
                    row.new_zeros(steps).scatter(0, _places(t, len(row)).to(row.device), row)
                    if kind == "weights"
                    else row
                )
                title = f"layer {levels[kind]} head {head}" + (" source" if kind == "source" else "")
                found.setdefault(title, []).append(full)
    return {name: torch.stack(rows).float().cpu() for name, rows in found.items()}


def _places(now: int, slots: int) -> Tensor:
    """The step that each slot of a cache holds after step `now`: in order, or round a ring of so many slots."""
    return now - (now - torch.arange(slots)) % slots


def maps(probe: Probe, heads: Mapping[str, Tensor], layer: int | None = None) -> list[Map]:
    """The mean of all heads, and then each by itself (of one layer, or as many as there is room for)."""
    chosen = [name for name in heads if layer is None or name.startswith(f"layer {layer} ")]
    if not chosen:
        last = max(int(name.split()[1]) for name in heads)
        raise ContractError(f"--layer: expected a layer from 1 to {last}, found {layer}")
    found = []
    for source in (False, True):
        names = [name for name in chosen if name.endswith(" source") == source]
        if len(names) > 1:
            mean = torch.stack([heads[name] for name in names]).mean(dim=0)
            found.append(_map(probe, f"attention{' to the source' if source else ''}, mean of all heads", mean, source))
        for name in names[:MOST]:
            head = name.removesuffix(" source")
            title = f"attention to the source, {head}" if source else f"attention, {head}"
            found.append(_map(probe, title, heads[name], source))
    return found


def _map(probe: Probe, title: str, values: Tensor, source: bool) -> Map:
    columns = _names(probe.source_names if source else probe.inputs, values.shape[1])
    rows = _names(probe.inputs, values.shape[0])
    x = "part of the source" if source else "input that is looked at"
    return Map(title=title, x=x, y="input of the step", values=values.tolist(), columns=columns, rows=rows, **SHARES)


def _names(names: Sequence[str], count: int) -> list[str] | None:
    """The names of steps, where each step has one: patches of a series and cells of a picture have none."""
    return list(names) if len(names) == count else None
