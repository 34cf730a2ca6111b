"""Blocks that an uncounted call precedes, because launching is a part of their calls' time.

The first launches after the other side's block take longer, while the core's caches have none of a
side's code and data.  The second of two consecutive blocks of one side has no such launches, and in
each group that is the candidate's.  Without an uncounted call networks of some hundred operators
seemed 1 to 6 % faster as candidates (KernelBench's level 3, calls of 3 to 10 ms, H200).
"""

from __future__ import annotations

from workers.protocol.reference_work import ReferenceWork

ALWAYS_S = 0.002
"""Seconds of a call below which the launch of one kernel is a part worth mentioning."""

NEVER_S = 0.012
"""Seconds of a call from which on an uncounted one costs too much of the device's time."""

LAUNCH_S = 8e-6
"""Seconds that Python, PyTorch and the driver take for an operator (hosts of H200s)."""

LAUNCHING = 0.1
"""Share of a call's time from which on launching is a part of it."""


def operators(work: ReferenceWork) -> int:
    """Operators of one call."""
    return work.rest_operators + len(work.products)


def launching_share(call_s: float, count: int) -> float:
    """Share of a call that launching its operators takes; 1 if it takes all of it."""
    return min(1.0, LAUNCH_S * count / call_s) if call_s else 1.0


def is_warmed(call_s: float, work: ReferenceWork) -> bool:
    """Test whether an uncounted call precedes blocks of such calls.  `work`: the reference's."""
    if call_s < ALWAYS_S:
        return True
    return call_s < NEVER_S and launching_share(call_s, operators(work)) >= LAUNCHING
