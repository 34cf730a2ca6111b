"""Number of timed blocks that the time of a call is the mean of: the fastest third.

On a shared host something delays one block in ten, or every second one, and nothing speeds a block
up: the fastest are alike whatever disturbs the others.
"""

from __future__ import annotations

import math

SHARE = 3
"""The fastest 1 in SHARE blocks give the time of a call."""


def size(blocks: int, *, least: int = 2) -> int:
    """How many of so many blocks, rounded up; `least`: of two blocks both, say."""
    return max(least, math.ceil(blocks / SHARE))
