"""How good translations are: sacreBLEU's BLEU and chrF with their signatures, and BLEU by length of the source."""

from collections.abc import Sequence
from typing import Any

from ...decode.pharaoh import UNSPACED

TOKENIZERS = {"zh": "zh", "cmn": "zh", "ja": "char", "th": "char"}
BUCKETS = (5, 10, 15, 20, 30, 40, 50, 60, 80)


def tokenizer_for(language: str) -> str:
    """sacreBLEU's tokeniser for a language: its own for Chinese, characters where words have no spaces, else 13a."""
    return TOKENIZERS.get(language, "13a")


def length(text: str) -> int:
    """How many words a sentence has; in scripts that write no blanks, each character is one."""
    return len(UNSPACED.findall(text)) + len(UNSPACED.sub(" ", text).split())


def bleu(found: Sequence[str], wanted: Sequence[str], *, tokenizer: str, lower: bool = False) -> dict[str, Any]:
    """Corpus BLEU with its signature, and how long the translations are beside the references."""
    from sacrebleu.metrics.bleu import BLEU

    # `force`: tokenised text is what we mean by tokenizer none
    metric = BLEU(tokenize=tokenizer, lowercase=lower, force=True)
    score = metric.corpus_score(list(found), [list(wanted)])
    return {"bleu": score.score, "signature": str(metric.get_signature()), "ratio": score.sys_len / score.ref_len}


def chrf(found: Sequence[str], wanted: Sequence[str]) -> dict[str, Any]:
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    return {"chrf": metric.corpus_score(list(found), [list(wanted)]).score, "signature": str(metric.get_signature())}


def by_length(
    found: Sequence[str], wanted: Sequence[str], lengths: Sequence[int], *, tokenizer: str, lower: bool
) -> list[dict[str, Any]]:
    """BLEU of the sentences whose source has so many words: one entry for each bucket that is not empty."""
    rows = []
    for low, high in zip((0, *BUCKETS), (*BUCKETS, None), strict=True):
        inside = [i for i, n in enumerate(lengths) if n > low and (high is None or n <= high)]
        if inside:
            own = bleu([found[i] for i in inside], [wanted[i] for i in inside], tokenizer=tokenizer, lower=lower)
            rows.append({"above": low, "upto": high, "sentences": len(inside), "bleu": own["bleu"]})
    return rows
