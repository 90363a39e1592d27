"""What the page of a race shows of a trained run beside its figures: its card, what it writes, how gradients flow."""

from typing import Any

from ..core.heat import Heat
from ..core.inspection import Request
from ..core.task import LoadedRun
from ..layers import LAYERS, card
from ..measure import gradient_flow
from ..measure.inputs import counted
from ..measure.probes import probe_of
from ..training import costs
from ..training import run as runs

LENGTHS = (64, 256, 1024, 4096)
ROWS = 4  # rows of validation whose gradients are shown


def collect(heat: Heat, path: str, device: str, data_dir: str | None) -> dict[str, Any]:
    """All evidence on the run in a folder."""
    run = runs.load(path, device, data_dir=data_dir)
    found: dict[str, Any] = {
        "card": layer_card(run),
        "sample": run.task.sample(run),
        "gradient": gradient_norms(run),
        "costs": declared_costs(run),
        "cost_problem": cost_problem(run),
    }
    return found | (run.task.step_by_step(run) if heat.step_by_step else {})


def layer_card(run: LoadedRun[Any, Any]) -> dict[str, str] | None:
    """The card of the layer that does the remembering, or of a model that is no stack of layers its own."""
    if own := getattr(run.model, "card", None):
        return own
    layer = run.kind.layer_of(run.config.model["name"])
    return card(layer)._asdict() if layer in LAYERS else None


def gradient_norms(run: LoadedRun[Any, Any]) -> dict[str, list[float]] | None:
    """‖∂y_T/∂x_{T−k}‖ on rows of validation; None where nothing is read step by step, or nothing was trained."""
    if not run.kind.sequential or counted(run.model):
        return None
    found = gradient_flow.flow_of(probe_of(run, Request(rows=ROWS))).mean(dim=0).tolist()
    return {"distance": list(range(len(found))), "norm": found}


def cost_problem(run: LoadedRun[Any, Any]) -> str | None:
    """Where the model's declared cost is not what is counted, in words."""
    own = run if run.device == "cpu" else runs.load(run.path, data_dir=run.data_dir)
    return costs.problem(own.task, own.model, own.artifacts)


def declared_costs(run: LoadedRun[Any, Any]) -> list[dict[str, int]]:
    """What one row costs at some lengths, as the model declares it."""
    found = [(length, run.task.declared_cost(run, length)) for length in LENGTHS]
    return [
        {"length": length, "flops": int(cost[0]), "state_bytes": int(cost[1])}
        for length, cost in found
        if cost is not None
    ]


def describe_tokenizer(config: dict[str, Any]) -> str | None:
    """The tokenizer of a run in words, where it has one."""
    name = config["data"].get("tokenizer")
    if name is None:
        return None
    sizes = [config["corpus"][part] for part in ("vocab", "source", "target") if part in config["corpus"]]
    return f"{name} of {' and '.join(f'{size:,}' for size in sizes)}" if sizes else name
