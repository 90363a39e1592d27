"""What the page of a race shows of a trained run beside its figures: its card, what it writes, how gradients fare."""

from math import log
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from ..decode import sampling, stream
from ..layers import LAYERS, card
from ..measure import gradients
from ..measure.entry import counted
from ..measure.subjects import Ask, Opened, open_run
from ..models import ngram
from ..models.body import KINDS
from .heat import Heat

LENGTHS = (64, 256, 1024, 4096)
ROWS = 4  # whose gradients are looked at
PROMPT, WRITTEN = 48, 160  # tokens of a sample
PAIRS = 4  # translations or captions that are shown
DECODERS = {
    "fixed": "fixed",
    "context": "context",
    "attend": "soft-align",
    "conv": "gated-conv",
    "transformer": "transformer-block",
}


def at(heat: Heat, path: str, device: str, data_dir: str | None) -> dict[str, Any]:
    """Everything that is looked at in a run folder."""
    opened = open_run(path, device=device, data_dir=data_dir)
    found: dict[str, Any] = {
        "card": card_of(opened),
        "sample": sample_of(opened),
        "gradient": gradient_of(opened),
        "costs": costs_of(opened),
    }
    return found | (by_steps(opened) if heat.step_by_step else {})


def card_of(run: Opened) -> dict[str, str] | None:
    """The card of the layer that does the remembering."""
    name = run.used.run.model["name"]
    if isinstance(run.used.model, ngram.Ngram):
        return {
            "name": "ngram",
            "summary": "What came next when the last words were these, counted.",
            "state": "the last n − 1 tokens",
            "update": "shift",
            "read": "p(next | window), interpolated modified Kneser–Ney",
            "grows": "no",
            "fast": "one look-up an order for a whole chunk",
        }
    decoding = run.job.name in ("translation", "captions")
    layer = DECODERS.get(name) if decoding else KINDS[name].layer if name in KINDS else name
    return card(layer)._asdict() if layer in LAYERS else None


def sample_of(run: Opened) -> Any:
    """A text gone on with, or some pairs of validation with what the model writes."""
    used = run.used
    if run.job.name == "text":
        tokens = run.task.tokens("valid")[:PROMPT]
        prompt = used.kept.decode(tokens.tolist())
        config = sampling.Config(length=WRITTEN, temperature=0.8)
        return {"prompt": prompt, "text": "".join(stream.generate_text(used.model, used.kept, [prompt], config))}
    if run.job.name == "translation":
        return _translations(run)
    return _captions(run) if run.job.name == "captions" else None


def _translations(run: Opened) -> list[dict[str, str]]:
    from ..decode.translate import hypotheses

    source, target = run.used.kept
    pairs = run.task.pairs("valid")
    some = range(min(PAIRS, len(pairs)))
    lists = hypotheses(run.used.model, source, target, [pairs.source_of(i) for i in some], run.used.run.task.greedy())
    texts = {side: pairs.texts(side) for side in ("source", "target")}
    return [
        {"source": texts["source"][i], "reference": texts["target"][i], "output": target.decode(found[0].tokens)}
        for i, found in zip(some, lists, strict=True)
    ]


def _captions(run: Opened) -> list[dict[str, Any]]:
    side, references = run.used.kept.side, run.task.part("valid").captions
    lists = run.task.hypotheses(run.used.model, "valid", run.used.run.task.greedy(), PAIRS)
    said = [side.decode_prepared(found[0].tokens) for found in lists]
    return [
        {"source": f"picture {i + 1}", "reference": references[i][0], "output": text, "right": text in references[i]}
        for i, text in enumerate(said)
    ]


def gradient_of(run: Opened) -> dict[str, list[float]] | None:
    """‖∂y_T/∂x_{T−k}‖ on rows of validation; None where nothing is read step by step, or nothing was trained."""
    if run.job.name == "ratings" or counted(run.used.model):
        return None
    found = gradients.flow_of(run.subject(Ask(rows=ROWS))).mean(dim=0).tolist()
    return {"distance": list(range(len(found))), "norm": found}


def costs_of(run: Opened) -> list[dict[str, int]]:
    """What one row costs at some lengths, as the model declares it.

    A source that is translated is as long as what is written; a picture has its own size.
    """
    cost = getattr(run.used.model, "cost", None)
    if cost is None or run.job.name == "series":  # a forecaster reads its look-back and no other length
        return []
    memory = run.subject(Ask(rows=1)).memory() if run.job.name == "captions" else None
    found = []
    for length in LENGTHS:
        source = length if run.job.name == "translation" else 0 if memory is None else memory.values.shape[1]
        own = cost(1, length, source)
        extra = run.used.model.encoder_flops(1, length) if run.job.name == "translation" else 0
        found.append({"length": length, "flops": int(own.flops + extra), "state_bytes": int(own.state_bytes)})
    return found


@torch.no_grad()
def by_steps(run: Opened) -> dict[str, Any]:
    """Nats per token when the model is shown one token at a time, as when it writes; and shown whole windows.

    The two are the same for whoever sees only the past. Without a mask the second is worth nothing.
    """
    task, model = run.task, run.used.model
    tokens, context = torch.from_numpy(task.measured("valid").astype("int64")), task.config.context
    rows = tokens[: (len(tokens) - 1) // context * context + 1].unfold(0, context + 1, context)
    totals = {"step_by_step": 0.0, "all_at_once": 0.0}
    for window in rows.to(run.device).split(task.config.eval_batch):
        x, y = window[:, :-1], window[:, 1:]
        state = model.initial_state(len(x))
        for name, (logits, _) in (("step_by_step", model.unroll(x, state)), ("all_at_once", model(x, state))):
            totals[name] += float(cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum"))
    found = {name: total / (len(rows) * context) for name, total in totals.items()}
    return found | {"uniform": log(run.used.kept.size)}


def tokenizer(config: dict[str, Any]) -> str | None:
    """The tokenizer of a run in words, where it has one."""
    name = config["data"].get("tokenizer")
    if name is None:
        return None
    sizes = [config["corpus"][part] for part in ("vocab", "source", "target") if part in config["corpus"]]
    return f"{name} of {' and '.join(f'{size:,}' for size in sizes)}" if sizes else name
