"""Recordings of a split end to end, and the strings that are joined of them."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

LOUDEST = 32_767  # of a whole number of 16 bits that stands for ±1
QUIET = -8.5, -6.0  # natural logarithm of the deviation of what is heard between recordings: about -74 to -52 dB


class Plan(NamedTuple):
    """Strings of recordings: of string i the numbers `members[first[i] : first[i + 1]]`.

    Before each of them and after the last stands silence, of as many samples as `gaps` says; that of string i begins at
    place first[i] + i.
    """

    members: np.ndarray  # M, numbers of recordings
    first: np.ndarray  # N + 1
    gaps: np.ndarray  # M + N, samples
    seeds: np.ndarray  # N, of what is heard in the gaps

    def __len__(self) -> int:
        return len(self.seeds)

    def of(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """The recordings of a string, and the silence around them."""
        begin, end = int(self.first[row]), int(self.first[row + 1])
        return self.members[begin:end], self.gaps[begin + row : end + row + 1]

    def sizes(self) -> np.ndarray:
        """How many recordings each string has."""
        return np.diff(self.first)


@dataclass(frozen=True, eq=False)
class Recordings:
    """The recordings of one split: samples end to end, with the text and the speaker of each."""

    samples: np.ndarray  # int16, see `to_whole`
    offsets: np.ndarray  # N + 1
    texts: list[str]
    speakers: list[str]
    sha256: str = ""
    by_speaker: dict[str, np.ndarray] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        names = np.array(self.speakers)
        self.by_speaker.update({name: np.flatnonzero(names == name) for name in sorted(set(self.speakers))})

    def __len__(self) -> int:
        return len(self.texts)

    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def samples_of(self, number: int) -> np.ndarray:
        """Of one recording, float32 in ±1."""
        return self.samples[self.offsets[number] : self.offsets[number + 1]].astype(np.float32) / LOUDEST

    def each(self) -> Plan:
        """Every recording by itself, without silence around it."""
        count = len(self)
        return Plan(np.arange(count), np.arange(count + 1), np.zeros(2 * count, np.int64), np.zeros(count, np.int64))

    def draw(self, draw: np.random.Generator, sizes: np.ndarray, gap: int) -> Plan:
        """Strings of so many recordings each, all by one speaker, with up to `gap` samples of silence between them."""
        count, total = len(sizes), int(sizes.sum())
        speakers = list(self.by_speaker)
        who = draw.integers(len(speakers), size=count)
        shares = draw.random(total)
        owner = np.repeat(who, sizes)
        members = np.empty(total, np.int64)
        for number, name in enumerate(speakers):
            own, mine = self.by_speaker[name], owner == number
            members[mine] = own[(shares[mine] * len(own)).astype(np.int64)]
        gaps = (draw.random(total + count) * (gap + 1)).astype(np.int64)
        return Plan(members, np.concatenate([[0], np.cumsum(sizes)]), gaps, draw.integers(1 << 31, size=count))


@dataclass(frozen=True, eq=False)
class Part:
    """One split: its recordings, and the strings that are read of it; in training new ones are drawn all the time."""

    recordings: Recordings
    plan: Plan | None
    between: str = ""  # what stands between the texts of two recordings of a string
    longer: np.ndarray | None = None  # of each string, whether it is longer than any that is trained on
    sizes: tuple[int, int] = (1, 1)  # recordings of a string that is drawn
    gap: int = 0

    def __len__(self) -> int:
        return len(self.recordings) if self.plan is None else len(self.plan)

    @property
    def drawn(self) -> bool:
        return self.plan is None

    def draw(self, draw: np.random.Generator, count: int) -> Plan:
        """New strings."""
        sizes = draw.integers(self.sizes[0], self.sizes[1] + 1, size=count)
        return self.recordings.draw(draw, sizes, self.gap)

    def text_of(self, plan: Plan, row: int) -> str:
        return self.between.join(self.recordings.texts[number] for number in plan.of(row)[0])

    def samples_of(self, plan: Plan, row: int) -> np.ndarray:
        """The samples of a string: its recordings with faint noise between them."""
        members, gaps = plan.of(row)
        if not gaps.any():
            return self.recordings.samples_of(int(members[0]))
        draw = np.random.default_rng(int(plan.seeds[row]))
        level = np.exp(draw.uniform(*QUIET))
        parts = []
        for number, gap in zip((None, *members.tolist()), gaps.tolist(), strict=True):
            if number is not None:
                parts.append(self.recordings.samples_of(number))
            parts.append((level * draw.standard_normal(gap)).astype(np.float32))
        return np.concatenate(parts)

    def length_of(self, plan: Plan) -> np.ndarray:
        """The samples of each string."""
        own = self.recordings.lengths()[plan.members]
        rows = np.repeat(np.arange(len(plan)), plan.sizes())
        silent = np.repeat(np.arange(len(plan)), plan.sizes() + 1)
        return np.bincount(rows, own, len(plan)).astype(np.int64) + np.bincount(silent, plan.gaps, len(plan)).astype(
            np.int64
        )

    def texts(self) -> list[str]:
        """The text of each string of a fixed plan, or of each recording."""
        plan = self.recordings.each() if self.plan is None else self.plan
        return [self.text_of(plan, row) for row in range(len(plan))]


def limit(samples: np.ndarray) -> np.ndarray:
    """The samples, made softer where they go beyond ±1, as those of programs do that write whole numbers as floats."""
    most = float(np.abs(samples).max(initial=0))
    return samples / np.float32(most) if most > 1 else samples


def to_whole(samples: np.ndarray) -> np.ndarray:
    """Samples as whole numbers of 16 bits, whose rounding lies far below the floor of the frames."""
    return np.rint(limit(samples) * LOUDEST).astype("<i2")
