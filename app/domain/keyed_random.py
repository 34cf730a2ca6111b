"""Random numbers that are hashes of a seed and a key: the same whenever and in whatever order they
are drawn.
"""

from __future__ import annotations

import hashlib


def uniform(seed: int, key: str) -> float:
    """A number in [0, 1) that depends on nothing but the seed and the key."""
    return int.from_bytes(hashlib.blake2b(f"{seed}:{key}".encode(), digest_size=8).digest()) / 2**64
