"""Train recipes side by side and collect their rows: python -m recipes.run JOB… --out DIR [--parallel 8]

A JOB is TASK/RECIPE[@SPLIT][:SEED[:key=value,…]], such as text/tinyshakespeare-lstm@test:0:dropout=0.4,steps=3000: the
folder of the recipe is its task, SPLIT the part that its row is measured on (valid). Small trainings are bound by
launches, so many share one GPU. Rows go to DIR/rows.jsonl as the jobs end.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


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
    started, waiting, running, failed = time.monotonic(), list(options.jobs), {}, 0
    while waiting or running:
        late = time.monotonic() - started > options.limit
        while waiting and len(running) < options.parallel and not late:
            job = waiting.pop(0)
            running[job] = start(job, out, options.device)
        for job, process in list(running.items()):
            if late:
                process.terminate()  # it saves, and can be resumed
            if process.poll() is None:
                continue
            del running[job]
            failed += process.returncode != 0
            report(job, process.returncode, out, options, time.monotonic() - started)
        if late and not running:
            print("not started:", *waiting)
            break
        time.sleep(0.5)
    return 1 if failed else 0


def folder(job: str, out: Path) -> Path:
    return out / "runs" / re.sub(r"[:,/@]", "-", job).replace("=", "_")


def parse(job: str) -> tuple[str, str, str, str]:
    """Recipe, split, seed, changes."""
    place, seed, changes = (job.split(":") + ["0", ""][len(job.split(":")) - 1 :])[:3]
    recipe, _, split = place.partition("@")
    return recipe, split or "valid", seed, changes


def start(job: str, out: Path, device: str) -> subprocess.Popen:
    recipe, _, seed, changes = parse(job)
    task = recipe.partition("/")[0]
    command = [sys.executable, "-m", "recollect.cli", "train", task, "--recipe", str(HERE / f"{recipe}.json")]
    command += ["--seed", seed, "--device", device, "--out", str(folder(job, out))]
    for change in filter(None, changes.split(",")):
        command += ["--set", change]
    log = (out / f"{folder(job, out).name}.log").open("w")
    print("start", job, flush=True)
    return subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"})


def rules_for(run: str, wanted: str) -> list[str]:
    """The rule that the run itself was judged by stands first.

    A Transformer's cache grows with all that it has read: its state is not carried through a whole text.
    """
    config = json.loads((Path(run) / "config.json").read_text())
    rules = [rule for rule in wanted.split(",") if rule != "stateful" or config["model"]["name"] != "transformer"]
    return sorted(rules, key=lambda rule: rule != config["text"]["eval_rule"])


def report(job: str, code: int, out: Path, options: argparse.Namespace, seconds: float) -> None:
    from recollect.train.jobs import job_of

    log = (out / f"{folder(job, out).name}.log").read_text().strip().split("\n")
    if code:
        print(f"{seconds:6.0f}s {job} exit {code}: {log[-1][-300:]}", flush=True)
        return
    device = options.device if options.device != "auto" else "cuda"
    try:
        run = str(folder(job, out))
        rules = {"rules": rules_for(run, options.rules)} if job.startswith("text/") else {}
        row = job_of(run).result(run, split=parse(job)[1], device=device, **rules)
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
    sys.exit(main())
