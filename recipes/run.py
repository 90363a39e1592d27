"""Train recipes side by side and collect their rows: python -m recipes.run JOB… --out DIR [--parallel 8]

A JOB is TASK/RECIPE[@SPLIT][:SEED[:key=value,…]], such as text/tinyshakespeare-lstm@test:0:dropout=0.4,steps=3000: the
folder of the recipe is its task, SPLIT the part that its row is measured on (valid). Small trainings are bound by
launches, so many share one GPU. Rows go to DIR/rows.jsonl as the jobs end.
"""

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from recollect.racing.processes import Died, Task, run_in_processes

HERE = Path(__file__).resolve().parent


class Training(NamedTuple):
    """A job, the folder of the results, and the device."""

    job: str
    out: Path
    device: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", nargs="+")
    parser.add_argument("--out", required=True)
    parser.add_argument("--parallel", type=int, default=8)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rules", default="windows,stateful", help="of text")
    parser.add_argument("--limit", type=float, default=540, help="seconds after which jobs that still run are stopped")
    options = parser.parse_args()
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    began, started, failed = time.monotonic(), set(), 0

    def note_started(running: Sequence[Task]) -> None:
        for task in running:
            if task.given.job not in started:
                started.add(task.given.job)
                print("start", task.given.job, flush=True)

    trainings = [Training(job, out, options.device) for job in dict.fromkeys(options.jobs)]
    tasks = [Task(number, train, training) for number, training in enumerate(trainings)]
    for task, code in run_in_processes(tasks, options.parallel, note_started, options.limit):
        failed += code != 0
        report(task.given.job, code, out, options, time.monotonic() - began)
    if left := [training.job for training in trainings if training.job not in started]:
        print("not started:", *left)
    return 1 if failed else 0


def folder(job: str, out: Path) -> Path:
    return out / "runs" / re.sub(r"[:,/@]", "-", job).replace("=", "_")


def parse(job: str) -> tuple[str, str, str, str]:
    """Recipe, split, seed, changes."""
    place, seed, changes = (job.split(":") + ["0", ""][len(job.split(":")) - 1 :])[:3]
    recipe, _, split = place.partition("@")
    return recipe, split or "valid", seed, changes


def train(training: Training) -> int:
    """Train a recipe by the command line, in a process of its own; all that it prints goes to a log.

    Returns the exit code. A run that is stopped saves, and can be resumed.
    """
    import torch

    from recollect import cli

    recipe, _, seed, changes = parse(training.job)
    run = folder(training.job, training.out)
    with (training.out / f"{run.name}.log").open("w") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    torch.set_num_threads(1)
    sys.argv = ["recollect", "train", recipe.partition("/")[0], "--recipe", str(HERE / f"{recipe}.json")]
    sys.argv += ["--seed", seed, "--device", training.device, "--out", str(run)]
    for change in filter(None, changes.split(",")):
        sys.argv += ["--set", change]
    try:
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def rules_for(run: str, wanted: str) -> list[str]:
    """The rule that the run itself was judged by stands first.

    A Transformer's cache grows with all that it has read: its state is not carried through a whole text.
    """
    config = json.loads((Path(run) / "config.json").read_text())
    rules = [rule for rule in wanted.split(",") if rule != "stateful" or config["model"]["name"] != "transformer"]
    return sorted(rules, key=lambda rule: rule != config["text"]["eval_rule"])


def report(job: str, code: int | Died, out: Path, options: argparse.Namespace, seconds: float) -> None:
    from recollect.training.evaluation import result

    log = (out / f"{folder(job, out).name}.log").read_text().strip().split("\n")
    if code:
        why = code.reason if isinstance(code, Died) else f"exit {code}"
        print(f"{seconds:6.0f}s {job} {why}: {log[-1][-300:]}", flush=True)
        return
    device = options.device if options.device != "auto" else "cuda"
    try:
        run = str(folder(job, out))
        rules = {"rules": rules_for(run, options.rules)} if job.startswith("text/") else {}
        row = result(run, split=parse(job)[1], device=device, **rules)
        row["recipe"] = job
    except Exception as error:
        print(f"{seconds:6.0f}s {job} trained, but its row failed: {error!r}", flush=True)
        return
    with (out / "rows.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    metric = row["metric"]
    best = min(row["curve"], key=lambda point: point[1])
    print(
        f"{seconds:6.0f}s {job}  {metric['name']} {metric['value']:.4f} ({metric['rule']})  params {row['params']:,}  "
        f"best at step {best[0]}  {row['seconds'] or 0:.0f} s of training",
        flush=True,
    )


if __name__ == "__main__":
    from recipes import run  # by its own name, since other processes import what they are to call

    sys.exit(run.main())
