"""What each word of a text contributes to the probability of each label, by one of two rules.

All is counted in log-odds, ln(p / (1 − p)), of each label: 0 is even, each 2.3 or so a factor of ten.

`without`   what a word contributes is how far the log-odds fall when it is left out. Words act together, so these need
            not sum to the whole: of `not bad` each turns the answer alone.
`path`      gradient × input along the straight path from vectors of zeros to the text's own, in so many steps
            (integrated gradients). These sum to the log-odds of the text minus those of the zeros.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal, get_args

import numpy as np

from ...core.errors import RecollectError
from ...core.settings import known
from ...core.trained import Array

Rule = Literal["without", "path"]
RULES = get_args(Rule)
STEPS = 32  # of the path
WORDS = 200  # of a text: leaving each out is a text of its own
TOGETHER = 64  # texts that go through a model at once
FLOOR = 1e-7  # of a probability: single precision has no more to say


@dataclass(frozen=True)
class Contributions:
    """What the words of a text contribute to each label: W C, in log-odds."""

    words: tuple[str, ...]
    known: tuple[bool, ...]  # whether a word has a token that the vocabulary has
    probabilities: Array  # C
    odds: Array  # C: log-odds of the text
    values: Array  # W C
    start: Array  # C: log-odds from which the values count; of `without` NaN, since they sum to nothing
    rule: Rule
    so_far: Array | None  # W C: the probabilities after each word, had the text ended there


def contributions(model: Any, text: str, rule: Rule = "without") -> Contributions:
    """Of a classifier of texts, a `LabelModel`."""
    from ...decode import pharaoh

    known("rule", rule, RULES)
    artifacts = model._classifier.artifacts
    if artifacts.tokenizer is None:
        raise RecollectError(f"contributions: expected a model of texts, found one of {artifacts.kind}")
    tokens = artifacts.encode(text.strip()) if text.strip() else np.zeros(0, np.int64)
    if not len(tokens) or artifacts.is_unknown(tokens):
        raise RecollectError("contributions: expected a text with a word that the run knows, found none")
    numbers = np.array(pharaoh.words(SimpleNamespace(tokenizer=artifacts.tokenizer), tokens.tolist()))
    count = int(numbers.max()) + 1
    if count > WORDS:
        raise RecollectError(f"contributions: expected at most {WORDS} words, found {count:,}; take a part of the text")
    found = model._classifier.answer([tokens])[0]
    if rule == "without":
        values, start = _leave_out(model, tokens, numbers, found), np.full(len(found), np.nan)
    else:
        each, start = _follow_path(model, tokens)
        values = np.zeros((count, len(found)))
        np.add.at(values, numbers, each)
    unknown = artifacts.tokenizer.unknown
    places = [np.flatnonzero(numbers == word) for word in range(count)]
    return Contributions(
        words=tuple(artifacts.tokenizer.decode(tokens[own].tolist()).strip() or "␣" for own in places)
        if unknown is None
        else _spell(text, artifacts.tokenizer, tokens, places),
        known=tuple(unknown is None or bool((tokens[own] != unknown).any()) for own in places),
        probabilities=found.astype(np.float64),
        odds=log_odds(found),
        values=values,
        start=start,
        rule=rule,
        so_far=_after_words(model, tokens, places),
    )


def log_odds(probabilities: Array) -> Array:
    """ln(p / (1 − p)) of probabilities (… C); 1 − p is summed from the others, which keeps the digits of large p."""
    p = np.asarray(probabilities, np.float64)
    rest = np.stack([np.delete(p, label, axis=-1).sum(axis=-1) for label in range(p.shape[-1])], axis=-1)
    return np.log(np.maximum(p, FLOOR)) - np.log(np.maximum(rest, FLOOR))


def _leave_out(model: Any, tokens: Array, numbers: Array, found: Array) -> Array:
    """W C: how far the log-odds fall without each word; of a text of one word, down to those of an even choice."""
    count = int(numbers.max()) + 1
    even = np.full(len(found), 1 / len(found))
    if count == 1:
        return (log_odds(found) - log_odds(even))[None]
    rows = [tokens[numbers != word] for word in range(count)]
    order = sorted(range(count), key=lambda word: -len(rows[word]))
    after = np.empty((count, len(found)))
    for at in range(0, count, TOGETHER):
        some = order[at : at + TOGETHER]
        after[some] = model._classifier.answer([rows[word] for word in some])
    return log_odds(found) - log_odds(after)


def _follow_path(model: Any, tokens: Array) -> tuple[Array, Array]:
    """T C of each token, and the log-odds C at the start of the path."""
    import torch

    from .use import pad

    module = model.module
    if not isinstance(getattr(module, "enter", None), torch.nn.Module):
        raise RecollectError("rule: expected a network for gradients along a path, found counted words; use without")
    x, lengths = (torch.from_numpy(part) for part in pad([tokens.astype(np.int64)] * STEPS))
    shares = (torch.arange(STEPS) + 0.5)[:, None, None] / STEPS
    entered: list[Any] = []

    def along(own: Any, given: Any, found: Any) -> Any:
        path = (found.detach() * shares.to(found)).requires_grad_()
        entered[:] = [found.detach(), path]
        return path

    def odds() -> Any:
        likely = module.last(x.to(device), lengths.to(device)).double().log_softmax(dim=-1)
        rest = [torch.cat([likely[:, :c], likely[:, c + 1 :]], dim=1).logsumexp(dim=1) for c in range(likely.shape[1])]
        return likely - torch.stack(rest, dim=1)

    device = next(iter(module.state_dict().values())).device
    hook = module.enter.register_forward_hook(along)
    try:
        with torch.enable_grad():
            found = odds()
            grads = [
                torch.autograd.grad(found[:, c].sum(), entered[1], retain_graph=True)[0] for c in range(found.shape[1])
            ]
            own = entered[0][0]
        shares = torch.zeros_like(shares)
        with torch.no_grad():
            start = odds()[0]
    finally:
        hook.remove()
    values = torch.stack([(grad.mean(dim=0) * own).sum(dim=-1) for grad in grads], dim=1)
    return values.double().cpu().numpy(), start.cpu().numpy()


def _after_words(model: Any, tokens: Array, places: Sequence[Array]) -> Array | None:
    """W C: what the model would say after each word; None of one that answers for whole texts alone."""
    if model._source.exported is not None or not hasattr(model.module, "initial_state"):
        return None
    from .use import follow

    return follow(model.module, model._classifier.artifacts, tokens)[[int(own[-1]) for own in places]]


def _spell(text: str, tokenizer: Any, tokens: Array, places: Sequence[Array]) -> tuple[str, ...]:
    """The words as they were written, where the tokenizer would say <unk>."""
    decoded = [tokenizer.decode(tokens[own].tolist()).strip() or "␣" for own in places]
    written = text.split()
    return tuple(written) if len(written) == len(decoded) else tuple(decoded)
