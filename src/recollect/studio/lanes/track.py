"""One model on one text: how far it has read, what was seen at each position, and the states that were kept.

States never change once they are made, so that a track that is forked shares them. Kept are those at the last
positions and some in between; any other is made again from the nearest one before it, in one chunk.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core import state as states
from .lane import SHARES, Column, Edit, Lane, summarize

RECENT = 16  # states at the end of a text that are always kept


class Track:
    """What a lane has read of a text, with the edits of its state."""

    def __init__(self, lane: Lane, most: int) -> None:
        self.lane, self.most = lane, most
        self.tokens: list[int] = []
        self.ends: list[int] = []
        self.edits: tuple[Edit, ...] = ()
        self.columns: list[Column] = []
        self.marks: dict[int, Any] = {0: lane.initial_state()}
        self.bits: dict[int, np.ndarray] = {}  # of every token, after a position; of the last one
        self.wanted: list[int] = []
        self.wanted_ends: list[int] = []

    @property
    def position(self) -> int:
        """Tokens that were read."""
        return len(self.columns)

    @property
    def left(self) -> int:
        """Tokens that are still to be read."""
        return len(self.wanted) - self.position

    def fork(self) -> "Track":
        """Another track that stands where this one does, with what was seen and the states of this one."""
        made = Track(self.lane, self.most)
        made.tokens, made.ends, made.edits = list(self.tokens), list(self.ends), self.edits
        made.columns, made.marks, made.bits = list(self.columns), dict(self.marks), dict(self.bits)
        made.wanted, made.wanted_ends = list(self.wanted), list(self.wanted_ends)
        return made

    def aim(self, text: str, edits: Sequence[Edit] = ()) -> int:
        """Turn to a text: what it shares with the one that was read stays. Returns how many positions stay."""
        wanted, ends = self.lane.encode(text)
        limit = self.lane.limit
        if limit is not None:
            wanted, ends = wanted[:limit], ends[:limit]
        shared = 0
        while shared < min(len(wanted), self.position) and wanted[shared] == self.tokens[shared]:
            shared += 1
        edits = tuple(sorted(edits))
        changed = set(edits) ^ set(self.edits)
        if changed:
            shared = min(shared, min(edit.at for edit in changed))
        self.cut(shared)
        self.wanted, self.wanted_ends, self.edits = wanted, ends, edits
        self.ends = ends[:shared]
        return shared

    def cut(self, position: int) -> None:
        """Go back to a position."""
        if position == self.position:
            return
        del self.columns[position:], self.tokens[position:], self.ends[position:]
        state = self.state_at(position)
        self.marks = {at: mark for at, mark in self.marks.items() if at <= position}
        self.marks[position] = state
        self.bits = {at: bits for at, bits in self.bits.items() if at == position}

    def state_at(self, position: int) -> Any:
        """The state after so many tokens, from the nearest one that was kept before."""
        near = max(at for at in self.marks if at <= position)
        state = self.marks[near]
        edits = [edit.at + 1 for edit in self.edits if near < edit.at + 1 <= position]
        while near < position:
            if near + 1 in edits:
                at = near
                _, state, _ = self.lane.step(state, self.tokens[at], self.edits_at(at))
                near += 1
                continue
            until = min([position, *(edit - 1 for edit in edits if edit - 1 > near)])
            state = self.lane.read_chunk(state, self.tokens[near:until])
            near = until
        return state

    def edits_at(self, position: int) -> list[Edit]:
        return [edit for edit in self.edits if edit.at == position]

    def advance(self, most: int) -> int:
        """Read up to so many of the tokens that are left; how many."""
        count = min(most, self.left)
        if count <= 0:
            return 0
        state = self.state_at(self.position)
        for _ in range(count):
            at = self.position
            token = self.wanted[at]
            before = self.bits_after(at)
            surprise = float(-before[token]) if before is not None else float("nan")
            logits, state, values = self.lane.step(state, token, self.edits_at(at))
            likeliest, shares, bits, entropy = summarize(logits)
            kept = bits if len(bits) <= SHARES else bits[:0]
            self.columns.append(Column(values, surprise, likeliest, shares, kept, entropy))
            self.tokens.append(token)
            self.ends.append(self.wanted_ends[at])
            self.marks[at + 1] = state
            self.bits = {at + 1: bits}
            self.thin()
        return count

    def bits_after(self, position: int) -> np.ndarray | None:
        """log2 of the share of every token after so many; None at the beginning."""
        if not position:
            return None
        if len(kept := self.columns[position - 1].bits):
            return kept
        if position not in self.bits:
            logits, _, _ = self.lane.step(self.state_at(position - 1), self.tokens[position - 1])
            self.bits[position] = summarize(logits)[2]
        return self.bits[position]

    def thin(self) -> None:
        """Let go of states between the beginning and the last positions where there are more than may be kept."""
        if len(self.marks) <= self.most:
            return
        recent = self.position - RECENT
        old = sorted(at for at in self.marks if 0 < at <= recent)
        if not old:
            return
        gaps = [(after - before, before) for before, after in zip([0, *old], [*old, recent + 1], strict=True)]
        spans = [gaps[i][0] + gaps[i + 1][0] for i in range(len(old))]
        del self.marks[old[spans.index(min(spans))]]

    @property
    def nbytes(self) -> int:
        """Bytes of what was seen and of the states that are kept."""
        seen = self.columns[-1].nbytes * len(self.columns) if self.columns else 0
        kept = max(self.marks, default=0)
        largest = states.nbytes(self.marks[kept]) if self.marks else 0
        return seen + largest * len(self.marks)

    def state_bytes(self, position: int) -> int:
        """Bytes of the state after so many tokens, as the model declares them."""
        return int(self.lane.model.cost(1, max(1, position)).state_bytes)
