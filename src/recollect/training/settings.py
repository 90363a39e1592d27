"""How a model is trained, whatever the task."""

from dataclasses import dataclass
from typing import Literal

from ..core.settings import ContractError, at_least, check_settings

OptimizerName = Literal["adamw", "sgd", "asgd"]
ScheduleName = Literal["cosine", "constant", "inverse-sqrt", "plateau"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A run ends when the first of its budgets is spent; with none named, after 1,000 steps.

    `warmup` in steps; `floor` is the share of the rate that a cosine ends at; `patience` evaluations without
    a better one stop the run early. `ema` is the decay of an averaged copy of the weights that is evaluated
    and kept in place of the last ones; `keep` keeps the weights of the last evaluations, whose mean is judged at the
    end beside the best. `compile` compiles the loss, `graph` replays training steps from a CUDA graph; together, the
    compiled ones. `exact` asks for the same bits from the same seed on a GPU too.
    """

    steps: int | None = None
    tokens: float | None = None
    seconds: float | None = None
    flops: float | None = None
    lr: float = 1e-3
    optimizer: OptimizerName = "adamw"
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.99
    momentum: float = 0.0
    schedule: ScheduleName = "cosine"
    warmup: int = at_least(0, default=100)
    floor: float = 0.1
    plateau_factor: float = 0.25
    plateau_patience: int = at_least(0, default=1)
    clip: float | None = 1.0
    clip_by: Literal["norm", "value"] = "norm"
    accumulate: int = at_least(1, default=1, most=100_000)  # forward and backward passes of one step
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    graph: bool = False
    ema: float | None = None
    keep: int | None = None
    patience: int | None = None
    eval_every: int = 250
    save_every: int = 250
    log_every: int = 10
    seed: int = at_least(0, default=0)
    exact: bool = False

    def __post_init__(self) -> None:
        check_settings(self)
        if self.seed >= 2**53:  # every generator takes it, and a flag or a file says it to the last digit
            raise ContractError(f"settings: expected seed below 2^53, found {self.seed}")
        for name in ("tokens", "seconds", "flops", "lr", "clip"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ContractError(f"settings: expected {name} above 0, found {value}")
        if self.graph and self.exact:
            raise ContractError("settings: graph=true does not go with exact")
        if self.ema is not None and not 0 < self.ema < 1:
            raise ContractError(f"settings: expected ema between 0 and 1, found {self.ema}")

    @property
    def total_steps(self) -> int | None:
        """The budget in steps, where that is what limits the run."""
        if self.steps is not None:
            return self.steps
        return 1000 if self.tokens is self.seconds is self.flops is None else None
