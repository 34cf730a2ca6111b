"""COLLECT: random draws as hashes of the collection's seed and the place where they are used.

The same place has the same draw whenever it is asked for, so a resumed collection
makes the same decisions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

SEED_BITS = 31
"""Seeds of model calls: servers differ in the integers they take, and all take these."""


@dataclass(frozen=True)
class Draws:
    """Draws of one rollout."""

    base: str
    """The collection's seed, the problem's hash and the sample's number."""

    def bits(self, place: str, purpose: str) -> int:
        """256 bits."""
        text = f"{self.base}\n{place}\n{purpose}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest())

    def uniform(self, place: str, purpose: str) -> float:
        """A number in [0, 1)."""
        return (self.bits(place, purpose) >> 203) / (1 << 53)

    def index(self, place: str, purpose: str, count: int) -> int:
        """A number in 0 … count − 1."""
        return self.bits(place, purpose) % count

    def weighted(self, place: str, purpose: str, weights: Sequence[float]) -> int:
        """An index with probability in proportion to its weight; weights are not
        negative and not all zero.
        """
        target = self.uniform(place, purpose) * sum(weights)
        for index, weight in enumerate(weights):
            target -= weight
            if target < 0:
                return index
        return max(index for index, weight in enumerate(weights) if weight > 0)

    def seed(self, place: str) -> int:
        """Seed of the model call at that place."""
        return self.bits(place, "seed") >> (256 - SEED_BITS)


def draws(seed: int, problem_sha256: str, sample: int) -> Draws:
    """Draws of one rollout of a collection."""
    return Draws(base=f"{seed}\n{problem_sha256}\n{sample}")
