"""What models that read tokens share: the checks of their input."""

from typing import Any, ClassVar

from torch import Tensor

from ..core.contract import ContractError, Layer, S, check_state


class TokenModel(Layer[S]):
    """A model whose x is B T tokens, from 0 to `vocab` − 1."""

    noun: ClassVar[str]  # what the model is, in messages
    vocab: int

    def check(self, x: Tensor, state: Any) -> None:
        check_tokens(x, self.noun)
        if state is not None:
            check_state(self, state, x.shape[0])

    def diagnose(self, x: Tensor, state: Any) -> str | None:
        if x.numel() and not 0 <= int(x.min()) <= int(x.max()) < self.vocab:
            return f"expected tokens from 0 to {self.vocab - 1}, found {int(x.min())} to {int(x.max())}"
        return None


def check_tokens(x: Tensor, noun: str) -> None:
    """Refuse what are not tokens of at least one step."""
    if x.dim() != 2 or x.shape[1] == 0 or x.is_floating_point():
        raise ContractError(f"{noun}: expected tokens of shape (batch, steps ≥ 1), found {x.dtype} {tuple(x.shape)}")
