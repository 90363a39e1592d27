"""Make the small runs that come with the package: python -m recipes.demos [TASK…] [--runs DIR]

Each is trained by recipes/TASK/demo.json and packed: weights in float16, nothing that training alone needs.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import torch

from recollect.train import checkpoint
from recollect.train.folder import SHIPPED, RunFolder

HERE = Path(__file__).resolve().parent
TASKS = ("text", "translation", "series", "captions")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", default=TASKS, choices=(*TASKS, []))
    parser.add_argument("--runs", default="runs", help="where the runs are trained")
    options = parser.parse_args()
    for task in options.tasks or TASKS:
        out = Path(options.runs) / f"demo-{task}"
        recipe = str((HERE / task / "demo.json").relative_to(HERE.parent))
        if not (out / "model.safetensors").exists():
            command = [sys.executable, "-m", "recollect.cli", "train", task, "--recipe", recipe, "--device", "cpu"]
            subprocess.run([*command, "--out", str(out)], check=True, cwd=HERE.parent)
        pack(out, SHIPPED / f"demo-{task}", f"recollect train {task} --recipe {recipe}")


def pack(run: Path, place: Path, command: str) -> None:
    folder = RunFolder.open(run)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for path in folder.path.iterdir():
        if path.suffix == ".json":
            shutil.copy(path, place)
    manifest = place / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"command": command}, indent=1) + "\n")
    tensors, note = checkpoint.read_tensors(folder.model_path)
    halved = {name: t.to(torch.float16) if t.dtype == torch.float32 else t for name, t in tensors.items()}
    checkpoint.write_tensors(place / "model.safetensors", halved, note)
    print(place.name, f"{sum(path.stat().st_size for path in place.iterdir()) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
