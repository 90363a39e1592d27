"""Run folders made by hand, as a training leaves them."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from recollect.training.folder import MAGIC, VERSION


def make_run(
    path: Path, *, model: str = "lstm", rows: int = 20, lr: float = 1e-3, finished: bool = True, valid: float = 2.0
) -> Path:
    """A run of text with so many rows of training and a validation at every tenth."""
    path.mkdir(parents=True)
    config = {
        "format": MAGIC, "version": VERSION, "task": "text", "data": {"data": ["book.txt"]}, "text": {"batch": 8},
        "model": {"name": model, "width": 16}, "train": {"steps": 10 * rows, "lr": lr, "seed": 0},
        "corpus": {"name": "book", "fingerprint": "0"}, "generated": None, "init": None, "metric": "nats_per_token",
    }  # fmt: skip
    (path / "config.json").write_text(json.dumps(config))
    about = {"command": "recollect train text", "commit": "0", "machine": {}, "date": "2026-01-02T03:04:05+00:00"}
    (path / "manifest.json").write_text(json.dumps(about))
    add_rows(path, range(1, rows + 1))
    if finished:
        (path / "checkpoints").mkdir()
        note = {"recollect": json.dumps({"valid": valid})}
        save_file({"weight": torch.zeros(4, 3)}, path / "model.safetensors", metadata=note)
    return path


def row_of(number: int) -> dict[str, Any]:
    spent = {"step": 10 * number, "tokens": 640 * number, "flops": 1e6 * number, "seconds": 0.5 * number}
    return spent | {"loss": 4.0 / number**0.5, "lr": 1e-3, "norm": 1.0, "tokens_per_second": 1280.0, "memory": 1 << 27}


def add_rows(path: Path, numbers: range) -> None:
    with (path / "metrics.jsonl").open("a") as file:
        for number in numbers:
            file.write(json.dumps(row_of(number)) + "\n")
            if number % 10 == 0:
                row = row_of(number)
                row = {key: row[key] for key in ("step", "tokens", "flops", "seconds")}
                file.write(json.dumps(row | {"valid": 3.0 / number**0.5}) + "\n")
