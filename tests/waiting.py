"""Waiting for something to come true."""

from __future__ import annotations

import time
from collections.abc import Callable

LIMIT_S = 120.0
"""Far more than anything takes that works, on a machine with other work: only a
broken thing waits for so long.
"""


def until(condition: Callable[[], object], timeout_s: float = LIMIT_S) -> None:
    """Ask again and again."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"did not come true within {timeout_s:g} s"
        time.sleep(0.05)
