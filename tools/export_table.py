"""results/export.json: every model of every task, exported and run by onnxruntime in a process without torch.

    python -m tools.export_table [--only TASK …] [--out FILE]

A row takes the place of an older one of the same model, so that one task can be measured again.

The models are untrained: an export costs and errs the same whatever the weights are. Each is exported in float32,
float16 and int8; a second process, in which torch cannot be imported, measures a step and every whole call at batch 1
on one thread: the best of 5 rounds.
"""

import argparse
import gzip
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recollect import tasks
from recollect.core.task import LoadedRun
from recollect.export import package
from recollect.models import language
from recollect.training import checkpoint, folder
from recollect.training import run as runs

LINEAGE = tuple(language.KINDS)
MEMORY = ("copy", "adding", "recall", "parity", "gap", "order", "clouds", "agreement", "nested")
PRECISIONS = ("float32", "float16", "int8")
WIDTH = 64
BODY = {"width": WIDTH, "layers": 2}
ROUNDS, STEPS, CALLS = 5, 200, 20
ABOUT = "Every model of every task exported to ONNX: see tools/export_table.py"

MEASURE = """
import json, sys, time
sys.modules["torch"] = None
import numpy as np
from pathlib import Path
from recollect.runtime.manifest import check_file, read_manifest
from recollect.runtime.session import Step, open_session

ROUNDS, STEPS, CALLS = json.loads(sys.argv[2])
place = Path(sys.argv[1])
manifest, found = read_manifest(place), {}
given = dict(np.load(place.parent / "inputs.npz"))

def best(function, count):
    function()
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(count):
            function()
        times.append((time.perf_counter() - began) / count)
    return 1e6 * min(times)

for name, graph in manifest.graphs.items():
    if name not in ("step", "chunk"):
        session = open_session(check_file(place, manifest, graph.file))
        feeds = {value.name: given[f"{name}.{value.name}"] for value in graph.inputs}
        found[name] = best(lambda: session.run(None, feeds), CALLS)
        if name == "encode":
            left = dict(zip([out.name for out in session.get_outputs()], session.run(None, feeds)))
if "step" in manifest.graphs:
    step = Step.open(place, threads=1)
    x = given["step"]

    def steps():
        state = step.initial_state(1, left if "encode" in manifest.graphs else None)
        for _ in range(STEPS):
            _, state = step(x, state)

    found["step"] = best(steps, 1) / STEPS
print(json.dumps(found))
"""


def cases(place: Path) -> Iterator[tuple[str, str, dict[str, Any], list[str]]]:
    """Task, model, settings, data."""
    for model in LINEAGE:
        yield "text", model, {"context": 64} | BODY, [str(place / "text.txt")]
    pairs = {"count": 400, "width": WIDTH, "layers": 1}
    for model in ("fixed", "context", "attend"):
        for cell in ("rnn", "lstm", "gru"):
            yield "translation", model, pairs | {"cell": cell}, []
    for model in ("conv", "transformer"):
        yield "translation", model, pairs | {"layers": 2}, []
    for model in ("fixed", "context", "attend", "conv", "transformer"):
        yield "captions", model, {"count": 24, "pixels": 64, "width": WIDTH}, ["shapes"]
    for model in ("bag", "gru", "tcn", "transformer"):
        yield "films", model, {"count": 24, "pixels": 32, "width": WIDTH}, []
    for model in ("ctc", "fixed", "attend", "transformer"):
        yield "transcribe", model, {"count": 24, "width": WIDTH}, []
    for model in LINEAGE:
        yield "series", model, {"lookback": 96, "horizon": 24, "width": WIDTH}, ["sine"]
    yield "series", "transformer", {"lookback": 96, "horizon": 24, "width": WIDTH, "attention": "full"}, ["sine"]
    recursive = {"lookback": 96, "horizon": 24, "width": WIDTH, "ahead": "recursive", "segment": 8}
    yield "series", "lstm", recursive | {"intervals": "gaussian"}, ["sine"]
    yield "series", "gru", {"lookback": 96, "horizon": 24, "width": WIDTH, "intervals": "quantile"}, ["sine"]
    for model in LINEAGE:
        yield "labels", model, BODY, [str(place / "labels.tsv")]
    yield "labels", "lstm", BODY, [str(place / "pictures")]
    for model in ("dot", "features", "biases"):
        yield "ratings", model, {"users": 100, "items": 60, "ratings": 2000, "features": "truth"}, []
    for task in MEMORY:
        for model in LINEAGE if task == "copy" else ("lstm", "transformer"):
            yield task, model, BODY | {"eval_rows": 16, "batch": 16}, []


def write_data(place: Path) -> None:
    """Texts, labelled texts and pictures, without any sense."""
    draw = random.Random(0)
    words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(2, 7))) for _ in range(200)]
    (place / "text.txt").write_text(" ".join(draw.choices(words, k=8_000)), encoding="utf-8")
    lines = [f"{' '.join(draw.choices(words, k=12))}\t{('no', 'yes')[number % 2]}\n" for number in range(400)]
    (place / "labels.tsv").write_text("".join(lines), encoding="utf-8")
    (place / "pictures").mkdir()
    generator = np.random.default_rng(0)
    for name, count in (("train", 60), ("t10k", 20)):
        for kind, array in (
            ("images-idx3", generator.integers(0, 256, (count, 28, 28), np.uint8)),
            ("labels-idx1", (np.arange(count) % 2).astype(np.uint8)),
        ):
            head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
            path = place / "pictures" / f"{name}-{kind}-ubyte.gz"
            path.write_bytes(gzip.compress(head + array.tobytes()))


def make_run(place: Path, task: str, model: str, settings: dict[str, Any], data: list[str]) -> LoadedRun[Any, Any]:
    """The run of an untrained model."""
    kind = tasks.find(task)
    texts = {name: str(value) for name, value in settings.items()}
    config = runs.configure(kind, texts, model=model, **({"data": data} if data else {}))
    found = kind.load_data(config.data, None)
    config = kind.resolve(config, found, None)
    artifacts = kind.artifacts_of(found)
    module = runs.initial_model(kind, config, artifacts, None)
    checkpoint.write_tensors(place / "model.safetensors", checkpoint.weights(module), {})
    return LoadedRun(place, kind, config, module.eval(), artifacts)


def write_inputs(made: package.Exported, path: Path) -> None:
    """One row of inputs for each graph."""
    found = {}
    for name, (graph, _) in made.graphs.items():
        if graph.draw is not None:
            given = graph.draw(1, torch.Generator().manual_seed(0))
            found |= {f"{name}.{own}": tensor.numpy() for own, tensor in given.items()}
    if made.steps is not None:
        found["step"] = made.steps[1][:1, 0].numpy()
    np.savez(path, **found)


def measure(place: Path) -> dict[str, float]:
    """Microseconds of each graph, by a process without torch."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", MEASURE, str(place), json.dumps([ROUNDS, STEPS, CALLS])]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def export_case(place: Path, task: str, model: str, settings: dict[str, Any], data: list[str]) -> dict[str, Any]:
    """One row of the table."""
    run = make_run(place, task, model, settings, data)
    began = time.perf_counter()
    made = package.trace_run(run, whole=True)
    traced = time.perf_counter() - began
    write_inputs(made, place / "inputs.npz")
    row: dict[str, Any] = {
        "task": task,
        "model": model,
        "settings": settings | ({"data": Path(data[0]).name} if data else {}),
        "parameters": sum(part.numel() for part in made.model.parameters()),
        "graphs": list(made.graphs),
        "precisions": {},
    }
    for precision in PRECISIONS:
        out = place / precision
        found = package.write(made, out, precision=precision, whole=True)
        if precision == "float32":
            row |= {"steps": found.agreement.steps, "inputs": list(found.agreement.inputs)}
            row["seconds"] = {"trace": traced, "all": time.perf_counter() - began}
        row["precisions"][precision] = {
            "largest_error": found.agreement.largest_error,
            "bytes": {name: (out / graph.file).stat().st_size for name, graph in found.graphs.items()},
            "micros": measure(out),
            "quality": None if found.quality is None else vars(found.quality),
        }
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", help="tasks")
    parser.add_argument("--out", default="results/export.json")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    place = Path(given.out)
    found = json.loads(place.read_text(encoding="utf-8"))["rows"] if place.exists() else []
    rows = {identify(row): row for row in found}
    source = {
        "command": " ".join(["python -m tools.export_table", *sys.argv[1:]]),
        "commit": folder.commit(),
        "machine": folder.machine(),
    }
    with tempfile.TemporaryDirectory() as temporary:
        data = Path(temporary)
        os.environ["RECOLLECT_CACHE"] = str(data / "cache")
        write_data(data)
        wanted = [case for case in cases(data) if not given.only or case[0] in given.only]
        for number, (task, model, settings, names) in enumerate(wanted):
            own = data / str(number)
            own.mkdir()
            row = export_case(own, task, model, settings, names) | source
            rows[identify(row)] = row
            plain = row["precisions"]["float32"]
            print(f"{task} {model}: {plain['largest_error']:.1e}, {row['seconds']['all']:.1f} s", file=sys.stderr)
            content = {"about": ABOUT, "rows": list(rows.values())}
            place.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def identify(row: dict[str, Any]) -> str:
    """What a later run of the same row takes the place of."""
    return json.dumps([row["task"], row["model"], row["settings"]], sort_keys=True)


if __name__ == "__main__":
    main()
