"""EXPORT: choice of held-out problems by a hash of their family: adding data never
moves an old one.
"""

from __future__ import annotations

import hashlib

TRAIN = "train"
SPLITS = (TRAIN, "validation")
_BUCKETS = 10_000
"""Parts of all families: the fineness of `val_fraction`."""


def split_of(family: str, *, seed: int, val_fraction: float) -> str:
    """`validation` for about `val_fraction` of all families, to a ten-thousandth, else `train`.

    Keyed by the family of the reference, so that one problem under two names, or in
    two shapes, stays on one side.
    """
    digest = hashlib.sha256(f"{seed}:{family}".encode()).digest()
    bucket = int.from_bytes(digest[:8]) % _BUCKETS
    return SPLITS[bucket < val_fraction * _BUCKETS]
