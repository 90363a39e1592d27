"""Bias² and variance of four ways to cut backpropagation through time: python -m recipes.bptt [--out results/bptt.json]

A small RNN, LSTM and GRU are trained on Tiny Shakespeare for a while with the full gradient; then each estimator is
asked for the gradient of the same batches.
"""

import argparse
import json
import sys
from itertools import islice
from pathlib import Path

import torch

from recollect.measure import estimators
from recollect.models import language
from recollect.tasks.text import data
from recollect.tasks.text.settings import Config
from recollect.tasks.text.task import TextTask
from recollect.training.folder import commit, machine
from recollect.training.loop import Trainer
from recollect.training.settings import Settings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="results/bptt.json")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batches", type=int, default=400)
    options = parser.parse_args()
    corpus = data.load(["tinyshakespeare"])
    task = TextTask(Config(context=64, batch=8, eval_tokens=20_000), corpus)
    rows = []
    for name in ("rnn", "gru", "lstm"):
        torch.manual_seed(0)
        model = language.Config(vocab=corpus.tokenizer.size, model=name, width=64, layers=1).build()
        settings = Settings(steps=options.steps, lr=3e-3, eval_every=options.steps, save_every=options.steps)
        found = Trainer(task, model, settings, None, torch.device("cpu")).run()
        model.double()
        batches = [(batch.x, batch.y) for batch in islice(task.batches("train", 1), options.batches)]
        for kind, estimate in estimators.compare(model, batches, segment=8, cut=0.5, draws=2).items():
            row = {"model": name, "valid": found["nats_per_token"], "estimator": kind} | estimate._asdict()
            rows.append(row | {"total": estimate.bias + estimate.variance})
            print(f"{name:5} {kind:10}", *(f"{key} {value:.5f}" for key, value in estimate._asdict().items()))
    about = {
        "task": "tinyshakespeare, windows of 64 characters, batches of 8, segments of 8, cut 0.5",
        "rule": "relative to the squared length of the mean full gradient",
        "steps": options.steps,
        "batches": options.batches,
        "command": " ".join(["python -m recipes.bptt", *sys.argv[1:]]),
        "commit": commit(),
        "machine": machine(),
        "seed": 0,
    }
    Path(options.out).write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
