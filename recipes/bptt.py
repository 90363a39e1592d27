"""What cutting backpropagation through time costs and buys: python -m recipes.bptt [--only PART …] [--out FILE]

estimators  bias² and variance of four gradients on the same batches of Tiny Shakespeare
segments    memory and time of a step of the trainer over 1,024 characters, by the segment between cuts
carrying    what a GRU loses of a key over 8 steps, by the segment and by the way of cutting
book        The Time Machine by a plain RNN: the loss with each way of cutting, and the cuts in its first line

Parts that are not asked for stay as they are in the file. Each is a few minutes on an idle core.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from recollect.claims.bptt import KINDS, QUICK, carry
from recollect.claims.laboratory.analysis import peak_kept_bytes
from recollect.claims.laboratory.training import train
from recollect.core import bptt
from recollect.core.bptt import BpttName
from recollect.measure import estimators
from recollect.models import language
from recollect.tasks.text import data
from recollect.tasks.text.settings import Config
from recollect.tasks.text.task import TextTask
from recollect.training.folder import commit, machine
from recollect.training.loop import Trainer
from recollect.training.settings import Settings

CPU = torch.device("cpu")
SEEDS = (0, 1, 2)

TRAINED, BATCHES = 400, 400  # of the estimators: steps before, and batches

LONG = 1024
SEGMENTS = (1024, 512, 256, 128, 64, 32, 16)
STEP: dict[str, Any] = {"width": 128, "batch": 16, "steps": 3}

LAG = 8
CARRIED: tuple[tuple[BpttName, int], ...] = (  # ways of cutting, and the steps of a segment
    ("truncated", 2), ("truncated", 4), ("truncated", 8), ("truncated", 12), ("truncated", 16),
    ("random", 4), ("unbiased", 4), ("full", 32),
)  # fmt: skip

BOOK: dict[str, Any] = {
    "steps": 400, "width": 64, "layers": 1, "context": 64, "batch": 16, "segment": 8, "cut": 0.5, "lr": 3e-3,
    "eval_tokens": 15_000,
}  # fmt: skip
SHOWN = 72  # characters of its first line


def compare_estimators() -> dict[str, Any]:
    corpus = data.load(["tinyshakespeare"])
    task = TextTask(Config(context=64, batch=8, eval_tokens=20_000), corpus)
    rows = []
    for name in ("rnn", "gru", "lstm"):
        torch.manual_seed(0)
        model = language.Config(vocab=corpus.tokenizer.size, model=name, width=64, layers=1).build()
        settings = Settings(steps=TRAINED, lr=3e-3, eval_every=TRAINED, save_every=TRAINED)
        found = Trainer(task, model, settings, None, CPU).run()
        model.double()
        batches = [(batch.x, batch.y) for batch in islice(task.batches("train", 1), BATCHES)]
        for kind, estimate in estimators.compare(model, batches, segment=8, cut=0.5, draws=2).items():
            row = {"model": name, "valid": found["nats_per_token"], "estimator": kind} | estimate._asdict()
            rows.append(row | {"total": estimate.bias + estimate.variance})
            print(f"{name:5} {kind:10}", *(f"{key} {value:.5f}" for key, value in estimate._asdict().items()))
    return {
        "task": "tinyshakespeare, windows of 64 characters, batches of 8, segments of 8, cut 0.5",
        "rule": "relative to the squared length of the mean full gradient",
        "steps": TRAINED,
        "batches": BATCHES,
        "seeds": [0],
        "rows": rows,
    }


def measure_step(name: str, segment: int) -> dict[str, Any]:
    """A few steps of the trainer in this process, which should do nothing else: its memory only ever grows."""
    torch.set_num_threads(1)
    corpus = data.load(["timemachine"])
    settings = {"bptt": "full" if segment == LONG else "truncated", "segment": segment, "eval_tokens": 2}
    task = TextTask(Config(context=LONG, batch=STEP["batch"], **settings), corpus)
    torch.manual_seed(0)
    model = language.Config(vocab=corpus.tokenizer.size, model=name, width=STEP["width"], layers=1).build()

    def trainer(steps: int) -> Trainer:
        return Trainer(task, model, Settings(steps=steps, warmup=0), None, CPU)

    before, own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, trainer(STEP["steps"])
    started = time.process_time()
    own.run()
    seconds = (time.process_time() - started) / STEP["steps"]
    resident = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    kept = peak_kept_bytes(trainer(1).run, model.parameters())
    return {"model": name, "segment": segment, "kept": kept, "resident": resident, "seconds": seconds}


def measure_segments() -> dict[str, Any]:
    rows = []
    for name in ("rnn", "lstm"):
        for segment in SEGMENTS:
            command = [sys.executable, "-m", "recipes.bptt", "--step", name, str(segment)]
            rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
            print(*(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    return {
        "task": f"The Time Machine, windows of {LONG:,} characters, batches of {STEP['batch']}, width {STEP['width']}",
        "rule": "most bytes that autograd kept at a time, weights not counted; growth of the process's peak memory; "
        f"seconds of processor time a step, one thread, mean of {STEP['steps']}",
        "seeds": [0],
        "rows": rows,
    }


def measure_carrying() -> dict[str, Any]:
    terms, steps, rows = QUICK["carry"], QUICK["lags"][LAG], []
    for kind, segment in CARRIED:
        lost = [carry(kind, LAG, steps, seed, "cpu", **terms | {"segment": segment}) for seed in SEEDS]
        rows.append({"gradient": kind, "segment": segment, "lost": lost})
        print(kind, segment, lost, flush=True)
    return {
        "task": f"a GRU of width {terms['width']} says a key again that it read {LAG} steps before; windows of "
        f"{terms['context']}, {steps} steps of {terms['batch']}",
        "rule": "nats of the answers as a share of those of a guess: 1 is nothing learnt",
        "lag": LAG,
        "seeds": list(SEEDS),
        "rows": rows,
    }


def read_book() -> dict[str, Any]:
    rows = []
    for kind in KINDS:
        found = [train("text", "rnn", seed=seed, data=["timemachine"], bptt=kind, **BOOK).metric for seed in SEEDS]
        rows.append({"gradient": kind, "nats": found})
        print(kind, found, flush=True)
    text = data.load(["timemachine"])
    line = text.tokenizer.decode(text.train[:SHOWN].tolist()).replace("\n", " ")
    drawn = {}
    for kind in KINDS[:3]:  # the unbiased one has the boundaries of the regular one
        segments = bptt.plan(kind, SHOWN, BOOK["segment"], BOOK["cut"], torch.Generator().manual_seed(0))
        ends = [sum(segment.steps for segment in segments[: i + 1]) for i in range(len(segments))]
        drawn[kind] = "|".join(line[end - segment.steps : end] for segment, end in zip(segments, ends, strict=True))
    return {
        "task": f"The Time Machine by a plain RNN of width {BOOK['width']}, windows of {BOOK['context']} characters, "
        f"segments of {BOOK['segment']}, {BOOK['steps']} steps of {BOOK['batch']}",
        "rule": f"nats per character over the first {BOOK['eval_tokens']:,} characters of validation",
        "seeds": list(SEEDS),
        "drawn": drawn,
        "rows": rows,
    }


PARTS = {
    "estimators": compare_estimators,
    "segments": measure_segments,
    "carrying": measure_carrying,
    "book": read_book,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--out", default="results/bptt.json")
    parser.add_argument("--step", nargs=2, metavar=("MODEL", "SEGMENT"), help="measure one step, and print it as JSON")
    options = parser.parse_args()
    if options.step:
        name, segment = options.step
        print(json.dumps(measure_step(name, int(segment))))
        return 0
    out = Path(options.out)
    content = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    for name in options.only:
        found = PARTS[name]()
        about = {"command": f"python -m recipes.bptt --only {name}", "commit": commit(), "machine": machine()}
        content[name] = found | about
        out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
