"""What the studio takes at most, beside the limits of the server that it stands on."""

from dataclasses import dataclass

from ..core.settings import at_least
from ..serve.limits import Limits as ServeLimits


@dataclass(frozen=True, kw_only=True)
class Limits(ServeLimits):
    """The limits of a studio. docs/studio.md has a line for each."""

    lanes: int = at_least(1, default=18)
    pages: int = at_least(1, default=64)
    jobs: int = at_least(1, default=2)
    marks: int = at_least(1, default=64)
    text: int = at_least(1, default=2_000)
