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


def is_warmed(call_s: float, work: ReferenceWork) -> bool:
    """Test whether an uncounted call precedes blocks of such calls.  `work`: the reference's."""
    operators = work.rest_operators + len(work.products)
    return call_s < ALWAYS_S or (call_s < NEVER_S and LAUNCH_S * operators >= LAUNCHING * call_s)
