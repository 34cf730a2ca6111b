"""EVALUATE: time of a candidate's call without a reference to compare with (problems by cases).

Blocks and hand-overs are those of a benchmark (blocks.py), for the candidate alone.  As there, the
shorter side's hand-over is subtracted: the problem's process, which has nothing to gain, is
measured as well.  Time that the device is busy after a block, or before its clock, beyond that of
blocks without calls of the problem's process, is added.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

from workers.referee.session.batches import Batch, Times
from workers.referee.session.call_runner import CallRunner
from workers.referee.timing import estimators, stopping
from workers.referee.timing.blocks import hand_over, secret_size
from workers.referee.timing.measurements import (
    AHEAD_US,
    CANDIDATE,
    LEFT_OVER_US,
    SIDES,
    Measurements,
    per_call,
)
from workers.referee.timing.output_mapping import survey
from workers.referee.timing.paired_benchmark import try_restart, verify
from workers.referee.timing.quiet_host import QuietHost
from workers.referee.timing.sizing import TOO_SHORT, TimingBudget, inputs_at_once

BLOCKS, ENOUGH_BLOCKS = 12, 6
"""Blocks wanted, and blocks that are enough when the budget is spent."""
IDLE_BLOCKS = 3
"""Blocks without calls, of each process, before every round."""


class UnpairedTime(NamedTuple):
    """Microseconds per call."""

    us: float
    """Mean of the fastest third of all blocks (estimators.py)."""
    low: float
    high: float
    """Ends of the mean's 95 % confidence interval."""


class TimedBlock(NamedTuple):
    """Calls and times of a block."""

    calls: int
    wall_us: float
    """Wall time, with further work of the device for the block."""

    def call_us(self, measurements: Measurements) -> float:
        """Time per call, from the hand-overs so far."""
        return per_call(self.wall_us, measurements.handover.us, self.calls)


class _Idle(NamedTuple):
    """Times that the device is busy around a block without calls, in microseconds."""

    settled: float
    before: float


def run(
    runner: CallRunner, quiet_host: QuietHost, budget: TimingBudget, apparent_us: float
) -> UnpairedTime | None:
    """Measure until there are enough blocks, or the budget is spent.  None as soon
    as a timed call is wrong.

    `apparent_us`: time of a call among others, which may be many times its time alone; blocks that
    turn out too short do not count.  Raises DeviceUnhealthyError, and the processes' exceptions.
    """
    measurements = Measurements(
        block_us=budget.block_us,
        health=quiet_host.health,
        guess_us=(apparent_us, apparent_us),
        time_is_known=True,
    )
    found: list[TimedBlock] = []
    spent_s, call_us = 0.0, apparent_us
    while not _is_enough(len(found), spent_s / budget.budget_s):
        calls = _calls(runner, budget, call_us)
        if not measurements.canary_us or runner.candidate.mapped_calls < TOO_SHORT * calls:
            survey(runner, [(runner.candidate, calls)], alike=False)
            if runner.failed:
                return None
        batches = _draw(measurements, runner, budget, calls)
        with runner.exclusive(), quiet_host.prepared_for(runner):
            began = time.monotonic() - spent_s
            over = functools.partial(_is_over, len(found), began, budget.budget_s)
            with runner.timed_by(quiet_host.stopwatch):
                some = _run_blocks(measurements, runner, batches, call_us, over)
            spent_s = time.monotonic() - began
        del batches
        verify(measurements, runner)
        if runner.failed:
            return None
        if measurements.disturbed and try_restart(measurements, runner):
            spent_s = 0.0
            continue
        call_us = min([call_us, *(block.call_us(measurements) for block in some)])
        if not measurements.corrected and some:
            measurements.corrected = True
            if max(block.calls for block in some) < TOO_SHORT * _calls(runner, budget, call_us):
                spent_s = 0.0
                continue
        found += some
    quiet_host.health.note(measurements.canary_us[-1])
    return _summed(measurements, found)


def _calls(runner: CallRunner, budget: TimingBudget, call_us: float) -> int:
    """Calls in a block of the intended duration, as far as there are inputs for them."""
    return max(
        1, min(inputs_at_once(runner), runner.in_block, math.ceil(budget.block_us / call_us))
    )


def _is_over(before: int, began: float, budget_s: float, blocks: int) -> bool:
    """Test whether `blocks` blocks in addition to `before` are enough by now."""
    return _is_enough(before + blocks, (time.monotonic() - began) / budget_s)


def _is_enough(blocks: int, spent: float) -> bool:
    """`spent`: share of the budget."""
    return (
        blocks >= BLOCKS
        or (blocks >= ENOUGH_BLOCKS and spent >= 1)
        or (blocks >= 2 and spent >= stopping.OVERDRAFT)
    )


def _draw(
    measurements: Measurements, runner: CallRunner, budget: TimingBudget, calls: int
) -> list[Batch]:
    """Fresh inputs for as many blocks as wanted and as memory holds, and for one
    that does not count.  If memory holds no more than two, calls are so long that
    only the first round is warmed up.
    """
    most = max(2, budget.round_bytes // (calls * runner.bytes_per_call))
    count = min(BLOCKS + 1, most) if most > 2 or not measurements.canary_us else 1
    drawn = []
    for _ in range(count):
        with measurements.sharing(runner.device_lock):
            drawn.append(runner.draw(calls))
    return drawn


def _run_blocks(
    measurements: Measurements,
    runner: CallRunner,
    batches: list[Batch],
    call_us: float,
    over: Callable[[int], bool],
) -> list[TimedBlock]:
    """Run a block on each batch, until `over`.  The referee has the device alone.

    The first of several blocks does not count: it is new to the caches of its core, as the
    hand-overs before it would be.
    """
    measurements.run_canary()
    if len(batches) > 1:
        _block(measurements, runner, batches[0], call_us)
    idle = _idle(measurements, runner, batches[0])
    found: list[TimedBlock] = []
    for batch in batches[len(batches) > 1 :]:
        if over(len(found)):
            break
        calls, times = _block(
            measurements,
            runner,
            batch,
            min([call_us, *(block.call_us(measurements) for block in found)]),
        )
        found.append(_timed_block(times, idle, calls))
    measurements.run_canary()
    return found


def _block(
    measurements: Measurements, runner: CallRunner, batch: Batch, call_us: float
) -> tuple[int, Times]:
    """Run a hand-over and a block of secret size that lasts about as long as it should."""
    runner.warm(runner.candidate)
    hand_over(measurements, runner, CANDIDATE)
    calls = secret_size(
        measurements.block_us / call_us, min(batch.slots, runner.candidate.mapped_calls)
    )
    delivery = runner.run_candidate(batch, 0, calls)
    measurements.deliveries.append(delivery)
    return calls, delivery.times


def _idle(measurements: Measurements, runner: CallRunner, batch: Batch) -> _Idle:
    """Hand-overs of both sides, and the time that the device takes to become idle
    around a process without work.
    """
    settled, before = [], []
    for _ in range(IDLE_BLOCKS):
        for side in SIDES:
            hand_over(measurements, runner, side)
        times = runner.run_reference(batch, 0, 0)
        settled.append((times.settled_ns or 0) / 1000)
        before.append((times.before_ns or 0) / 1000)
    return _Idle(statistics.median(settled), statistics.median(before))


def _timed_block(times: Times, idle: _Idle, calls: int) -> TimedBlock:
    left_over_us = max(0.0, (times.settled_ns or 0) / 1000 - idle.settled - LEFT_OVER_US)
    ahead_us = max(0.0, (times.before_ns or 0) / 1000 - idle.before - AHEAD_US)
    return TimedBlock(calls, times.wall_ns / 1000 + left_over_us + ahead_us)


def _summed(measurements: Measurements, found: list[TimedBlock]) -> UnpairedTime:
    """The time of a call.  Without a reference to compare with, it includes the whole
    possible error of the hand-over.
    """
    wall_us = statistics.median([block.wall_us for block in found])
    off = math.hypot(
        stopping.process_error(wall_us), stopping.handover_share(measurements, wall_us)
    )
    interval = estimators.widened(
        estimators.undisturbed([block.call_us(measurements) for block in found]), off
    )
    return UnpairedTime(math.exp(interval.centre), math.exp(interval.low), math.exp(interval.high))
