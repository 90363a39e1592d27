"""A heat: every model trained on the same text, with the same number of parameters, tokens and tries.

Each finished entry is a row in results.jsonl, so a race that was stopped goes on with the entries it lacks.
An entry that fails is a row that says so, and the others go on.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ..core.files import write_aside
from ..data.corpus import Corpus
from ..models import language, ngram
from ..models.size import parameters
from ..tasks import text
from ..train.folder import commit, machine
from ..train.loop import Interrupted, Trainer
from ..train.progress import memory
from ..train.settings import Settings
from ..train.text import DataConfig, build_model

SCHEMA = 1
# Learning rates for small models, set by hand and not searched: an equal search for all is still to come.
RATES = {"rnn": 1e-3, "mlp": 3e-3, "tcn": 3e-3, "lstm": 1e-2, "gru": 3e-3}
DEFAULT_RATE = 3e-3


@dataclass(frozen=True, kw_only=True)
class Heat:
    """The terms, the same for all: `params` parameters, `steps` batches of `batch` windows of `context` tokens."""

    models: tuple[str, ...]
    params: int = 150_000
    steps: int = 200
    batch: int = 16
    context: int = 64
    seeds: int = 1
    order: int = 5  # of the n-gram model
    eval_tokens: int = 32_768

    def entries(self) -> list[tuple[str, int]]:
        return [(model, seed) for model in self.models for seed in range(1 if model == "ngram" else self.seeds)]


def run(
    heat: Heat,
    data: DataConfig,
    out: Path,
    *,
    device: str = "cpu",
    data_dir: str | None = None,
    command: str = "",
    say: Callable[[str], None] = print,
) -> list[dict[str, Any]]:
    """Race every entry that results.jsonl does not hold yet. Returns all rows."""
    corpus = data.load(data_dir)
    terms = asdict(heat) | {"corpus": corpus.fingerprint}
    out.mkdir(parents=True, exist_ok=True)
    rows = _finished(out, terms)
    write_aside(out / "race.json", (json.dumps(terms, indent=1) + "\n").encode())
    for number, (model, seed) in enumerate(heat.entries(), 1):
        if any(row["model"] == model and row["seed"] == seed and "error" not in row for row in rows):
            continue
        say(f"[{number}/{len(heat.entries())}] {model}, seed {seed}")
        row = _try(heat, model, seed, corpus, device) | {"command": command}
        rows = [r for r in rows if (r["model"], r["seed"]) != (model, seed)] + [row]
        write_aside(out / "results.jsonl", "".join(json.dumps(r) + "\n" for r in rows).encode())
    return rows


def _finished(out: Path, terms: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of an earlier, stopped race on the same terms."""
    if not (out / "results.jsonl").exists():
        return []
    before = json.loads((out / "race.json").read_text(encoding="utf-8"))
    kept = {name: value for name, value in before.items() if name not in ("models", "seeds")}
    if kept != {
        name: json.loads(json.dumps(value)) for name, value in terms.items() if name not in ("models", "seeds")
    }:
        raise ValueError(f"{out}: expected a race on the same terms, found {kept}; use another --out")
    return [json.loads(line) for line in (out / "results.jsonl").read_text(encoding="utf-8").split("\n") if line]


def _try(heat: Heat, model: str, seed: int, corpus: Corpus, device: str) -> dict[str, Any]:
    try:
        return _race(heat, model, seed, corpus, device)
    except Interrupted:
        raise
    except (ValueError, RuntimeError) as error:
        return {"schema": SCHEMA, "task": "text", "model": model, "seed": seed, "error": " ".join(str(error).split())}


def _race(heat: Heat, name: str, seed: int, corpus: Corpus, device: str) -> dict[str, Any]:
    """One entry: trained, measured, and what it cost."""
    torch.manual_seed(seed)
    config = text.Config(context=heat.context, batch=heat.batch, eval_tokens=heat.eval_tokens)
    task = text.TextTask(config, corpus, device, seed)
    started = time.perf_counter()
    if name == "ngram":
        settings: dict[str, Any] = {"order": heat.order}
        model = build_model({"name": name} | settings, corpus.tokenizer.size)
        assert isinstance(model, ngram.Ngram)
        model.train_on(task.tokens("train")[: heat.steps * heat.batch * heat.context])
        tokens, flops = heat.steps * heat.batch * heat.context, 0.0
        seconds = time.perf_counter() - started
        found = task.evaluate(model, "valid")
    else:
        base = language.Config(vocab=corpus.tokenizer.size, model=name)  # type: ignore[arg-type]
        chosen = language.width_for(base, heat.params)
        settings = {k: v for k, v in asdict(chosen).items() if k not in ("vocab", "model")}
        model = chosen.build()
        rate = RATES.get(name, DEFAULT_RATE)
        train = Settings(steps=heat.steps, lr=rate, warmup=max(1, heat.steps // 10), eval_every=heat.steps, seed=seed)
        trainer = Trainer(task, model, replace(train, save_every=heat.steps), None, torch.device(device))
        found = trainer.run()
        settings["lr"] = rate
        tokens, flops, seconds = trainer.spent.tokens, trainer.spent.flops, trainer.spent.seconds
    return {
        "schema": SCHEMA,
        "task": "text",
        "data": corpus.name,
        "model": name,
        "settings": settings,
        "seed": seed,
        "metric": {"name": "nats_per_token", "value": found["nats_per_token"], "rule": found["rule"]},
        "params": parameters(model),
        "entries": model.entries() if isinstance(model, ngram.Ngram) else None,
        "tokens": tokens,
        "flops": flops,
        "seconds": seconds,
        "peak_bytes": memory(torch.device(device)),
        "state_bytes": model.cost(1, heat.context).state_bytes,  # type: ignore[operator]
        "by_position": found.get("by_position"),
        "baselines": task.baselines("valid"),
        "commit": commit(),
        "machine": machine(),
    }


def table(rows: Sequence[dict[str, Any]]) -> tuple[tuple[str, ...], list[list[str]]]:
    """The rows by rank, seeds put together."""
    columns = ("model", "nats/token", "perplexity", "params", "n-grams", "tokens", "seconds", "bytes of state")
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["model"], []).append(row)
    lines = []
    for model, group in groups.items():
        good = [row for row in group if "error" not in row]
        if not good:
            lines.append((float("inf"), [model, "failed: " + group[0]["error"], "", "", "", "", "", ""]))
            continue
        values = torch.tensor([row["metric"]["value"] for row in good], dtype=torch.float64)
        spread = f" ± {float(values.std()):.3f}" if len(good) > 1 else ""
        mean, first = float(values.mean()), good[0]
        cells = [
            model,
            f"{mean:.3f}{spread}",
            f"{float(values.mean().exp()):.2f}",
            f"{first['params']:,}",
            f"{first['entries']:,}" if first["entries"] else "–",
            f"{first['tokens']:,}",
            f"{sum(row['seconds'] for row in good) / len(good):.1f}",
            f"{first['state_bytes']:,}",
        ]
        lines.append((mean, cells))
    return columns, [cells for _, cells in sorted(lines, key=lambda line: line[0])]
