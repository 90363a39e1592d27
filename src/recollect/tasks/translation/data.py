"""Sentence pairs of two languages as tokens: from files, a known set, or numbers in words.

    read      lines of two files, or columns of one; each line split at \\n alone; what cannot be used is counted
    split     by source sentence, where the authors made no split: no source of one part occurs in another
    prepare   each side by its Preparation, as it will be when a trained model translates
    tokenise  one vocabulary for both sides, or one for each, from the training part alone
    keep      tokens and texts in the cache folder, memory-mapped, made anew when a source changes

Nothing of this holds more than a few thousand lines at a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version

import numpy as np

from ...core.summary import DataSummary, FileList
from ...data import TOKENIZERS, tokenizers
from ...data.cache import Entry, Sources, cache_folder, hash_json, name_folder
from ...data.file_lists import list_files
from ...data.files import DataError, StrPath
from ...data.moses import Preparation
from ...data.tokenizers.sentences import SentenceTokenizer, TokenizerPair, pair_to_json
from .lines import PairPlan
from .pairs import SIDES, Pairs
from .settings import COUNT, HIGHEST, LONGEST, SHARE
from .sources import Chained, Given, Numbers, find_sources
from .tokens import load_encoded

CHAIN_ROUNDS = 4  # so that joined training texts are about as many as the sentences were


@dataclass(frozen=True, eq=False)
class Parallel:
    """Sentence pairs by split, with the tokenizers of source and target."""

    name: str
    source_language: str
    target_language: str
    source: SentenceTokenizer
    target: SentenceTokenizer
    train: Pairs
    valid: Pairs
    test: Pairs | None
    fingerprint: str  # sha256 over the texts and both tokenizers: the same wherever the files lie
    notes: list[str]  # what a reader of results should know
    left_out: Mapping[str, int] = field(default_factory=dict)  # lines of each split
    files: FileList | None = None


def load(
    data: Given | None = None,
    *,
    pair: str | None = None,
    valid: Given | None = None,
    test: Given | None = None,
    columns: tuple[int, int] = (1, 2),
    tokenizer: str = "bpe",
    vocab: int | None = None,
    target_tokenizer: str | None = None,
    joint: bool = False,
    lower: bool = False,
    moses: bool = False,
    longest: int = LONGEST,
    share: float = SHARE,
    chain: int | None = None,
    count: int = COUNT,
    highest: int = HIGHEST,
    encoding: str | None = None,
    seed: int = 0,
    data_dir: StrPath | None = None,
    cache: StrPath | None = None,
    existing: TokenizerPair | None = None,
) -> Parallel:
    """Read sentence pairs.

    `data` is a prefix (`path/train` with `pair` en-de: path/train.en and path/train.de, packed or not) or the folder
    of a prefix `train`; a table with tabs, of which `columns` are source and target; two files; the name of a known
    set; or None for numbers in words (`count` of them up to `highest`, drawn by `seed`). `valid` and `test` are given
    in the same way. Beside a prefix `train` they are found by themselves (val, valid or dev; test…). A part that is
    not there is made of `share` of the source sentences. `pair` turned round turns the translation round.

    `tokenizer` is one of `data.TOKENIZERS`, of `vocab` tokens, for each language, or with `joint` for both together;
    `target_tokenizer` is another one for the target.
    Training leaves out pairs with more than `longest` tokens on a side. `existing` are the tokenizers of a run, used as
    they are. `encoding` is that of files that are no UTF-8.
    `chain` joins sentences to texts of up to so many words (`sources.Chained`), to see what length does.
    """
    if longest < 1:
        raise DataError(f"expected sentences of at least 1 token, found longest={longest}")
    kinds = (tokenizer, target_tokenizer or tokenizer)
    for kind in kinds if existing is None else ():
        if kind not in TOKENIZERS:
            tokenizers.train(kind, [])  # refuses it, before anything is read
    if joint and kinds[0] != kinds[1]:
        raise DataError(f"expected one tokenizer for a joint vocabulary, found {kinds[0]} and {kinds[1]}")
    if pair is None and existing is not None and existing[0].preparation.language != SIDES[0]:
        pair = f"{existing[0].preparation.language}-{existing[1].preparation.language}"
    made = Numbers(count=count, highest=highest, seed=seed)
    found = find_sources(data, pair, {"valid": valid, "test": test}, columns, made, data_dir, cache, encoding)
    carved = tuple(split for split in ("valid", "test") if split not in found.parts)
    if chain is not None:
        if carved:
            raise DataError(
                f"expected parts of their own for {' and '.join(carved)} with chain={chain}, found none: what is "
                "joined could not be split without a leak; name validation and test files"
            )
        rounds = {"train": CHAIN_ROUNDS}
        parts = {split: Chained(part, chain, rounds.get(split, 1)) for split, part in found.parts.items()}
        found = replace(found, parts=parts, notes=(*found.notes, f"sentences joined to texts of up to {chain} words"))
    if carved and not 0 < share < 0.5:
        raise DataError(f"expected a share between 0 and 0.5 for each of {' and '.join(carved)}, found {share}")
    if existing is not None:
        preparations = (existing[0].preparation, existing[1].preparation)
    else:
        if moses and found.languages is None:
            raise DataError(
                "expected the languages of the pair, which moses goes by, found none; name them: --pair en-de"
            )
        first, second = found.languages or SIDES
        preparations = (Preparation(first, lower, moses), Preparation(second, lower, moses))
    settings = {
        "parts": {split: part.describe() for split, part in found.parts.items()},
        "preparations": [preparation.to_json() for preparation in preparations],
        "versions": {"sacremoses": version("sacremoses")} if any(p.moses for p in preparations) else {},
        "tokenizer": [*dict.fromkeys(kinds), vocab, joint] if existing is None else hash_json(pair_to_json(*existing)),
        "longest": longest,
        "share": share if carved else None,
    }
    folder = cache_folder(cache) / "parallel" / name_folder(found.name, settings)
    sources = Sources([path for part in found.parts.values() for path in part.paths])
    entry = Entry(folder, "pairs", sources, settings)
    plan = PairPlan(found.parts, carved, share, preparations, (kinds, vocab, joint), longest, existing)
    encoded = load_encoded(entry, plan)
    source, target = existing or encoded.tokenizers
    return Parallel(
        name=found.name,
        source_language=(found.languages or SIDES)[0],
        target_language=(found.languages or SIDES)[1],
        source=source,
        target=target,
        train=encoded.splits["train"],
        valid=encoded.splits["valid"],
        test=encoded.splits.get("test"),
        fingerprint=encoded.fingerprint,
        notes=[*found.notes, *encoded.notes],
        left_out=encoded.left_out,
        files=list_files(sources.paths, other=encoding),
    )


def summarize(data: Parallel) -> DataSummary:
    """The pairs of each split, and the tokens of both sides."""
    parts = {"train": data.train, "valid": data.valid} | ({} if data.test is None else {"test": data.test})
    splits: dict[str, dict[str, int]] = {}
    for split, pairs in parts.items():
        splits[split] = {"pairs": len(pairs), "left out": data.left_out.get(split, 0)}
        for language, side, tokens in (
            (data.source_language, data.source, pairs.source),
            (data.target_language, data.target, pairs.target),
        ):
            splits[split][f"{language} tokens"] = len(tokens)
            if side.unknown is not None:
                splits[split][f"{language} unknown"] = int(np.count_nonzero(tokens == side.unknown))
    facts = {
        f"{data.source_language} vocabulary": data.source.size,
        f"{data.target_language} vocabulary": data.target.size,
        "tokenizer": ", ".join(dict.fromkeys((data.source.tokenizer.kind, data.target.tokenizer.kind))),
    }
    return DataSummary(name=data.name, files=data.files, splits=splits, facts=facts, notes=data.notes)
