"""What became of the lines of each split: counts, the notes that they make, and the error where too few are left."""

from dataclasses import dataclass, field

from ...data.files import DataError
from .plan import SIDES, Work


@dataclass
class Count:
    """What became of the lines of a split."""

    empty: int = 0
    torn: int = 0  # without the tabs that they should have
    long: int = 0
    pairs: int = 0
    shared: int = 0  # pairs whose source occurs in training too
    unknown: list[int] = field(default_factory=lambda: [0, 0])  # by side
    tokens: list[int] = field(default_factory=lambda: [0, 0])


def too_few(work: Work, split: str, counts: dict[str, Count]) -> DataError:
    paths = " and ".join(str(path) for path in work.parts.get(split, work.parts["train"]).paths) or "the numbers"
    total = sum(counts[part].pairs for part in ("train", *work.carved))
    if total and (split in work.carved or split == "train"):
        return DataError(
            f"expected source sentences enough to take {100 * work.share:g} % for {' and '.join(work.carved)} each, "
            f"found {total:,} pairs in {paths}, and none for {split}; give more, another share, or files for each part"
        )
    return DataError(
        f"expected pairs for the {split} part, found none that can be used in {paths} (both sides filled, at most "
        f"{work.longest:,} tokens each); look at the files, or allow longer ones"
    )


def notes_of(work: Work, counts: dict[str, Count]) -> list[str]:
    notes: list[str] = []
    if work.carved:
        notes.append(
            f"{' and '.join(work.carved)}: {100 * work.share:g} % of the source sentences"
            + (" each" * (len(work.carved) > 1))
            + ", chosen by their hash; no source sentence is in two parts"
        )
    for split, count in counts.items():
        left_out = {
            "with an empty side": count.empty,
            "without the tab between source and target": count.torn,
            f"longer than {work.longest:,} tokens": count.long if split == "train" else 0,
        }
        some = ", ".join(f"{number:,} {what}" for what, number in left_out.items() if number)
        if some:
            notes.append(f"{split}: {count.pairs:,} pairs; left out: {some}")
        if count.long and split != "train":
            notes.append(f"{split}: {count.long:,} pairs are longer than {work.longest:,} tokens and are kept")
        if count.shared:
            notes.append(f"{split}: {count.shared:,} of {count.pairs:,} source sentences occur in train too")
        shares = [
            f"{100 * unknown / tokens:.3g} % of the {side}"
            for side, unknown, tokens in zip(SIDES, count.unknown, count.tokens, strict=True)
            if unknown
        ]
        if shares:
            notes.append(f"{split}: tokens that are <unk>: {', '.join(shares)}")
    if "test" in work.carved and not counts["test"].pairs:
        notes.append("test: no source sentence fell into it; there is no test part")
    return notes
