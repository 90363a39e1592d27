"""How good captions are: BLEU-1 to 4 against all references, and the share that is one of them."""

from collections.abc import Sequence
from typing import Any

ORDERS = (1, 2, 3, 4)


def score_captions(
    found: Sequence[str], references: Sequence[Sequence[str]], by_characters: bool = False
) -> dict[str, Any]:
    """Corpus BLEU-1 to 4 against all references, as papers on captions compute it, and the share that is exact.

    `by_characters` is for captions that are written without blanks.
    """
    if by_characters:
        found = [_separate(text) for text in found]
        references = [[_separate(text) for text in some] for some in references]
    each: dict[str, Any] = {}
    for order in ORDERS:
        metric = bleu_metric(order, references)
        each[f"bleu{order}"] = metric.corpus_score(list(found), None).score
        each["signature"] = str(metric.get_signature())
    exact = sum(text in some for text, some in zip(found, references, strict=True)) / len(found)
    return each | {"bleu": each["bleu4"], "exact": exact}


def _separate(text: str) -> str:
    """Every character as a word."""
    return " ".join(text.replace(" ", ""))


def bleu_metric(order: int, references: Sequence[Sequence[str]]) -> Any:
    """sacreBLEU's BLEU up to n-grams of this order; captions are tokenised and in small letters already."""
    from sacrebleu.metrics.bleu import BLEU

    most = max(map(len, references))
    streams = [[some[i] if i < len(some) else None for some in references] for i in range(most)]
    return BLEU(tokenize="none", force=True, max_ngram_order=order, smooth_method="none", references=streams)  # type: ignore[arg-type]
