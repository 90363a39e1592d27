"""What the unit tests share: comparing with an oracle, and gradients of everything at once."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from recollect.core import state as states
from recollect.core.contract import ContractError, Memory

TOLERANCE = 1e-10


def assert_close(found: Tensor, expected: Tensor, what: str = "", tolerance: float = TOLERANCE) -> None:
    """Equal shape, dtype and entries, to 1e-10 unless told otherwise."""
    torch.testing.assert_close(
        found, expected, rtol=tolerance, atol=tolerance, msg=lambda message: f"{what}: {message}"
    )


def assert_all_close(found: Iterable[Tensor], expected: Iterable[Tensor], what: str = "") -> None:
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert_close(a, b, f"{what} {i}")


def gradients(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of one fixed random weighting of all outputs; zeros where an input has no part in them."""
    generator = torch.Generator().manual_seed(7)
    total = sum((y * torch.randn(y.shape, generator=generator, dtype=torch.float64)).sum() for y in outputs)
    assert isinstance(total, Tensor)
    return list(torch.autograd.grad(total, list(inputs), allow_unused=True, materialize_grads=True))


def random_state(state: Any) -> Any:
    """The same state with random numbers in it, gradients wanted."""
    return states.map(lambda t: torch.randn_like(t).requires_grad_() if t.is_floating_point() else t, state)


def inputs(*shape: int) -> Tensor:
    """Random float64 numbers, gradients wanted."""
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def source(batch: int, steps: int, dim: int, lengths: Sequence[int] | None = None) -> Memory:
    """A random memory, its rows of the given lengths."""
    ends = torch.tensor(lengths or [steps] * batch)
    valid = torch.arange(steps) < ends[:, None]
    values = torch.randn(batch, steps, dim, dtype=torch.float64).masked_fill(~valid[..., None], 0)
    return Memory(values.requires_grad_(), valid)


def randomise(module: torch.nn.Module) -> None:
    """Give every parameter random entries, so that nothing is hidden by a start at zero or one."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)


@contextmanager
def refused(*parts: str) -> Iterator[None]:
    """The block raises a ContractError of one line that holds all `parts`."""
    with pytest.raises(ContractError) as caught:
        yield
    message = str(caught.value)
    assert "\n" not in message, f"more than one line: {message}"
    for part in parts:
        assert part in message, f"{part!r} is not in: {message}"
