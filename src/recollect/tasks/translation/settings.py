"""The settings of translation."""

import math
from dataclasses import dataclass
from typing import Literal

from ...core.settings import ContractError, at_least, check_file_names, check_settings, known, option
from ...data import TOKENIZERS
from ...data.encodings import check_encoding
from ...data.limits import VOCABULARY

LONGEST = 250  # tokens of a sentence that is trained on
SHARE = 0.05  # of the source sentences, for validation, and as much for the test
COUNT, HIGHEST = 20_000, 999_999  # numbers in words: how many, and up to which
MOST = 1_000_000  # of them


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the pairs are (none: numbers in words), and how they are cut up; see `data.load`.

    `columns` are those of a table that hold the source and the target, counted from 1.
    `target_tokenizer` is the target's, where it is to be another than the source's (Chinese by `chars`). `joint` makes
    one vocabulary for both languages; `lower` and `moses` prepare the text before it is tokenised.
    `held_out` is the share of sentences for validation, and as much for the test, where the data has none.
    """

    data: tuple[str, ...] = option((), "File, folder or known set; may be given more than once.")
    pair: str | None = option(None, "Of translation: the languages, such as en-de.")
    valid: tuple[str, ...] = option((), "Validation text (default: the end of the data).")
    test: tuple[str, ...] = ()
    columns: tuple[int, ...] = (1, 2)
    tokenizer: str = option("bpe", "chars, bytes, words or bpe.")
    vocab: int | None = option(None, "Vocabulary size, for words and bpe.", short_numbers=True, most=VOCABULARY)
    target_tokenizer: str | None = None
    joint: bool = False
    lower: bool = False
    moses: bool = False
    longest: int = LONGEST
    held_out: float = SHARE
    chain: int | None = at_least(1, default=None, most=1_000_000)
    count: int = at_least(1, default=COUNT, most=MOST)
    highest: int = HIGHEST
    encoding: str | None = option(None, "Of files that are no UTF-8: their encoding, such as gb18030.")

    def __post_init__(self) -> None:
        check_settings(self)
        check_file_names(self)
        known("tokenizer", self.tokenizer, TOKENIZERS)
        if self.encoding is not None:
            check_encoding(self.encoding)
        if self.target_tokenizer is not None:
            known("target_tokenizer", self.target_tokenizer, TOKENIZERS)
            if self.joint:
                raise ContractError("data: expected joint=true or a target_tokenizer, found both; leave one out")
        if len(self.columns) != 2 or not all(type(column) is int and column > 0 for column in self.columns):
            raise ContractError(f"data: expected two columns counted from 1, such as 1,3, found {self.columns}")


@dataclass(frozen=True, kw_only=True)
class Config:
    """`batch` counts tokens, padding too. `grain` pads both sides to the next multiple of it: fewer shapes of batches,
    as CUDA graphs want them. `sampling` is the share of inputs that are the model's own guesses. `consistency` above 0
    reads each batch twice, under two draws of dropout, and weighs how far the two predictions stand apart: the mean of
    the KL divergences both ways (R-Drop, Liang 2021, whose α is twice this).

    `choose` says what picks the best checkpoint: the loss on references (`nats`), or `bleu` of greedy translations
    of the first `eval_sentences`. `beam` and what follows are for measuring.
    """

    batch: int = option(4096, "Rows of a batch.")
    grain: int = at_least(1, default=1, most=4_096)
    smoothing: float = 0.1
    sampling: float = 0.0
    consistency: float = 0.0
    choose: Literal["nats", "bleu"] = "nats"
    eval_sentences: int | None = None
    beam: int = at_least(1, default=5, most=10_000)
    length_penalty: float = 0.6
    coverage: float = 0.0
    ratio: float = 2.0
    extra: int = at_least(0, default=20, most=100_000)

    def __post_init__(self) -> None:
        check_settings(self)
        for name in ("smoothing", "sampling"):
            if not 0 <= getattr(self, name) < 1:
                raise ContractError(f"translation: expected {name} in [0, 1), found {getattr(self, name)}")
        owners = {"consistency": "translation", "length_penalty": "beam", "coverage": "beam", "ratio": "beam"}
        for name, owner in owners.items():
            if not 0 <= getattr(self, name) < math.inf:
                raise ContractError(f"{owner}: expected {name} of at least 0, found {getattr(self, name)}")
