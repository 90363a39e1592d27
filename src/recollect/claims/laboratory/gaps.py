"""The gap test from no gap at all on, with a training that begins there and goes on to wider and wider gaps."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...core.settings import at_least
from ...tasks.memory import gap_text
from ...tasks.memory.data import Gap
from ...tasks.memory.generator import Rows
from ...tasks.memory.task import MemoryTask

FIRST = 4  # the narrowest gap but none, of which the others are doubles


@dataclass(frozen=True, kw_only=True)
class WideningGap(Gap):
    """The gap test at 0, 4, 8, 16 … words up to `distance`, one gap a batch.

    The gaps are let in one after the other over the first `widen` batches; among those let in every one is drawn as
    often. A gap that is never seen beside easier ones is hard to learn for many models, and then nothing is known of
    what they can keep.
    """

    kind: ClassVar[str] = "widening-gap"

    widen: int = at_least(1, default=1)

    @property
    def gaps(self) -> list[int]:
        found = [0, FIRST]
        while 2 * found[-1] < self.distance:
            found.append(2 * found[-1])
        return [gap for gap in found if gap < self.distance] + [self.distance]

    @property
    def least(self) -> int:
        return self.distractors * gap_text.SHORTEST_VISIT

    def points(self) -> list[int]:
        return self.gaps if self.vary else [self.value]

    def batch(self, part: str, seed: int, number: int, rows: int) -> Rows:
        if not self.vary or part != "train":
            return super().batch(part, seed, number, rows)
        self.check_rows(rows)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, number)))
        let_in = min(len(self.gaps), 1 + len(self.gaps) * number // self.widen)
        return replace(self, vary=False, distance=int(rng.choice(self.gaps[:let_in]))).draw(rng, rows)


class WideningGapTask(MemoryTask):
    """Answering a question about a fact, with gaps from none on."""

    data_config = WideningGap
