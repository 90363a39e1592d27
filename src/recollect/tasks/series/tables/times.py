"""The times of a table's rows, and how they go on."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from ....data.errors import DataError
from .clock import Clock
from .steps import Step, describe_step, later


@dataclass(frozen=True, eq=False)
class Times:
    """The times of a table's rows, as they stand there, and the step between them."""

    texts: list[str]
    moments: list[Any]  # Decimal, or datetime
    step: Step
    clock: Clock = field(default_factory=Clock)
    named: bool = True  # whether the table has a column for them; else its rows are counted

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def style(self) -> str:
        """How they are written: `number`, `iso`, or a format of strftime."""
        return self.clock.style

    def part(self, start: int, stop: int) -> "Times":
        return replace(self, texts=self.texts[start:stop], moments=self.moments[start:stop])

    def moments_after(self, count: int) -> list[Any]:
        """The `count` moments that follow the last one."""
        try:
            return [later(self.moments[-1], self.step, k) for k in range(1, count + 1)]
        except (OverflowError, ValueError):
            raise DataError(
                f"expected times up to the year 9999, found {count:,} steps of {describe_step(self.step)} after "
                f"{self.texts[-1]}"
            ) from None

    def after(self, count: int) -> list[str]:
        """The `count` times that follow the last one."""
        return [self.clock.write(moment) for moment in self.moments_after(count)]

    def walls(self, count: int = 0) -> list[datetime] | None:
        """What a clock on the wall shows at each row and at `count` steps after the last; None for plain numbers."""
        if self.style == "number":
            return None
        return [self.clock.wall(moment) for moment in (*self.moments, *(self.moments_after(count) if count else ()))]
