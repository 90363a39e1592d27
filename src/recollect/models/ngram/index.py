"""A hash table that finds many keys at once, in plain array code."""

import numpy as np
from torch import Tensor

GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)  # 2⁶⁴ / golden ratio, odd, as an int64: spreads neighbours far apart


class Index:
    """A hash table of keys, laid out as if they had been put into it in the order of their hashes.

    A key's hash is its product with an odd number, modulo a power of two that no key reaches: different keys have
    different hashes, so to compare hashes is to compare keys. Its first bits name the slot where the key belongs;
    where several belong they follow one another in ascending order, over the next slots if need be. A slot holds

        hash · 2^bits + index of the key        bits: what an index needs

    and an empty one the least hash that belongs to the next slot. So a search begins in the slot of its hash and
    goes on while it finds less; then the difference is the index, or too large to be one. Twice as many slots as
    keys, or up to four times as many, keep that short: 1.2 to 1.4 slots a key on real text, for 16 to 32 bytes. What
    leaves the 64 bits is the same for all slots that a search compares.
    """

    def __init__(self, slots: np.ndarray, mask: int, shift: int, bits: int) -> None:
        self.slots, self.mask, self.shift, self.bits = slots, mask, shift, bits

    @classmethod
    def of(cls, keys: Tensor, below: int) -> "Index | None":
        """The index of keys from 0 to `below` − 1; None where the 64 bits are too few (`below` near 2^60)."""
        entries, size = len(keys), max(1, (below - 1).bit_length())
        bits = (entries - 1).bit_length()
        first = min(size, bits + 1)  # bits of the hash that name its slot
        mask, shift = (1 << size) - 1, size - first
        hashes, order = (keys * GOLDEN & mask).sort()
        home, number = (hashes >> shift).numpy(), np.arange(entries)
        at = np.maximum.accumulate(home - number) + number
        if int((at - home).max()) + 2 > 1 << (63 - shift - bits):
            return None
        slots = np.arange(1, max(1 << first, int(at[-1]) + 1) + 2) << (shift + bits)
        slots[at] = ((hashes << bits) + order).numpy()
        return cls(slots, mask, shift, bits)

    def find(self, wanted: np.ndarray) -> np.ndarray:
        """The index (Q) of each wanted key (Q); as many as there are entries, or more, where there is none."""
        hashes = wanted * GOLDEN
        hashes &= self.mask
        at = hashes >> self.shift
        hashes <<= self.bits
        ahead = self.slots.take(at, mode="clip")
        ahead -= hashes
        left = (ahead < 0).nonzero()[0]
        at, hashes = at.take(left), hashes.take(left)
        while len(left):
            at += 1
            further = self.slots.take(at, mode="clip")
            further -= hashes
            ahead[left] = further
            on = (further < 0).nonzero()[0]
            left, at, hashes = left.take(on), at.take(on), hashes.take(on)
        return ahead
