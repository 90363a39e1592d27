"""Make the small runs that come with the package: python -m recipes.demos [NAME…] [--runs DIR]

Each is trained by its recipe and packed as demo-NAME: weights in float16, nothing that training alone needs, and for
those that write the step that onnxruntime runs. The lanes of the studio are packed as lane-MODEL: one of each layer of
the lineage that can be stacked, and counts, all of one recipe.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import torch

from recollect.export.package import export
from recollect.layers import LINEAGE
from recollect.models.body import KINDS
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
    "films": "films/demo.json",
    "speech": "labels/fsdd-gru.json",
    "opinions": "labels/demo.json",
    "ratings": "ratings/demo.json",
}
LANE = "text/lane.json"
COUNTS = "ngram"  # nothing to be trained: counts of up to three characters, about as many as a lane has parameters
LANES = (COUNTS, *{kind.layer: name for name, kind in KINDS.items() if kind.layer in LINEAGE or name == "tcn"}.values())
STEPPED = (
    "text",
    "tang",
    "translation",
    "translation-zh",
    "captions",
)  # they write, so their exported step comes with them


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [*(f"demo-{name}" for name in RECIPES), *(f"lane-{model}" for model in LANES)]
    parser.add_argument("names", nargs="*", default=names, metavar="NAME", choices=[*names, names])
    parser.add_argument("--runs", default="runs", help="where the runs are trained")
    options = parser.parse_args()
    for name in options.names or names:
        out, words = Path(options.runs) / name, training(name)
        if not (out / "model.safetensors").exists():
            command = [sys.executable, "-m", "recollect.cli", "train", *words, "--device", "cpu"]
            subprocess.run([*command, "--out", str(out)], check=True, cwd=HERE.parent)
        pack(out, SHIPPED / name, f"recollect train {' '.join(words)}")


def training(name: str) -> list[str]:
    """The words after `recollect train` by which a run is made."""
    kind, _, rest = name.partition("-")
    if name == f"lane-{COUNTS}":
        return ["text", "--data", "tinyshakespeare", "--model", COUNTS, "--set", "order=3"]
    recipe = LANE if kind == "lane" else RECIPES[rest]
    chosen = ["--model", rest] if kind == "lane" else []
    return [recipe.partition("/")[0], "--recipe", str((HERE / recipe).relative_to(HERE.parent)), *chosen]


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
    checkpoint.write_tensors(place / "model.safetensors", {name: shorten(t) for name, t in tensors.items()}, note)
    if place.name.removeprefix("demo-") in STEPPED:
        export(load(place), place / "step", whole=False)
    size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    print(place.name, f"{size / 1e3:.0f} kB")


def shorten(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers of a model in fewer bits: of 16 where they are floating, of 32 for the keys of a table."""
    if tensor.is_floating_point():
        return tensor.to(torch.float16)
    fits = tensor.dtype == torch.int64 and tensor.numel() > 1 and int(tensor.abs().max()) < 1 << 31
    return tensor.to(torch.int32) if fits else tensor


if __name__ == "__main__":
    main()
