"""A counted and a trained model of the same text, alone and mixed.

The share of each is fitted on validation and the three are compared on a test part that neither has seen. The text is
source code of Python's own library, so the figures differ a little between versions of Python.

In the first form the network had 100 and 400 steps, and what the mixture gained after 400 lay around the margin.
"""

import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..models import language, ngram
from ..tasks.text import data as corpus
from ..tasks.text.mixture import best_share, mix
from ..tasks.text.settings import Config as TextConfig
from ..tasks.text.task import TextTask
from .claim import Claim, Effort, Found, Verdict
from .laboratory.figures import bars, curve, decimal, gather, judge_settings, limits, scientific, show
from .laboratory.training import fit

MODULES = (40, None)  # of the library's files that have no underscore, by name; None: all
LEAST = 20_000  # bytes of a file
EVERY = 8  # of so many files one is for validation and the next for the test
TOKENS = (20_000, 100_000)  # of either part that are measured
ORDER = 5
WIDTH = (96, 512)
BUDGETS = ((200, 1000), (500, 4000))  # steps of the network: a short training and a longer one
CONTEXT, BATCH = 64, (16, 64)
RATE = (5e-3, 2e-3)
SEEDS = (3, 3)
MARGIN = 0.01  # nats a character


def run(effort: Effort) -> Found:
    budgets = effort.pick(*BUDGETS)
    rows: dict[int, list[dict[str, float]]] = {steps: [] for steps in budgets}
    with TemporaryDirectory() as folder:
        data = text(effort.pick(*MODULES), Path(folder))
        settings = TextConfig(context=CONTEXT, batch=effort.pick(*BATCH), eval_tokens=effort.pick(*TOKENS))
        task = TextTask(settings, data, effort.device)
        counted = ngram.Config(order=ORDER, vocab=data.tokenizer.size).build()
        counted.train_on(task.tokens("train"))
        counted.to(effort.device)
        losses = {split: task.losses(counted, split, "stateful") for split in ("valid", "test")}
        config = language.Config(vocab=data.tokenizer.size, model="gru", width=effort.pick(*WIDTH), layers=1)
        for seed in effort.seed_range(*SEEDS):
            for steps in budgets:
                model = fit(task, config.build, steps=steps, rate=effort.pick(*RATE), seed=seed, device=effort.device)
                rows[steps].append(mixed(task, model, losses))
    found = {steps: gather(each) for steps, each in rows.items()}
    gains = {
        steps: [min(row["n-gram"], row["network"]) - row["mixture"] for row in each] for steps, each in rows.items()
    }
    words = [
        f"after {steps} steps network {show(each['network'])}, mixture {show(each['mixture'])}, "
        f"{show(gains[steps])} below the better of both"
        for steps, each in found.items()
    ]
    verdict = judge(gains)
    where = " and ".join(str(steps) for steps, values in gains.items() if min(values) > MARGIN)
    return Found(
        verdict=verdict,
        summary=f"nats a character of the test: {ORDER}-gram {rows[budgets[0]][0]['n-gram']:.3f}; "
        + "; ".join(words)
        + limits(verdict, f"; the limits: after {where} steps only"),
        figures={"rows": rows, "gains": gains},
        charts=[
            bars(
                "Alone and mixed",
                "steps of the network",
                "nats a character",
                [
                    curve(name, {str(steps): each[name] for steps, each in found.items()})
                    for name in ("n-gram", "network", "mixture")
                ],
            )
        ],
    )


def text(count: int | None, folder: Path) -> corpus.Corpus:
    """Files of the library, some of them for training, validation and test each."""
    found = sorted(Path(sysconfig.get_path("stdlib")).glob("[a-z]*.py"))
    files = [path for path in found if path.stat().st_size >= LEAST][:count]
    valid, test = files[::EVERY], files[1::EVERY]
    rest = [path for path in files if path not in {*valid, *test}]
    return corpus.load(rest, valid=valid, test=test, cache=folder / "cache")


def mixed(task: TextTask, model: Any, counted: Mapping[str, Any]) -> dict[str, float]:
    """Nats a character of the test: each alone, and mixed by the share that is best on validation."""
    own = {split: task.losses(model, split, "stateful") for split in ("valid", "test")}
    share = best_share(counted["valid"], own["valid"])
    both = -mix(-counted["test"], -own["test"], share)
    figures = {"n-gram": counted["test"], "network": own["test"], "mixture": both}
    return {name: float(values.mean()) for name, values in figures.items()} | {"share of the n-gram": share}


def judge(gains: Mapping[int, Sequence[float]]) -> Verdict:
    """From what the mixture gains over the better of both, in each seed of each budget."""
    return judge_settings(gains, above=MARGIN)


CLAIM = Claim(
    statement="An n-gram and a neural language model complement each other: a mixture of both is better than either.",
    sources=(
        "Bengio et al. 2003, A Neural Probabilistic Language Model",
        "Mikolov et al. 2010, Recurrent neural network based language model",
    ),
    experiment=f"""A Kneser–Ney {ORDER}-gram and a GRU of characters are made from the same files of Python's library;
    their mixture's share is fitted on other files, and all three are measured on a third part, the state carried.""",
    decided=f"""Quick: {MODULES[0]} files, width {WIDTH[0]}, {BUDGETS[0][0]} and {BUDGETS[0][1]} steps of {BATCH[0]}
    rows of {CONTEXT} at rate {scientific(RATE[0])}, {TOKENS[0]:,} characters measured; full: all files of
    {LEAST // 1000} kB and more, width {WIDTH[1]}, {BUDGETS[1][0]} and {BUDGETS[1][1]:,} steps of {BATCH[1]} rows at
    rate {scientific(RATE[1])}, {TOKENS[1]:,} characters; {SEEDS[0]} seeds. Holds if at both budgets every seed's
    mixture is more than {decimal(MARGIN)} nats a character below the better of both; within limits if at one budget
    only; does not hold if no seed gains that much at either; otherwise undecided.""",
    run=run,
    chapter=2,
)
