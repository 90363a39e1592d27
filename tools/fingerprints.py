"""Fingerprints of what the commands produce: weights, figures and printed lines of one small run of every kind.

Two versions of the code that give the same fingerprints train the same weights, bit for bit, and print the same
figures. Everything goes through the command line, so the file does not depend on how the package is built.

    .venv/bin/python tools/fingerprints.py write before.json
    .venv/bin/python tools/fingerprints.py compare before.json

With no `--data-dir` the cases that need a known set (MNIST) are left out.
"""

import argparse
import contextlib
import hashlib
import io
import json
import multiprocessing
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}

LINEAGE = ["ar", "mlp", "rnn", "lstm", "gru", "tcn", "transformer", "linear-transformer", "ttt-linear", "ttt-mlp"]
DECODERS = ["fixed", "context", "attend", "conv", "transformer"]
VOLATILE = {  # times and places; and `card`, which is the prose of docstrings
    "card",
    "seconds",
    "memory",
    "peak_bytes",
    "tokens_per_second",
    "commit",
    "command",
    "machine",
    "learning",
    "micros",
}
TIMED = re.compile(r"\d+:\d\d|[\d.,]+ (?:s|ms|µs|seconds)\b|[\d,.]+ tokens/s|[\d,]+ MB")


def cases(data_dir: str | None) -> dict[str, list[str]]:
    """Every command, in an order in which later ones find the runs of earlier ones."""
    few = [
        "--steps",
        "6",
        "--seed",
        "3",
        "--device",
        "cpu",
        "--width",
        "16",
        "--set",
        "eval_every=3",
        "--set",
        "log_every=1",
    ]
    found: dict[str, list[str]] = {}

    def train(task: str, model: str, *flags: str, name: str = "", sized: bool = True) -> str:
        name = name or f"{task}-{model}"
        own = few if sized else [flag for flag in few if flag not in ("--width", "16")]
        found[f"train {name}"] = ["train", task, "--model", model, *own, "--out", f"runs/{name}", *flags]
        found[f"eval {name}"] = ["eval", f"runs/{name}", "--json"]
        return name

    text = ["--data", "book.txt", "--context", "24", "--batch", "4"]
    for model in LINEAGE:
        name = train("text", model, *text)
        found[f"verify {name}"] = ["verify", f"runs/{name}"]
        found[f"generate {name}"] = ["generate", f"runs/{name}", "--length", "40", "--seed", "5", "--prompt", "the "]
    train("text", "ngram", "--data", "book.txt", "--context", "24", "--batch", "4", sized=False)
    found["generate text-ngram"] = ["generate", "runs/text-ngram", "--length", "40", "--seed", "5"]
    train(
        "text", "lstm", *text, "--tokenizer", "words", "--set", "windows=sequential", "--set", "vary=true", name="awd"
    )
    train("text", "gru", *text, "--tokenizer", "bpe", "--vocab", "300", "--set", "bptt=random", name="bptt")
    train("text", "rnn", *text, "--tokenizer", "bytes", "--set", "ema=0.9", "--set", "keep=2", name="averaged")
    train("text", "lstm", *text, "--params", "20k", "--set", "tie=true", name="sized")
    train("text", "transformer", *text, "--set", "precision=bfloat16", "--set", "accumulate=2", name="mixed")
    found["train mixture"] = [
        "train",
        "text",
        "--model",
        "mixture",
        "--of",
        "runs/text-ngram",
        "--of",
        "runs/text-lstm",
        "--out",
        "runs/mixture",
        "--device",
        "cpu",
    ]
    found["eval mixture"] = ["eval", "runs/mixture", "--json"]
    found["eval all rules"] = ["eval", "runs/text-lstm", "--rule", "all"]
    found["eval elsewhere"] = ["eval", "runs/text-lstm", "--data", "other.txt", "--json"]
    found["generate batch"] = [
        "generate",
        "runs/text-transformer",
        "--prompt",
        "the",
        "--prompt",
        "of",
        "--length",
        "20",
        "--top-k",
        "5",
        "--penalty",
        "1.1",
    ]
    found["generate int8"] = ["generate", "runs/text-lstm", "--length", "20", "--precision", "int8", "--greedy"]
    found["generate exact"] = ["generate", "runs/text-gru", "--length", "20", "--exact", "--state-out", "s.safetensors"]
    found["generate on"] = ["generate", "runs/text-gru", "--length", "20", "--state-in", "s.safetensors"]

    for model in DECODERS:
        name = train("translation", model, "--batch", "256", "--tokenizer", "words", "--set", "count=300")
        found[f"verify {name}"] = ["verify", f"runs/{name}"]
        found[f"translate {name}"] = ["translate", f"runs/{name}", "--beam", "3", "--nbest", "2"]
    train("translation", "attend", "--data", "pairs.tsv", "--pair", "en-fr", "--batch", "128", name="pairs")
    found["alignment"] = ["inspect", "runs/translation-attend", "alignment", "--json"]

    for model in LINEAGE:
        name = train("series", model, sized=model != "ar")
        if model not in ("ar",):
            found[f"verify {name}"] = ["verify", f"runs/{name}"]
    train("series", "gru", "--data", "table.csv", "--lookback", "12", "--horizon", "4", name="table")
    train("series", "lstm", "--set", "intervals=quantile", "--set", "ahead=direct", name="quantile")
    found["forecast"] = ["forecast", "runs/table", "table.csv"]
    found["forecast json"] = ["forecast", "runs/table", "table.csv", "--json"]
    found["ahead"] = ["inspect", "runs/series-gru", "ahead", "--json"]

    for model in DECODERS:
        name = train("captions", model, "--batch", "8", "--set", "count=40", "--set", "eval_images=8")
        found[f"verify {name}"] = ["verify", f"runs/{name}"]
    found["gaze"] = ["inspect", "runs/captions-attend", "gaze", "--json"]

    for model in [*LINEAGE, "bag"]:
        train("labels", model, "--data", "labels.tsv", "--batch", "8", sized=model != "bag")
    found["classify"] = ["classify", "runs/labels-gru", "lines.txt"]
    if data_dir:
        train("labels", "gru", "--data", "mnist", "--set", "step=row", "--data-dir", data_dir, name="mnist")
        found["eval mnist"] += ["--data-dir", data_dir]

    for model in ("dot", "features", "biases"):
        train("ratings", model, *(["--set", "features=truth"] if model == "features" else []), sized=False)
    found["directions"] = ["inspect", "runs/ratings-dot", "directions", "--json"]

    for task in ("copy", "adding", "recall", "parity", "gap"):
        for model in LINEAGE if task == "recall" else ("rnn", "transformer"):
            train(task, model, "--batch", "8", "--set", "eval_rows=40")
    found["eval dial"] = ["eval", "runs/copy-rnn", "--data", "distance=30", "--json"]

    for run in ("text-lstm", "translation-attend", "series-gru", "labels-gru", "recall-rnn", "captions-attend"):
        for instrument in ("gradients", "influence", "horizon", "state"):
            found[f"{instrument} {run}"] = ["inspect", f"runs/{run}", instrument, "--json"]
    found["resume"] = ["train", "text", "--resume", "--out", "runs/text-lstm", "--steps", "9", "--device", "cpu"]
    found["eval resumed"] = ["eval", "runs/text-lstm", "--json"]
    claims = (
        "cause dynamic forget-gate heads-params only-mixer perplexity receptive scale set ttt-linear two-way vanish"
    )
    found["claims"] = ["claims", *claims.split(), "--device", "cpu", "--json"]
    found["claims list"] = ["claims", "--list", "--json"]
    found["models"] = ["models", "--json"]
    for task in ("text", "recall", "translation", "series", "captions", "ratings"):
        own = ["--models", "gru,lstm"] if task in ("text", "recall", "series") else []
        own = ["--models", "fixed,attend"] if task in ("translation", "captions") else own
        sized = [] if task == "ratings" else ["--params", "200k" if task == "captions" else "20k"]
        rest = ["--budget", "4", "--jobs", "1", "--device", "cpu", "--seeds", "1", "--json", "--out", f"races/{task}"]
        found[f"race {task}"] = ["race", task, *own, *sized, *rest]
    ladder = "race --ladder attention --budget 3 --jobs 1 --device cpu --json --out races/attention"
    found["race ladder"] = ladder.split()
    found["race labels"] = [
        "race",
        "labels",
        "--data",
        "labels.tsv",
        "--models",
        "bag,gru",
        "--budget",
        "3",
        "--jobs",
        "1",
        "--device",
        "cpu",
        "--json",
    ]
    for wrong in (
        "train txt", "train text --model lstn", "train text --set widht=3", "train series --pair en-de",
        "eval nowhere", "race text --models gpt", "inspect runs/text-lstm gradient", "inspect runs/text-lstm gaze",
        "inspect runs/ratings-dot state", "inspect runs/text-lstm cost --item x", "generate runs/series-gru",
        "train text --resume --out runs/text-gru --lr 3", "eval runs/series-gru --rule windows", "claims nothing",
        "train text --model mixture", "race --ladder nothing", "verify runs/ratings-dot",
        "train text --recipe bad.json",
    ):  # fmt: skip
        found[f"error: {wrong}"] = wrong.split()
    return found


def write_inputs(folder: Path) -> None:
    """Small files of every kind, the same every time."""
    draw = random.Random(0)
    words = [
        "the",
        "of",
        "and",
        "a",
        "to",
        "in",
        "is",
        "you",
        "that",
        "it",
        "he",
        "was",
        "for",
        "on",
        "are",
        "as",
        "with",
        "his",
        "they",
        "at",
        "be",
        "this",
        "have",
        "from",
        "or",
    ]
    for name, count in (("book.txt", 1500), ("other.txt", 300)):
        lines = (" ".join(draw.choices(words, k=8)) + ".\n" for _ in range(count // 8))
        (folder / name).write_text("".join(lines), encoding="utf-8")
    pairs = [(draw.choices(words, k=draw.randint(2, 6))) for _ in range(200)]
    (folder / "pairs.tsv").write_text("".join(f"{' '.join(p)}\t{' '.join(p[::-1])}\n" for p in pairs), encoding="utf-8")
    rows = [
        f"2020-01-{d:02} {h:02}:00,{draw.gauss(h, 1):.3f},{draw.random():.3f}" for d in range(1, 29) for h in range(24)
    ]
    (folder / "table.csv").write_text("time,load,wind\n" + "\n".join(rows) + "\n", encoding="utf-8")
    good = [(" ".join(draw.choices(words, k=draw.randint(3, 9))), draw.choice(("yes", "no"))) for _ in range(200)]
    (folder / "labels.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in good), encoding="utf-8")
    (folder / "lines.txt").write_text("the of and\n\nyou that it he\n", encoding="utf-8")
    (folder / "in.txt").write_text("twenty-one\none hundred and four\n\nseven\n", encoding="utf-8")
    (folder / "bad.json").write_text('{"tsak": 3}', encoding="utf-8")


def steady(content: object) -> object:
    """The same without what differs between two runs of the same code."""
    if isinstance(content, dict):
        return {name: steady(value) for name, value in content.items() if name not in VOLATILE}
    return [steady(value) for value in content] if isinstance(content, list) else content


def normalise(text: str) -> str:
    try:
        return json.dumps(steady(json.loads(text)), sort_keys=True)
    except ValueError:
        return TIMED.sub("#", text)


def weights(folder: Path) -> str | None:
    """The hash of every tensor of a run, names and bytes."""
    from safetensors import safe_open

    path = folder / "model.safetensors"
    if not path.exists():
        return None
    digest = hashlib.sha256()
    with safe_open(path, framework="pt") as file:
        for name in sorted(file.keys()):
            tensor = file.get_tensor(name)
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.contiguous().view(-1).view(dtype=__import__("torch").uint8).numpy().tobytes())
    return digest.hexdigest()[:20]


def child(words: list[str], pipe: object) -> None:
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["recollect", *words]
    code: object = 0
    stdin = open("in.txt", encoding="utf-8")  # noqa: SIM115
    os.dup2(stdin.fileno(), 0)
    sys.stdin = os.fdopen(0, encoding="utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            from recollect.cli import main

            main()
        except SystemExit as end:
            code = end.code
        except BaseException:
            code = "traceback"
            traceback.print_exc(file=err)
    pipe.send((code, out.getvalue(), err.getvalue()))  # type: ignore[attr-defined]


def collect(data_dir: str | None, only: str | None) -> dict[str, dict[str, object]]:
    import torch
    import torch._dynamo

    torch.set_num_threads(1)
    context = multiprocessing.get_context("fork")
    found: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        write_inputs(Path(scratch))
        os.environ["XDG_CACHE_HOME"] = os.environ["RECOLLECT_CACHE"] = str(Path(scratch) / "cache")
        for name, words in cases(data_dir).items():
            if only and not re.search(only, name):
                continue
            receive, send = context.Pipe(duplex=False)
            process = context.Process(target=child, args=(words, send))
            process.start()
            send.close()
            try:
                code, out, err = receive.recv()
            except EOFError:
                code, out, err = "died", "", ""
            process.join()
            out = normalise(out)
            if name.startswith("verify"):  # the ninth law came after the first fingerprints
                lines = [re.sub(" +", " ", line) for line in out.splitlines(keepends=True)]
                out = "".join(line for line in lines if not line.startswith("step"))
            lines = [TIMED.sub("#", line) for line in err.splitlines() if "tokens/s" not in line]
            found[name] = {"exit": code, "stdout": hashlib.sha256(out.encode()).hexdigest()[:20]}
            if name.startswith("train "):
                found[name]["weights"] = weights(Path("runs") / name.removeprefix("train "))
            if name == "resume":
                found[name]["weights"] = weights(Path("runs/text-lstm"))
            if code != 0 or name.startswith("error"):
                found[name]["error"] = lines[-1] if lines else ""
            if len(out) < 600:
                found[name]["shown"] = out
            print(f"{name}: {code} {found[name].get('error', '')}", file=sys.stderr, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("do", choices=("write", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--data-dir")
    parser.add_argument("--only", help="a pattern of case names; runs that later cases need must match too")
    given = parser.parse_args()
    path, data_dir = given.file.resolve(), given.data_dir and str(Path(given.data_dir).resolve())
    here = Path(__file__).resolve().parent
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=here, capture_output=True, text=True)
    found = collect(data_dir, given.only)
    if given.do == "write":
        import torch

        about = {"commit": commit.stdout.strip(), "python": platform.python_version(), "torch": torch.__version__}
        path.write_text(json.dumps(about | {"cases": found}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return
    before = json.loads(path.read_text(encoding="utf-8"))["cases"]
    differing = [name for name, own in found.items() if own != before.get(name)]
    for name in differing:
        print(f"{name}:\n  before {before.get(name)}\n  now    {found[name]}")
    missing = [] if given.only else [name for name in before if name not in found]
    print(f"{len(found) - len(differing)} of {len(found)} cases are the same; {len(missing)} are missing")
    sys.exit(bool(differing or missing))


if __name__ == "__main__":
    main()
