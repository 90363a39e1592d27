"""What a task declares of its export: inputs of graphs, computations over whole inputs, rows of its own data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

Named = Mapping[str, Tensor]
UNASKED = -100  # a target that does not count


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What a graph over whole inputs takes.

    `draw` gives random examples by name for so many rows; where other axes are free too, their sizes differ between
    numbers of rows. `axes` names the free axes of each, and `least` has their smallest sizes where that is not 1.
    """

    draw: Callable[[int, torch.Generator], dict[str, Tensor]]
    axes: Mapping[str, Mapping[int, str]]
    least: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class WholeCall:
    """A computation over whole inputs that is exported beside the step, such as a forecast from a window.

    `last_step` says that it is the log-softmax of the step's output after the last step of each row, from rows
    (B T …) and lengths (B): it can then be made of the step where the layers' own chunk cannot be traced.
    """

    module: nn.Module
    inputs: Inputs
    outputs: Sequence[str]
    last_step: bool = False


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Rows of a run's own data, as exported graphs take them.

    `targets` (B T) are the tokens that the step's outputs should predict, UNASKED where nothing is asked.
    """

    steps: Tensor | None = None  # B T tokens, or B T D numbers
    targets: Tensor | None = None
    source: Named = field(default_factory=dict)  # of the graph `encode`
    calls: Mapping[str, Named] = field(default_factory=dict)  # of each whole call


class Exports:
    """What is exported of a task's models beside the step, which `law_example` gives. Tasks override what they have."""

    def has_step(self, run: Any) -> bool:
        """Whether the model of a run goes step by step."""
        return run.kind.sequential

    def pipeline_tag(self, run: Any) -> str | None:
        """The name of the task on Hugging Face's hub; None where the hub has none for it."""
        return None

    def source(self, run: Any) -> Inputs | None:
        """What `model.encode` takes; None without an encoder."""
        return None

    def calls(self, run: Any) -> Mapping[str, WholeCall]:
        """Computations over whole inputs, by the name of their file."""
        return {}

    def settings(self, run: Any) -> dict[str, Any]:
        """What a program that runs the exported files needs beside them, in JSON's types."""
        return {}

    def sample(self, run: Any, rows: int) -> Sample:
        """The first rows of validation."""
        return Sample()
