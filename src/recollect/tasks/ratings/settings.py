"""The settings of predicting ratings."""

from dataclasses import dataclass

from ...core.settings import ContractError, at_least, check_file_names, check_settings, option

GENERATED = "generated"
MOST = 1_000_000_000  # generated users, items, ratings or true features
WIDEST = 1e6  # standard deviation of what is generated
TRUTH = "truth"  # as hand-set features: those that generated ratings were made from


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the ratings are: files, or `generated`, with how many users, items and ratings, of which true `rank`.

    `true_bias` and `spread` are the standard deviations of each generated bias and of the dot product. `features` is a
    file of hand-set item features (or `truth`, of generated ratings), `titles` one of items' names.
    """

    data: tuple[str, ...] = option((GENERATED,), "File, folder or known set; may be given more than once.")
    valid: tuple[str, ...] = option((), "Validation text (default: the end of the data).")
    test: tuple[str, ...] = ()
    share: float = 0.1
    features: str | None = None
    titles: str | None = None
    users: int = at_least(1, default=400, most=MOST)
    items: int = at_least(1, default=300, most=MOST)
    ratings: int = at_least(1, default=24_000, most=MOST)
    rank: int = at_least(1, default=3, most=MOST)
    true_bias: float = 0.4
    spread: float = 0.8
    noise: float = 0.3
    data_seed: int = at_least(0, default=0)

    def __post_init__(self) -> None:
        check_settings(self)
        check_file_names(self)
        for name in ("true_bias", "spread", "noise"):
            if not 0 <= getattr(self, name) <= WIDEST:
                raise ContractError(
                    f"data: expected {name} of at least 0 and at most {WIDEST:,.0f}, found {getattr(self, name)}"
                )


@dataclass(frozen=True, kw_only=True)
class Config:
    """The dampings are the numbers of average ratings that the closed-form biases of the baseline are mixed with."""

    batch: int = option(1024, "Rows of a batch.")
    eval_batch: int = 65_536
    item_damping: float = 25.0
    user_damping: float = 10.0

    def __post_init__(self) -> None:
        check_settings(self)
        if min(self.item_damping, self.user_damping) < 0:
            raise ContractError("ratings: expected item_damping and user_damping of at least 0, found less")
