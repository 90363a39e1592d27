"""LayerNorm against BatchNorm for sequences: the laws in training, and what each reaches on small ragged batches.

A row is 4 to 40 filler words with one keyword somewhere; its label is the keyword. Batches of four rows, unsorted, so
that the statistics over a batch are those of whatever rows, and whatever padding, happen to be in it.

In the first form LayerNorm had not ended learning after 400 steps (.03 to .34 nats), and the rule could not say that
BatchNorm reached more. It now has 1,000 steps, and the rule a branch for each side.
"""

import random
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import torch

from ..core import laws
from ..layers import norm
from ..layers.norm import NormName
from .claim import Claim, Effort, Found, Verdict
from .laboratory.analysis import breaks
from .laboratory.figures import apart, bars, curve, sentence, show
from .laboratory.floor import Floor
from .laboratory.training import Trained, train_seeds

KEYWORDS, FILLERS = 8, 20
SHORTEST, LONGEST = 4, 40
ROWS = {"train": 4_000, "valid": 400}
STEPS = (1_000, 4_000)  # quick, full
SEEDS = (3, 5)
MARGIN = 0.05  # nats on validation
FLOOR = Floor(easy="on validation", figure="nats", most=0.5, models="the model with either norm")  # a guess: ln 8
SETTINGS: dict[str, Any] = {
    "batch": 4, "bucket": 1, "width": 32, "layers": 2, "heads": 2, "lr": 3e-3, "tokenizer": "words", "choose": "nats",
}  # fmt: skip


def table(path: Path, rows: int, seed: int) -> str:
    """Rows of label and text, parted by tabs."""
    draw = random.Random(seed)
    lines = []
    for _ in range(rows):
        words = [f"w{draw.randrange(FILLERS)}" for _ in range(draw.randint(SHORTEST, LONGEST))]
        key = draw.randrange(KEYWORDS)
        words[draw.randrange(len(words))] = f"key{key}"
        lines.append(f"k{key}\t{' '.join(words)}\n")
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


def broken_laws(kind: NormName) -> dict[str, bool]:
    """Which laws a norm breaks while it is trained."""
    torch.manual_seed(0)
    x = torch.randn(3, 6, 5, dtype=torch.float64)

    def built() -> Any:
        return norm.Config(dim=5, kind=kind).build().double().train()

    return {"row": breaks(laws.row, built(), x), "cause": breaks(laws.cause, built(), x, 3)}


@torch.no_grad()
def gap(found: Trained) -> float:
    """How many nats worse training batches are read as in use than as in training, where rows see each other."""
    batches = [batch for batch, _ in zip(found.task.batches("train", 1), range(50), strict=False)]
    losses = {}
    for mode in (True, False):
        model: Any = found.model.train(mode)
        losses[mode] = fmean(float(found.task.loss(model, batch).value) for batch in batches)
    return losses[False] - losses[True]


def judge(batch: dict[str, bool], layer: dict[str, bool], nats: Mapping[str, list[float]]) -> tuple[Verdict, str]:
    """Which laws each breaks, and validation nats over seeds."""
    if missing := FLOOR.missing(nats):
        return Verdict.NOT_LEARNT, missing
    if any(layer.values()) or not all(batch.values()):
        return Verdict.FAILS, "the laws do not part the two norms"
    if apart(nats["layer"], nats["batch"], MARGIN):
        return Verdict.HOLDS, "BatchNorm breaks the laws and reaches less"
    if apart(nats["batch"], nats["layer"], MARGIN):
        return Verdict.FAILS, "BatchNorm breaks the laws, and reaches more"
    if max(nats["layer"] + nats["batch"]) - min(nats["layer"] + nats["batch"]) <= MARGIN:
        return Verdict.LIMITS, f"it is true of the laws; both reach the same within {MARGIN} nats"
    return Verdict.UNDECIDED, "it is true of the laws; which norm reaches more depends on the seed"


def run(effort: Effort) -> Found:
    laws_broken = {kind: broken_laws(kind) for kind in ("layer", "rms", "batch")}
    with TemporaryDirectory() as folder:
        files = {name: [table(Path(folder) / f"{name}.tsv", rows, len(name))] for name, rows in ROWS.items()}
        settings = SETTINGS | {"data": files["train"], "valid": files["valid"], "steps": effort.pick(*STEPS)}
        runs = {
            kind: train_seeds("labels", "transformer", effort, SEEDS, norm=kind, **settings)
            for kind in ("layer", "batch")
        }
        gaps = {kind: [gap(found) for found in each] for kind, each in runs.items()}
    nats = {kind: [found.figures["nats"] for found in each] for kind, each in runs.items()}
    errors = {kind: [found.figures["error"] for found in each] for kind, each in runs.items()}
    verdict, limits = judge(laws_broken["batch"], laws_broken["layer"], nats)
    names = {"LayerNorm": "layer", "BatchNorm": "batch"}
    return Found(
        verdict=verdict,
        summary=(
            f"In training BatchNorm breaks {' and '.join(law for law, bad in laws_broken['batch'].items() if bad)}; "
            f"LayerNorm breaks {' and '.join(law for law, bad in laws_broken['layer'].items() if bad) or 'neither'}. "
            f"On batches of {SETTINGS['batch']} ragged rows, validation nats, mean and range over seeds: LayerNorm "
            f"{show(nats['layer'])}, BatchNorm {show(nats['batch'])}; in use less in training: LayerNorm "
            f"{show(gaps['layer'])}, BatchNorm {show(gaps['batch'])}. {sentence(limits)}"
        ),
        figures={"laws_broken": laws_broken, "nats": nats, "error": errors, "use_less_training": gaps},
        charts=[
            bars(
                f"Transformers on batches of {SETTINGS['batch']} ragged rows",
                "norm",
                "nats",
                [
                    curve(title, {name: found[kind] for name, kind in names.items()})
                    for title, found in (("validation", nats), ("in use less in training", gaps))
                ],
            )
        ],
    )


CLAIM = Claim(
    statement="LayerNorm suits sequences, BatchNorm does not.",
    sources=(
        "Ioffe & Szegedy 2015",
        "Ba, Kiros & Hinton 2016",
        "Shen et al. 2020",
        "the Transformer note: 「使用的是 LayerNorm 而不是 BatchNorm」",
    ),
    experiment=f"""The Row and Cause laws on each norm in training mode; and the same Transformer with each norm,
    trained to find a keyword in rows of {SHORTEST} to {LONGEST} words, in batches of four.""",
    decided=f"""{FLOOR} Does not hold unless BatchNorm breaks both laws in training and LayerNorm neither. Then, over
    {SEEDS[0]} seeds (full {SEEDS[1]}) of {STEPS[0]:,} steps (full {STEPS[1]:,}): holds if LayerNorm's validation loss
    is lower by more than {MARGIN} nats for every pair of seeds; does not hold if BatchNorm's is; within limits, the
    laws alone, if all losses lie within {MARGIN} nats of each other; else undecided.""",
    note="""The Transformer note says what each norm averages over and stops there. The reason to care is that BatchNorm
    lets a row see its neighbours and its own future while it is trained, and other statistics when it is used.""",
    run=run,
    chapter=10,
)
