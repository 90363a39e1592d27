"""The settings of labelling sequences."""

from dataclasses import dataclass
from typing import Literal

from ...core.settings import ContractError, at_least, check_file_names, check_settings, known, option
from ...data import TOKENIZERS
from ...data.encodings import check_encoding
from ...data.limits import VOCABULARY
from ...data.sound.settings import AugmentSettings, FrameSettings

StepName = Literal["pixel", "row"]


@dataclass(frozen=True, kw_only=True)
class DataConfig(FrameSettings):
    """Where the rows are: tables of text and label, a folder of IDX files or of recordings, a known set, or generated
    `tones` or `opinions`; and how they are read.

    `step` says what a step of an image is, `permute` seeds one order of the pixels for all images. `pattern` says what
    the names of recordings tell, such as `{label}_{speaker}_{take}`.
    """

    data: tuple[str, ...] = option((), "File, folder or known set; may be given more than once (default: tones).")
    valid: tuple[str, ...] = option((), "Validation text (default: the end of the data).")
    test: tuple[str, ...] = ()
    tokenizer: str = option("words", "chars, bytes, words or bpe.")
    vocab: int | None = option(None, "Vocabulary size, for words and bpe.", short_numbers=True, most=VOCABULARY)
    share: float = 0.1
    longest: int = 1_000
    label_column: str | None = None
    text_column: str | None = None
    header: bool | None = None
    step: StepName = "pixel"
    permute: int | None = at_least(0, default=None)
    encoding: str | None = option(None, "Of files that are no UTF-8: their encoding, such as gb18030.")
    pattern: str | None = None
    speaker_column: str | None = None
    test_speaker: str | None = option(None, "The speaker whose recordings are the test part, and no other.")
    valid_speaker: str | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        check_file_names(self)
        known("tokenizer", self.tokenizer, TOKENIZERS)
        if self.encoding is not None:
            check_encoding(self.encoding)
        _ = self.mel  # settings of frames that cannot be are refused at once


@dataclass(frozen=True, kw_only=True)
class Config(AugmentSettings):
    """Rows of like length go together: `bucket` batches' worth of rows are sorted by length before they are cut.

    `choose` is the figure by which validation picks the best weights. `eval_rows` limits an evaluation to the first
    rows of a split, which its rule then states. `length` is that of a training row (the median; filled in).
    """

    batch: int = option(64, "Rows of a batch.")
    bucket: int = 16
    smoothing: float = 0.0
    choose: Literal["error", "nats"] = "error"
    eval_batch: int = 256
    eval_rows: int | None = None
    length: int | None = None

    def __post_init__(self) -> None:
        check_settings(self)
        if not 0 <= self.smoothing < 1:
            raise ContractError(f"labels: expected smoothing in [0, 1), found {self.smoothing}")
        self.check_augmentation()
