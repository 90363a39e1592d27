"""Heats of a moment, and what their rows have in common."""

import json
from dataclasses import replace

from recollect.racing import run
from recollect.racing.heats import heats
from recollect.racing.terms import Terms
from tiny import prose

TIMES = ("seconds", "peak_bytes", "machine", "commit")


SMALL = {"length": "8", "load": "2", "vocab": "12", "batch": "4", "eval_rows": "20", "layers": "1", "heads": "1"}


OTHERS = {
    "copy": {"distance": "4", "load": "2"},
    "adding": {"length": "10"},
    "parity": {"length": "6"},
    "gap": {"distance": "8"},
    "order": {"length": "6"},
    "clouds": {"distance": "6"},
    "agreement": {"distance": "2"},
    "nested": {"depth": "2"},
    "series": {"lookback": "12", "horizon": "2"},
    "ratings": {"users": "20", "items": "20", "ratings": "200"},
    "translation": {"count": "200", "highest": "999"},
    "captions": {"count": "64", "pixels": "32"},
    "films": {"count": "24"},
}


def recall(*models, **changes):
    """A heat of a moment."""
    usual = {"models": models or ("rnn", "mlp"), "params": 1_500, "steps": 6, "settings": SMALL}
    return replace(heats()["recall"], **usual | changes)


def texts(path, *models, **changes):
    path.write_text(prose(1200))
    settings = {"batch": "4", "context": "12", "eval_tokens": "200", "layers": "1"}
    usual = {"models": models, "params": 3_000, "steps": 6, "settings": settings}
    return replace(heats()["text"], **usual | changes, data={"data": (str(path),), "tokenizer": "chars"})


def raced(heats, out, terms=None, **options):
    return run.run(heats, terms or Terms(search=0), out, title="a race", command="recollect race", **options)


def timeless(content):
    """All but what the clock and the machine say."""
    if isinstance(content, dict):
        return {name: timeless(value) for name, value in content.items() if name not in TIMES}
    if isinstance(content, list):
        return [timeless(value) for value in content]
    return content


def rows_of(out):
    found = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    for row in found:
        row["learning"] = [[step, tokens, value] for step, tokens, _, value in row.get("learning", [])]
    return timeless(found)
