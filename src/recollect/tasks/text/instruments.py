"""The instrument exposure: how far a language model's own text leads it away from the text that it should foretell."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...core.chart import Chart, Line
from ...core.contract import ContractError
from ...core.inspection import Instrument, Reading
from ...core.settings import option
from ...core.task import LoadedRun

ROWS = 64
LEAST = 4  # tokens of a window: two that are read, two that are foretold


@dataclass(frozen=True, kw_only=True)
class Options:
    rows: int | None = option(None, "How many rows.")
    steps: int | None = option(None, "How many steps.")


@torch.no_grad()
def measure_exposure(model: Any, windows: Tensor, read: int) -> dict[str, list[float]]:
    """Nats of each true token after `read` of them, by place: having read the true text, and having read its own.

    windows: B T tokens. Its own text is drawn at temperature 1 after the same beginning, by a fixed seed.
    """
    draw = torch.Generator(windows.device).manual_seed(0)
    given, own = windows[:, :-1], [windows[:, :read]]
    logits, state = model(own[0], None)
    for _ in range(given.shape[1] - read):
        own.append(torch.multinomial(logits[:, -1].float().softmax(dim=-1), 1, generator=draw))
        logits, state = model(own[-1], state)
    texts = {"forced": given, "free": torch.cat(own, dim=1)}
    losses = {name: model.nll(text, windows[:, 1:], None)[0][:, read - 1 :] for name, text in texts.items()}
    return {name: nats.double().mean(dim=0).tolist() for name, nats in losses.items()}


def read_exposure(run: LoadedRun[Any, Any], options: Options) -> Reading:
    """Over windows of validation: the first half is read, the rest foretold."""
    tokens = torch.from_numpy(run.task.measured("valid").astype("int64"))
    steps = min(options.steps or run.task.config.context, len(tokens))
    if steps < LEAST:
        raise ContractError(f"exposure: expected windows of at least {LEAST} tokens, found {steps:,}")
    windows = tokens[: len(tokens) // steps * steps].view(-1, steps)[: options.rows or ROWS]
    half = steps // 2
    found = measure_exposure(run.model, windows.to(run.device), half)
    places, means = list(range(len(found["forced"]))), {name: sum(own) / len(own) for name, own in found.items()}
    model = run.config.model["name"]
    chart = Chart(
        title="nats per token, once it reads its own text", x="own tokens read", y="nats per token",
        lines=[
            Line(name="having read the text", x=places, y=found["forced"], model=model),
            Line(name="having read its own", x=places, y=found["free"]),
        ],
    )  # fmt: skip
    return Reading(
        summary=[
            f"{len(windows):,} windows of {steps:,} tokens, {half:,} read first",
            f"nats/token having read the text {means['forced']:.4f}, having read its own text {means['free']:.4f}",
        ],
        figures={"by_place": found, "read": half, "windows": len(windows)} | means,
        charts=[chart],
    )


INSTRUMENTS = (Instrument("exposure", Options, read_exposure),)
