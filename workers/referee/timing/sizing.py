"""Sizes of a benchmark: calls in a block, input sets to draw, memory for outputs.  They follow from
the calls so far, which at first are few.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from workers.protocol.control_channel import Delivering
from workers.referee.processes.process_session import Session
from workers.referee.session.batches import Batch, Delivery, Times
from workers.referee.session.call_runner import CallRunner
from workers.referee.timing.blocks import PROBES, UNDISTURBED_US
from workers.referee.timing.measurements import Measurements
from workers.referee.timing.stopping import ENOUGH_GROUPS, LEAST_GROUPS

ROUND_GROUPS = 6
"""Groups drawn at once, if their inputs and outputs fit into the device's arena."""

DRAW_US = 200_000.0
"""Time that drawing the inputs of a group may take: a slow reference has a slower fp64
twin, and then groups are small.
"""

MOSTLY_HANDOVER_US = 200.0
"""Time below which a call, measured in a block of a few, consists largely of the hand-over."""

PROBED, PROBED_AT_LEAST = 16, 4
"""Calls that estimate the time of one, each with a copy of its outputs, at most and at least.
Among other evaluations a call of a few microseconds may seem to take milliseconds, so there are
several even if one would make a block.
"""

TOO_SHORT = 0.7
"""Share of the intended calls of a block below which a block is too short: the guess that its
inputs were drawn by was wrong.
"""

ROUND_SHARE = 0.6
"""Share of a budget for the blocks of a first round; the rest is for hand-overs,
warming up, and further groups.
"""

SPREAD = 1.25
"""Most calls of a block, as a multiple of those that last as long as it should (blocks.py)."""

SHORT_CALLS_US, CHEAP_US = (150.0, 1000.0), 200.0
"""Limits for the apparent time of a call of reference and candidate, and for drawing an input set.
Below them, as many input sets are drawn as a block can use, and the time of calls is measured in
the first round.  Measuring it beforehand, with the device alone, costs more, and drew too few
input sets for half of such pairs.
"""

MORE_SLOTS = 2.0
"""Factor on the input sets if the budget allows longer blocks: 64 calls of 60 µs lasted half as
long as they should, calls of 20 µs a fifth.
"""

SURVEYED = 1.5
"""Multiple of the outputs to map: without the copies made so far, calls take less time."""


@dataclass(frozen=True, kw_only=True)
class TimingBudget:
    """Time and memory budget of a benchmark."""

    budget_s: float
    """Seconds for the whole benchmark."""
    block_us: float
    """See Measurements."""
    round_bytes: int
    """Memory for inputs and outputs of a round."""
    floor_us: float
    """Roofline floor, copied into the Timing."""


@dataclass(frozen=True, kw_only=True)
class Guess:
    """Apparent time of a call, in microseconds, before anything is timed."""

    reference_us: float
    candidate_us: float
    known: bool
    """True if the reference's time comes from an earlier benchmark."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """Input sets that are drawn together."""

    warming: Batch | None
    """Input sets for a block of each side that does not count."""
    groups: list[Batch]


def block_us(budget_s: float, bounds: tuple[float, float]) -> float:
    """Intended duration of a block, in microseconds: a larger budget allows longer
    blocks, in which the hand-over's jitter weighs less (60 µs on an H200: 3 % of a block
    of 2 ms, and 0.7 % after six groups).
    """
    least, most = bounds
    return min(most, max(least, ROUND_SHARE * budget_s * 1e6 / (4 * ROUND_GROUPS)))


def most_slots(least: int, budget_s: float, bounds: tuple[float, float]) -> int:
    """Most input sets at a time: `least`, and more if blocks may last longer than
    the lower of the `bounds`.
    """
    return round(least * min(MORE_SLOTS, block_us(budget_s, bounds) / bounds[0]))


def calls(lasting_us: float, call_us: float) -> int:
    """Calls of a block that lasts as long as it should, with a margin."""
    return max(1, math.ceil(SPREAD * lasting_us / max(call_us, 1e-3)))


def guess(runner: CallRunner, few: Delivery, reference_us: float | None) -> Guess:
    """Guess from a block of a few calls among other evaluations, and of the
    reference on the same inputs if `reference_us`, its time in the last benchmark,
    is None.  The device must be shared.
    """
    if reference_us is not None:
        return Guess(
            reference_us=reference_us, candidate_us=_apparent_us(few.times, few.count), known=True
        )
    times = runner.run_reference(few.batch, few.first, few.count)
    return Guess(
        reference_us=_apparent_us(times, few.count),
        candidate_us=_apparent_us(few.times, few.count),
        known=False,
    )


def _apparent_us(times: Times, calls: int) -> float:
    """Microseconds of a call, from a block of a few.  Too many calls in a first probe cost
    little, too few cost a second.
    """
    call_us = times.wall_ns / 1000 / calls
    return call_us / 2 if call_us < MOSTLY_HANDOVER_US else call_us


def may_be_short(measurements: Measurements, runner: CallRunner) -> bool:
    """Test whether a block of either side may have many calls."""
    short = all(
        us <= most_us for us, most_us in zip(measurements.guess_us, SHORT_CALLS_US, strict=True)
    )
    return short and runner.surveys and runner.slots >= 4 * PROBED


def draws_are_cheap(runner: CallRunner) -> bool:
    """Test whether as many input sets as a round may have are drawn in little time;
    known from an earlier draw of many.
    """
    return runner.draw_us <= CHEAP_US


def probe_calls(measurements: Measurements, runner: CallRunner, *, known: bool) -> tuple[int, int]:
    """Number of probe calls of each side before the first round; 1 for a side with a time that is
    known well enough. `known`: True if the reference's time comes from an earlier benchmark.
    """
    most = min(PROBED, max(1, runner.slots // PROBES))
    reference, candidate = (
        (
            1
            if guess_us > UNDISTURBED_US
            else min(most, max(PROBED_AT_LEAST, math.ceil(measurements.block_us / guess_us)))
        )
        for guess_us in measurements.guess_us
    )
    return (1 if known else reference), candidate


def sessions_to_survey(measurements: Measurements, runner: CallRunner) -> list[tuple[Session, int]]:
    """Sessions that must copy outputs or have too little mapped memory, with the
    number of calls to map.
    """
    return [
        (session, _reserve(measurements, runner, per_call_us, SURVEYED))
        for session, per_call_us in _sessions(measurements, runner)
        if session.delivering == Delivering.COPY
        or _lacks_mapped_memory(measurements, runner, session, per_call_us)
    ]


def too_short(measurements: Measurements, runner: CallRunner, groups: list[Batch]) -> bool:
    """Test whether every block of this round would be shorter than necessary, although
    those of another round need not be.
    """
    there = min(batch.slots // 2 for batch in groups)
    cramped = any(
        _lacks_mapped_memory(measurements, runner, *each)
        for each in _sessions(measurements, runner)
    )
    return cramped or there < TOO_SHORT * _reserve(
        measurements, runner, min(measurements.per_call_us)
    )


def draw_round(
    measurements: Measurements, runner: CallRunner, budget: TimingBudget, spent_s: float
) -> Round:
    """Fresh inputs for the groups of a round, no more than there is time for.  A candidate that
    looks slow gets a short round, because it may be decided by it.

    If memory holds no more than two groups, calls are so long that only the first
    round is warmed up.
    """
    reference_us, candidate_us = measurements.per_call_us
    wanted = ROUND_GROUPS
    if measurements.groups:
        in_time = math.ceil((budget.budget_s - spent_s) / spent_s * len(measurements.groups))
        wanted = max(1, min(wanted, max(in_time, ENOUGH_GROUPS - len(measurements.groups))))
    elif not measurements.time_is_known:
        # the first group of every fourth pair shows that the guess was wrong, and does not count
        # (H200)
        wanted += 1
    elif candidate_us > 4 * reference_us:
        wanted = LEAST_GROUPS
    calls = _reserve(measurements, runner, min(reference_us, candidate_us), SPREAD)
    most = max(2, budget.round_bytes // (2 * calls * runner.bytes_per_call))
    warmed = not measurements.groups or most > 2
    groups = [2 * calls] * min(wanted, most - warmed)
    drawn = []
    for slots in [calls, *groups] if warmed else groups:
        with measurements.sharing(runner.device_lock):
            drawn.append(runner.draw(slots))
    return Round(warming=drawn.pop(0) if warmed else None, groups=drawn)


def _sessions(measurements: Measurements, runner: CallRunner) -> Iterator[tuple[Session, float]]:
    return zip((runner.reference, runner.candidate), measurements.per_call_us, strict=True)


def _lacks_mapped_memory(
    measurements: Measurements, runner: CallRunner, session: Session, per_call_us: float
) -> bool:
    """Test whether a block would end early for lack of mapped memory for its outputs."""
    return session.delivering == Delivering.HOLD and session.mapped_calls < TOO_SHORT * _reserve(
        measurements, runner, per_call_us
    )


def _reserve(
    measurements: Measurements, runner: CallRunner, per_call_us: float, share: float = 1.0
) -> int:
    """Calls to draw inputs or map outputs for: `share` times those of a block of the intended
    duration; as many as possible while the time of a call is a guess.
    """
    return _calls(
        runner,
        share * measurements.lasting_us / per_call_us if measurements.time_is_known else math.inf,
    )


def _calls(runner: CallRunner, enough: float) -> int:
    """Calls in a block, as many as fit."""
    return max(1, math.ceil(min(inputs_at_once(runner) // 2, enough)))


def inputs_at_once(runner: CallRunner) -> int:
    """Input sets that memory can hold and that can be drawn in time."""
    return max(1, min(runner.slots, math.floor(DRAW_US / runner.draw_us)))
