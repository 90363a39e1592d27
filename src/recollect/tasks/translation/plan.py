"""What has to be known to make tokens of pairs, and how their sides and splits are called."""

from dataclasses import dataclass

from ...data.moses import Preparation
from ...data.sentences import Side
from .sources import Part

SIDES = ("source", "target")
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Work:
    """The parts, how they are split, and what their lines become."""

    parts: dict[str, Part]
    carved: tuple[str, ...]  # the splits that are taken out of the training part
    share: float
    preparations: tuple[Preparation, Preparation]
    tokenizer: tuple[str, int | None, bool]  # kind, vocabulary, joint
    longest: int
    existing: tuple[Side, Side] | None
