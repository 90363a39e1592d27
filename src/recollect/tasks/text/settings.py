"""The settings of language modelling."""

from dataclasses import dataclass
from typing import Literal

from ...core.settings import BpttName, ContractError, at_least, check_file_names, check_settings, known, option
from ...data import TOKENIZERS
from ...data.encodings import check_encoding
from ...data.limits import VOCABULARY

UNKNOWN = "unknown"  # in place of the data of a run whose weights were trained elsewhere
Rule = Literal["windows", "stateful", "sliding"]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the text is: files, folders or a known set's name (none: Python's own library), and how it is cut up.

    `letters` reads small letters a to z and blanks alone.
    """

    data: tuple[str, ...] = option((), "File, folder or known set; may be given more than once.")
    valid: tuple[str, ...] = option((), "Validation text (default: the end of the data).")
    test: tuple[str, ...] = ()
    tokenizer: str = option("chars", "chars, bytes, words or bpe.")
    vocab: int | None = option(None, "Vocabulary size, for words and bpe.", short_numbers=True, most=VOCABULARY)
    share: float = 0.1
    letters: bool = False
    encoding: str | None = option(None, "Of files that are no UTF-8: their encoding, such as gb18030.")

    def __post_init__(self) -> None:
        check_settings(self)
        check_file_names(self)
        known("tokenizer", self.tokenizer, TOKENIZERS)
        if self.encoding is not None:
            check_encoding(self.encoding)
            if self.tokenizer == "bytes":
                raise ContractError(
                    "text: expected encoding with a tokenizer of characters, found it with bytes, which are read as "
                    "they are; leave it out"
                )


@dataclass(frozen=True, kw_only=True)
class Config:
    """`windows`: at random places, or one after the other with the state carried (`sequential`).

    `bptt` says how far gradients go inside a window (see core.bptt), `segment` how long its pieces are and
    `cut` the probability of the unbiased estimator. `vary` (sequential only) draws each window's length around
    `context`, as AWD-LSTM does. `eval_rule` is the rule by which validation chooses;
    `eval_tokens` limits an evaluation to the first tokens of a split, which its rule then states.
    """

    context: int = option(128, "Tokens of a window.")
    batch: int = option(32, "Rows of a batch.")
    windows: Literal["random", "sequential"] = "random"
    bptt: BpttName = "full"
    segment: int = 32
    cut: float = 0.5
    vary: bool = False
    smoothing: float = 0.0
    eval_rule: Rule = "windows"
    eval_batch: int = 64
    eval_tokens: int | None = at_least(2, default=None)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.vary and self.windows != "sequential":
            raise ContractError("text: vary=True needs windows=sequential")
        if not 0 <= self.smoothing < 1 or not 0 < self.cut < 1:
            raise ContractError(
                f"text: expected smoothing in [0, 1) and cut in (0, 1), found {self.smoothing} and {self.cut}"
            )
