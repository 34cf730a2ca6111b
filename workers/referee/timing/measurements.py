"""Measurements of a benchmark so far, and the time per call that follows from them.

    time per call = (wall + ahead + left over − hand-over) / calls

The hand-over is measured by blocks without calls, and the shorter side's is subtracted from both:
as both sides' blocks last equally long, its error cancels in their ratio.  The slope over the
candidate's block sizes would be the obvious estimator, but the candidate controls it: sleeping in
short blocks flattens it.  A candidate that prolongs its own hand-over changes nothing; one that
shortens it has less subtracted from both sides.

"Left over" is work that the device still does for a process that has reported done; "ahead" is work
that it does for a frozen process, between its inputs and its clock.

The fastest third of each side's blocks gives the time of a call (estimators.py).
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from app.domain.evaluation import Block
from workers.referee.host.device_lock import DeviceLock
from workers.referee.host.health import Clocks, Health
from workers.referee.session.batches import Delivery
from workers.referee.timing import estimators

REFERENCE, CANDIDATE = SIDES = ("reference", "candidate")

HANDOVER_SHARE = 0.1
LONGEST = 1.5
"""Share of a block that the hand-over may be, and the factor up to which blocks are
prolonged on a slow host to keep it.
"""

LEFT_OVER_US = 40.0
"""Part of the left-over time that is noise of its measurement, in microseconds."""

AHEAD_US = 100.0
"""The same for work done ahead: before the clock there is more to wait for."""

MISJUDGED = math.log(1.5)
"""Logarithm of the factor by which the ratio of both sides' call times may differ from the assumed
one before blocks are considered unequal.
"""

BUSY_US = 1000.0
"""Time without an answer of the device after blocks of the reference, from which on
another program keeps it busy: processes take turns of some milliseconds, and one
that computes nothing has no turn.
"""


class HandOver(NamedTuple):
    """Time of a hand-over, in microseconds."""

    us: float
    error_us: float
    """Possible error."""


@dataclass(kw_only=True)
class Measurements:
    """Measurements of both sides.  Times per call follow from blocks and hand-overs
    whenever they are read: later hand-overs correct one that was measured at a bad
    moment, for earlier groups as well.
    """

    block_us: float
    """Least duration of a block: relative to this, the hand-over's jitter (some 10 µs) is small."""
    guess_us: tuple[float, float] = (1.0, 1.0)
    """Time per call of reference and candidate, before anything that counts is measured."""
    time_is_known: bool = False
    """True if the time of calls has been measured and is not a guess."""
    handovers: list[Block] = field(default_factory=list)
    """Blocks without calls."""
    operators: int = 0
    """Operators of a call of the reference, each of which a GPU's host launches; 0 if unknown."""
    groups: list[list[Block]] = field(default_factory=list)
    """Groups that count: reference, candidate, candidate, reference."""
    deliveries: list[Delivery] = field(default_factory=list)
    """Outputs of this round, not yet verified."""
    health: Health
    canary_us: list[float] = field(default_factory=list)
    """Times of the canary before and after each round."""
    clocks: Clocks = field(default_factory=Clocks)
    """Last reading of the clocks, taken in this round."""
    sharing_s: float = 0.0
    """Seconds spent on drawing inputs and verifying outputs."""
    repeats: int = 0
    """Number of restarts: another program used the device, or the result was unusable."""
    corrected: bool = False
    """True if the first group has shown that the assumed time of calls was wrong."""

    def handover_us(self, side: str) -> float:
        """Mean of the fastest third of a side's hand-overs, like its blocks: a delay common to all
        cancels, and a noisy moment does not make calls look shorter than they are.
        """
        return self._handover(side).us

    @property
    def handover(self) -> HandOver:
        """The hand-over that is subtracted: the shorter side's."""
        return min(map(self._handover, SIDES))

    def _handover(self, side: str) -> HandOver:
        walls = [block.wall_us for block in self.handovers if block.side == side]
        us = estimators.fastest_mean(walls) if walls else 0.0
        return HandOver(
            us, us * estimators.undisturbed(walls).half_width if len(walls) > 1 else 0.0
        )

    def undisturbed(self, side: str) -> estimators.Interval:
        """ln(microseconds per call) of a side, over all blocks so far; there must be a group."""
        return estimators.undisturbed(self.times_us(side))

    @property
    def ratio(self) -> estimators.Interval:
        """ln(reference / candidate), over all blocks so far; there must be a group.

        With many groups, the median of the groups' ratios if its interval is
        narrower: a host that changes its speed changes both sides of a group, and
        widens the range of each side's blocks.
        """
        found = estimators.difference(self.undisturbed(REFERENCE), self.undisturbed(CANDIDATE))
        if len(self.groups) < estimators.LEAST_VALUES:
            return found
        return min(
            found,
            estimators.median_interval(self._ratios),
            key=lambda interval: interval.half_width,
        )

    @property
    def _ratios(self) -> list[float]:
        """ln(reference / candidate) of each group, from the faster of each side's two blocks."""
        faster = [
            [math.log(min(times)) for times in zip(*[iter(self.times_us(side))] * 2, strict=True)]
            for side in SIDES
        ]
        return [reference - candidate for reference, candidate in zip(*faster, strict=True)]

    def times_us(self, side: str) -> list[float]:
        """Times per call, block by block.  Time left over after either candidate block of a group
        is added to both: leaving the work of one behind in the other gains nothing.
        """
        handover_us, settled_us, before_us = self.handover.us, self.settled_us, self._before_us
        found: list[float] = []
        for group in self.groups:
            blocks = [block for block in group if block.side == side]
            walls_us = [block.wall_us for block in blocks]
            if side == CANDIDATE:
                left_over_us = max(
                    _beyond(block.settled_us, settled_us + LEFT_OVER_US) for block in blocks
                )
                ahead_us = [_beyond(block.before_us, before_us + AHEAD_US) for block in blocks]
                walls_us = [
                    wall_us + ahead + left_over_us
                    for wall_us, ahead in zip(walls_us, ahead_us, strict=True)
                ]
            found += [
                per_call(us, handover_us, block.calls)
                for us, block in zip(walls_us, blocks, strict=True)
            ]
        return found

    @property
    def _before_us(self) -> float:
        """Median time that the device takes to become idle before blocks of the
        reference; 0 if not measured.
        """
        found = [
            block.before_us for group in self.groups for block in group if block.side == REFERENCE
        ]
        known = [each for each in found if each is not None]
        return statistics.median(known) if known else 0.0

    @property
    def settled_us(self) -> float:
        """Time that the device takes to answer after blocks of the reference, which leaves nothing
        over: the lower quartile, which others can hardly raise.  0 if not measured.
        """
        found = self._reference_settled_us
        return found[len(found) // 4] if found else 0.0

    @property
    def _reference_settled_us(self) -> list[float]:
        found = [
            block.settled_us for group in self.groups for block in group if block.side == REFERENCE
        ]
        return sorted(each for each in found if each is not None)

    @property
    def per_call_us(self) -> tuple[float, float]:
        """Times per call of reference and candidate so far.  The shortest counts:
        noise only adds.
        """
        if not self.groups:
            return self.guess_us
        return min(self.times_us(REFERENCE)), min(self.times_us(CANDIDATE))

    @property
    def lasting_us(self) -> float:
        """Duration that a block should have, adjusted to the hand-over."""
        return min(LONGEST * self.block_us, max(self.block_us, self.handover.us / HANDOVER_SHARE))

    @contextmanager
    def sharing(self, device_lock: DeviceLock) -> Iterator[None]:
        """Share the device with others; the time, without waits for them, counts as
        spent beside timing.
        """
        with device_lock.shared():
            began = time.monotonic() - device_lock.uncharged.waited_s()
            yield
            self.sharing_s += time.monotonic() - device_lock.uncharged.waited_s() - began

    def run_canary(self) -> None:
        """Run the canary.  Raises DeviceUnhealthyError if the driver has reported a fault."""
        self.health.require_sound()
        self.canary_us.append(self.health.canary_us())
        self.clocks = self.health.clocks()

    @property
    def disturbed(self) -> bool:
        """True if another program used the device, by this round's canaries or the
        device's answers.
        """
        busy = statistics.median(self._reference_settled_us or [0.0]) > BUSY_US
        return busy or not all(map(self.health.is_undisturbed, self.canary_us[-2:]))

    @property
    def misjudged(self) -> bool:
        """True if one side's blocks of the first group were much shorter than the other's, because
        the assumed time of calls was wrong.
        """
        believed, found = self.guess_us, self.per_call_us
        return abs(math.log(believed[0] / believed[1] * found[1] / found[0])) > MISJUDGED

    def correct(self) -> None:
        """Take the time of calls from the groups so far, which do not count then; once."""
        self.corrected = True
        self.guess_us = self.per_call_us
        self.groups.clear()

    def start_again(self) -> None:
        """Discard all measurements so far."""
        self.repeats += 1
        self.groups.clear()
        self.handovers.clear()


def per_call(wall_us: float, handover_us: float, calls: int) -> float:
    """Microseconds per call; at least a twentieth of the wall time, however the
    hand-over fluctuates.
    """
    return max(wall_us - handover_us, wall_us / 20) / calls


def _beyond(measured_us: float | None, usual_us: float) -> float:
    """Time beyond the usual; 0 if not measured."""
    return 0.0 if measured_us is None else max(0.0, measured_us - usual_us)
