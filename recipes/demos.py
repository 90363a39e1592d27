"""Make the small runs that come with the package: python -m recipes.demos [NAME…] [--runs DIR]

Each is trained by its recipe and packed as demo-NAME: weights in float16, nothing that training alone needs, and for
those that write the step that onnxruntime runs.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import torch

from recollect.export.package import export
from recollect.training import checkpoint
from recollect.training.folder import SHIPPED, RunFolder
from recollect.training.run import load

HERE = Path(__file__).resolve().parent
RECIPES = {  # name → its recipe, in the folder of its task
    "text": "text/demo.json",
    "tang": "text/demo-tang.json",
    "translation": "translation/demo.json",
    "translation-zh": "translation/demo-zh.json",
    "series": "series/demo.json",
    "captions": "captions/demo.json",
    "speech": "labels/fsdd-gru.json",
    "opinions": "labels/demo.json",
    "ratings": "ratings/demo.json",
}
STEPPED = (
    "text",
    "tang",
    "translation",
    "translation-zh",
    "captions",
)  # they write, so their exported step comes with them


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(RECIPES), metavar="NAME", choices=[*RECIPES, list(RECIPES)])
    parser.add_argument("--runs", default="runs", help="where the runs are trained")
    options = parser.parse_args()
    for name in options.names or RECIPES:
        out = Path(options.runs) / f"demo-{name}"
        task = RECIPES[name].partition("/")[0]
        recipe = str((HERE / RECIPES[name]).relative_to(HERE.parent))
        if not (out / "model.safetensors").exists():
            command = [sys.executable, "-m", "recollect.cli", "train", task, "--recipe", recipe, "--device", "cpu"]
            subprocess.run([*command, "--out", str(out)], check=True, cwd=HERE.parent)
        pack(out, SHIPPED / f"demo-{name}", f"recollect train {task} --recipe {recipe}")


def pack(run: Path, place: Path, command: str) -> None:
    folder = RunFolder.open(run)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for path in folder.path.iterdir():
        if path.suffix == ".json":
            shutil.copy(path, place)
    config = place / "config.json"  # without the folder of known sets, which is that of this machine
    config.write_text(json.dumps(json.loads(config.read_text()) | {"data_dir": None}, indent=1) + "\n")
    manifest = place / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"command": command}, indent=1) + "\n")
    tensors, note = checkpoint.read_tensors(folder.model_path)
    halved = {name: t.to(torch.float16) if t.dtype == torch.float32 else t for name, t in tensors.items()}
    checkpoint.write_tensors(place / "model.safetensors", halved, note)
    if place.name.removeprefix("demo-") in STEPPED:
        export(load(place), place / "step", whole=False)
    size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    print(place.name, f"{size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
