"""Calls of a model at a random depth of the stack, so that the depth tells nothing
about a call's purpose.

A candidate can count the frames above it, by how far it can recurse.  Timed and profiled calls have
different callers: without this it would know the call that accounts for its work.  It does not
guard against the names of those frames.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from typing import TypeVar

SHALLOWEST, DEPTHS = 32, 32
"""Least depth, beyond that of every caller, and number of depths that occur."""

_frame = sys._getframe
"""Bound at import, before a candidate could replace it."""

_drawn: list[Iterator[int]] = []
"""Random bytes, drawn in the first call of a process: a system call takes longer
than all frames.
"""

T = TypeVar("T")


def at_random_depth(call: Callable[[], T]) -> T:
    """The result of `call`, with a random number of frames above it."""
    if not _drawn:
        _drawn.append(itertools.cycle(os.urandom(1 << 12)))
    depth, frame = 0, _frame().f_back
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return _deeper(SHALLOWEST + next(_drawn[0]) % DEPTHS - depth, call)


def _deeper(frames: int, call: Callable[[], T]) -> T:
    return _deeper(frames - 1, call) if frames > 0 else call()
