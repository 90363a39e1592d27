"""Races and claims as they come out, made up with a fixed seed: what a page must be able to show."""

import json
import math
import random

LINEAGE = ("mlp", "rnn", "lstm", "gru", "tcn", "transformer", "linear-transformer", "ttt-linear", "ttt-mlp")
TRANSLATORS = ("fixed", "context", "attend", "conv", "transformer")
CARD = {
    "name": "lstm",
    "summary": "Long short-term memory: a cell that is added to.",
    "state": "h, c",
    "update": "i, f, o = σ(W x + U h + b);  g = tanh(W x + U h + b);  c ← f·c + i·g;  h ← o·tanh(c)",
    "read": "y = h",
    "grows": "no",
    "fast": "fused kernel",
}
MACHINE = {"system": "Linux", "processor": "x86_64", "cores": 2, "gpu": None, "python": "3.11.7", "torch": "2.13.0"}


def heat(name="recall", **other):
    return {
        "name": name,
        "task": "recall",
        "title": "Recall: which value stood beside this key?",
        "question": "Pairs of a key and a value go by; then keys are asked for, and the model must say the value.",
        "metric": {"name": "accuracy", "label": "share recalled", "better": "higher", "unit": "share"},
        "learning": {"name": "accuracy", "label": "share right", "better": "higher", "unit": "share"},
        "terms": {"params": 30_000, "steps": 400, "batch": 64, "equal": "params", "budget": 400, "data": {}},
        "ladder": None,
        "rungs": None,
        "notes": ["Chance is one in sixteen."],
    } | other


def row(heat, model, seed, value, *, rung=None, rng=None, better="higher"):
    """A finished entry: curves lead to `value`, attention's state and cost grow, gradients fade by kind."""
    rng = rng or random.Random(f"{model} {seed}")
    grows = "transformer" in model and "linear" not in model
    start = 0.06 if better == "higher" else 3.4
    speed = rng.uniform(3, 9)
    pace = {"rnn": 0.8, "transformer": 0.75}.get(model, 1.0) if grows else rng.uniform(0.9, 2.2)
    learning = [
        [40 * i, 40 * 64 * i, round(pace * 2.3 * i, 2), value + (start - value) * math.exp(-speed * i / 10)]
        for i in range(1, 11)
    ]
    fade = 0.995 if grows else rng.uniform(0.82, 0.97)
    return {
        "schema": 1,
        "task": "recall",
        "data": "recall",
        "split": "valid",
        "model": model,
        "settings": {"train": {"lr": 0.003}},
        "seed": seed,
        "metric": {"name": "accuracy", "value": value, "rule": "every question of 1,000 rows, the likeliest answer"},
        "params": 30_000 + rng.randrange(-900, 900),
        "tokens": 1_638_400,
        "flops": rng.uniform(2e11, 9e11),
        "seconds": pace * 23.4,
        "peak_bytes": 312_000_000,
        "state_bytes": 65_536 if grows else 512,
        "commit": "1a2b3c4d5e6f",
        "command": f"recollect race recall --models {model}",
        "machine": MACHINE,
        "curve": [],
        "heat": heat,
        "rung": rung,
        "entry": rung or model,
        "card": CARD | {"name": model},
        "learning": learning,
        "by_position": [2.6 * (i + 1) ** -rng.uniform(0.1, 0.16) + rng.gauss(0, 0.02) for i in range(256)],
        "sample": None,
        "gradient": {"distance": list(range(64)), "norm": [fade**k * rng.uniform(0.8, 1.2) for k in range(64)]},
        "costs": [
            {
                "length": n,
                "flops": 60_000 * n + (130 * n * n if grows else 0),
                "state_bytes": 1024 * n if grows else 512,
            }
            for n in (64, 256, 1024, 4096)
        ],
        "baselines": {"chance": 0.9375, "most frequent": 0.929},
        "fair": {"data": "b546ea56", "tokenizer": None, "batch": 64},
        "unfair": [],
        "search": None,
        "run": f"runs/{heat}-{model}-{seed}",
    }


def recall_rows(models=LINEAGE, seeds=3):
    rng = random.Random(0)
    centre = {model: min(0.999, 0.22 + 0.78 * rng.random()) for model in models} | {"transformer": 0.9961}
    return [
        row("recall", model, seed, max(0.02, min(1.0, centre[model] + rng.gauss(0, 0.012))))
        for model in models
        for seed in range(seeds)
    ]


def translation_heat():
    return heat(
        "numbers",
        task="translation",
        title="Translation: numbers in words, English to French",
        question="Translate a number in words. Unseen numbers are asked for, so nothing can be learned by heart.",
        metric={"name": "bleu", "label": "BLEU", "better": "higher", "unit": ""},
        learning={"name": "nats_per_token", "label": "nats per token", "better": "lower", "unit": ""},
        notes=[],
    )


def translation_rows(seeds=3):
    rng = random.Random(1)
    found = []
    for place, model in enumerate(TRANSLATORS):
        for seed in range(seeds):
            made = row("numbers", model, seed, 40 + 12 * place + rng.gauss(0, 4))
            made["learning"] = [[s, t, c, 3.5 * math.exp(-s / (300 - 40 * place))] for s, t, c, _ in made["learning"]]
            made["baselines"] = {"uniform": 5.86, "unigram": 3.16}
            made["by_position"] = made["by_position"][:14]
            answer = "neuf cent douze" if place > 1 else "neuf cent deux"
            made["sample"] = [
                {"source": "nine hundred and twelve", "reference": "neuf cent douze", "output": answer},
                {
                    "source": "two < three & 四 > 三",
                    "reference": "deux < trois & 四",
                    "output": "deux <script>alert(1)",
                },
            ]
            found.append(made)
    return found


def ladder_heat():
    return heat(
        "state",
        title="The ladder of states",
        ladder="state",
        rungs=[
            {"name": "rnn", "model": "rnn", "change": "One vector, overwritten at each step."},
            {"name": "linear attention", "model": "linear-transformer", "change": "A matrix that is added to."},
            {"name": "test-time training", "model": "ttt-linear", "change": "A model that learns as it reads."},
            {"name": "attention", "model": "transformer", "change": "Everything is kept, and looked at again."},
        ],
    )


def ladder_rows(seeds=3):
    rng = random.Random(2)
    found = []
    for rung, centre in zip(ladder_heat()["rungs"], (0.2, 0.55, 0.56, 0.99), strict=True):
        for seed in range(seeds):
            value = min(1.0, centre + rng.gauss(0, 0.015))
            found.append(row("state", rung["model"], seed, value, rung=rung["name"]))
    return found


def text_heat():
    return heat(
        "text",
        task="text",
        title="Text: the next character",
        question="Go on with a text: which character comes next?",
        metric={"name": "nats_per_token", "label": "nats per token", "better": "lower", "unit": ""},
        learning={"name": "nats_per_token", "label": "nats per token", "better": "lower", "unit": ""},
        notes=["At a budget this small an n-gram model, which only counts, is hard to beat."],
    )


def text_rows():
    found = []
    for model, value in (("ngram", 1.71), ("rnn", 2.05), ("lstm", 1.9), ("transformer", 1.83)):
        made = row("text", model, 0, value, better="lower")
        made["baselines"] = {"uniform": 4.17, "unigram": 3.35}
        made["sample"] = {
            "prompt": "def read(path):\n",
            "text": "    with open(path) as file:\n        return\x00\x07 <&> 你好",
        }
        if model == "ngram":
            made |= {"params": None, "entries": 120_345, "learning": [], "gradient": None, "flops": None}
        found.append(made)
    return found


def failed(heat, model, seed=0):
    return {
        "schema": 1,
        "task": "recall",
        "model": model,
        "seed": seed,
        "heat": heat,
        "rung": None,
        "entry": model,
        "error": f"{model}: expected a finite loss, found nan at step 12; lower --set lr=… <0.003>",
        "unfair": [],
    }


def race(*heats):
    return {
        "schema": 1,
        "title": "A race of memories",
        "command": "recollect race --seeds 3 --out races/first",
        "heats": list(heats),
    }


def full():
    """Everything at once: four heats, nine models, a failure, an unfair entry, names that are hard to show."""
    rows = recall_rows() + translation_rows() + ladder_rows() + text_rows()
    rows[4]["unfair"] = ["size"]
    hostile = row("recall", "a-very-long-name-of-a-model-that-somebody-thought-of <b>&记忆</b>", 0, 0.5)
    hostile["card"] = None
    return race(heat(), translation_heat(), ladder_heat(), text_heat()), [*rows, hostile, failed("recall", "tcn-deep")]


def save(folder, race, rows):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "race.json").write_text(json.dumps(race), encoding="utf-8")
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def claims():
    lines = [
        {
            "name": name,
            "x": [1, 2, 4, 8, 16, 32],
            "y": [rate**k for k in (1, 2, 4, 8, 16, 32)],
            "low": None,
            "high": None,
        }
        for name, rate in (("rnn", 0.8), ("lstm", 0.99))
    ]
    fade = {
        "title": "Gradient by distance",
        "x": "steps back",
        "y": "size",
        "lines": lines,
        "kind": "lines",
        "log_x": False,
        "log_y": True,
        "level": 0.01,
        "level_name": "lost",
    }
    bars = fade | {
        "title": "Right answers by length of the source",
        "kind": "bars",
        "log_y": False,
        "lines": [
            {"name": n, "x": ["short", "middle", "long"], "y": [0.99, v, v / 2], "low": [0.98, v - 0.05, v / 2 - 0.04],
             "high": [1.0, v + 0.05, v / 2 + 0.04]}
            for n, v in (("fixed", 0.7), ("attend", 0.97))
        ],
        "x": "length",
        "y": "share right",
        "level": None,
    }  # fmt: skip
    words = ["the", "agreement", "on", "the", "European", "Economic", "Area", "was", "signed"]
    weights = [[math.exp(-((i - j) ** 2)) for j in range(len(words))] for i in range(6)]
    grid = {"title": "Where it looked", "x": "source", "y": "target", "values": weights, "columns": words, "rows": None}
    common = {
        "sources": ["Bahdanau, Cho & Bengio 2015, §1", "001-from-rnn.md"],
        "experiment": "Translate numbers of growing length.",
        "decided": "Holds where the slopes differ by more than 0.1 for every pair of seeds.",
        "figures": {"slope": {"fixed": -0.31, "attend": -0.01}, "seeds": [0, 1, 2]},
        "note": "",
        "deterministic": False,
        "seconds": 61.2,
        "effort": "quick",
        "commit": "1a2b3c4d5e6f",
        "machine": MACHINE,
    }
    verdicts = ("holds", "holds within limits", "does not hold here", "undecided at this size")
    charts = ([fade], [bars], [grid], [])
    return [
        common
        | {
            "id": f"claim-{i}",
            "statement": f"Statement {i}: one vector for a whole sentence degrades with its length | and <more>.",
            "verdict": verdict,
            "summary": f"Slope −0.31 [−0.34, −0.28] against −0.01, case {i}.",
            "charts": charts[i],
            "deterministic": i == 0,
            "note": "The note writes the sum without its index; it is meant as here." if i == 2 else "",
        }
        for i, verdict in enumerate(verdicts)
    ]
