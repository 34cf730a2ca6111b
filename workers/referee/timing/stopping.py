"""Stopping rule of a benchmark, and the Timing that results from its blocks."""

from __future__ import annotations

import math
import statistics

from app.domain.evaluation import Canary, Timing
from workers.referee.session import warmed_calls
from workers.referee.timing import estimators
from workers.referee.timing.measurements import CANDIDATE, REFERENCE, SIDES, Measurements, per_call

PRECISE = math.log(1.01)
"""Half-width of the log-ratio's interval at which measuring stops."""

SHORT_US = 50.0
PRECISE_SHORT = math.log(1.03)
"""Call time in microseconds below which the wider half-width applies: mostly the host's launching
is timed then, and no number of groups makes it steadier.
"""

DECIDED = math.log(1 / 5)
"""A candidate slower than this after `LEAST_GROUPS` groups is slow, and its interval stays wide."""

LEAST_GROUPS = 3
"""Least groups of a benchmark: the range of the faster of four blocks a side is too
uncertain.  Two groups of a recurrent network with 60,000 launches a call gave 1.112 [1.024,
1.208] for identical code (H200).
"""

ENOUGH_GROUPS = 6
"""Sufficient groups: the fastest third of twelve blocks a side are four, with a
meaningful range.
"""
MAX_GROUPS = 40
"""Most groups: a further one would narrow the interval by about 1 %."""

OVERDRAFT = 1.5
"""Multiple of its budget that a slow pair may use to reach six groups, and with them
a narrow interval.
"""

OVERTIME_S = 0.4
"""Seconds of exclusive device time that a pair with an interval wider than wanted for short
calls may use for six groups, however small its budget.  For calls of milliseconds, two
groups were off by 8 % (H200).
"""

VAGUE, MOST_OVERDRAFT = math.log(1.25), 4.0
"""Half-width from which on an interval is vague, and the multiple of its budget that such a
pair may use to reach six groups.
"""

MEANINGLESS = math.log(2)
"""Half-width from which on an interval is unusable and the benchmark is repeated.  On an
H200 host where both sides woke up late every time, two groups gave 7.7 [0.0, 405,089] for a
pair of 2.0.  Repeating everything wider than ± 25 % affected every ninth short kernel and
cost 5 to 10 % of the throughput.
"""

HANDOVER_ERROR_US = 12.0
"""Microseconds by which the overhead of calls differs from hand-overs, and one process's
hand-over from another's (H200).
"""

PROCESS_ERROR = 0.005
"""Relative difference between calls of two processes that run the same code, for as long as both
live.  With HANDOVER_ERROR_US and this, intervals contained 92 to 100 % of each of 17 sets of 20 to
60 pairs of known ratio (H200s); without this, 68 % of a set with blocks of 8 ms.
"""

NETWORK_OPERATORS, NETWORK_ERROR = 40, 0.09
"""Operators of a call from which on launching them takes another share of the time in each process,
and the relative difference between two processes of the same code.  Of 133 evaluations of twelve
networks against themselves (KernelBench's level 3, H200s of four hosts) 101 intervals held 1.0
without it, and 127 with it.
"""


def stop_reason(measurements: Measurements, spent: float, budget_s: float) -> str:
    """Reason to stop, or "".  `spent`: share of the budget used, counted while the referee has the
    device alone; a group of which less than half fits into the budget is not begun.
    """
    groups = len(measurements.groups)
    if groups < LEAST_GROUPS:
        return ""
    found = measurements.ratio
    if _widened(measurements, found).high < DECIDED:
        return "decided"
    if groups >= ENOUGH_GROUPS and found.half_width <= _wanted(measurements):
        return "precise"
    if groups >= MAX_GROUPS:
        return "groups"
    enough = groups >= ENOUGH_GROUPS or spent >= _overdraft(found.half_width, budget_s)
    return "budget" if spent + spent / groups / 2 >= 1 and enough else ""


def _overdraft(half_width: float, budget_s: float) -> float:
    """Factor by which a pair may exceed its budget before it has six groups."""
    if half_width > VAGUE:
        return MOST_OVERDRAFT
    return max(OVERDRAFT, OVERTIME_S / budget_s) if half_width > PRECISE_SHORT else OVERDRAFT


def is_vague(measurements: Measurements, reason: str) -> bool:
    """Test whether the benchmark ended for that reason with an unusable interval."""
    return (
        reason in {"budget", "groups"}
        and _widened(measurements, measurements.ratio).half_width > MEANINGLESS
    )


def _wanted(measurements: Measurements) -> float:
    return PRECISE_SHORT if min(measurements.per_call_us) < SHORT_US else PRECISE


def _widened(measurements: Measurements, found: estimators.Interval) -> estimators.Interval:
    """The interval from the blocks, widened by errors that all blocks share: how far each side's
    process may be off, and the hand-over, which cancels as far as both sides' blocks last equally
    long.  The shorter side's hand-over is subtracted from both, so the other side may be faster
    than it seems by the difference.
    """
    walls = [
        statistics.median(
            [
                block.wall_us
                for group in measurements.groups
                for block in group
                if block.side == side
            ]
        )
        for side in SIDES
    ]
    shares = [handover_share(measurements, wall) for wall in walls]
    both = math.hypot(
        *map(process_error, walls), shares[0] - shares[1], network_error(measurements)
    )
    slower = [
        (measurements.handover_us(side) - measurements.handover.us) / wall
        for side, wall in zip(SIDES, walls, strict=True)
    ]
    return estimators.widened(found, math.hypot(both, slower[0]), math.hypot(both, slower[1]))


def network_error(measurements: Measurements) -> float:
    """Relative systematic error of calls that launch many operators; 0 for others."""
    call_s = min(measurements.per_call_us) / 1e6
    share = warmed_calls.launching_share(call_s, measurements.operators)
    is_network = measurements.operators >= NETWORK_OPERATORS and share >= warmed_calls.LAUNCHING
    return NETWORK_ERROR if is_network else 0.0


def process_error(wall_us: float) -> float:
    """Relative systematic error of one process's timings for blocks of this length."""
    return math.hypot(HANDOVER_ERROR_US / wall_us, PROCESS_ERROR)


def handover_share(measurements: Measurements, wall_us: float) -> float:
    """Relative error caused by the uncertainty of the hand-over."""
    handover = measurements.handover
    return handover.error_us / per_call(wall_us, handover.us, 1)


def timing(measurements: Measurements, reason: str, floor_us: float) -> Timing:
    """The Timing of a benchmark.  `floor_us`: shortest possible time, copied;
    `reason`: see stop_reason.
    """
    found = _widened(measurements, measurements.ratio)
    blocks = [block for group in measurements.groups for block in group]
    timed = [block for block in blocks if block.side == CANDIDATE]
    claimed = [block.claimed_us / block.calls for block in timed if block.claimed_us is not None]
    return Timing(
        reference_us=math.exp(measurements.undisturbed(REFERENCE).centre),
        candidate_us=math.exp(measurements.undisturbed(CANDIDATE).centre),
        speedup=math.exp(found.centre),
        ci_low=math.exp(found.low),
        ci_high=math.exp(found.high),
        groups=len(measurements.groups),
        calls_per_side=sum(block.calls for block in timed),
        handover_us=measurements.handover_us(REFERENCE),
        candidate_handover_us=measurements.handover_us(CANDIDATE),
        claimed_us=statistics.median(claimed),
        floor_us=floor_us,
        stop_reason=reason,
        blocks=(*measurements.handovers, *blocks),
        canary=_canary(measurements),
    )


def _canary(measurements: Measurements) -> Canary | None:
    """Canary times around the measurements that count; None on the CPU."""
    if not measurements.health.expected_us:
        return None
    return Canary(
        expected_us=measurements.health.expected_us,
        before_us=measurements.canary_us[-2],
        after_us=measurements.canary_us[-1],
        repeats=measurements.repeats,
    )
