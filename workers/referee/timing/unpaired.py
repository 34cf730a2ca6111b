"""EVALUATE: time of a candidate's call without a reference to compare with (problems by cases).

Blocks and hand-overs are those of a benchmark (blocks.py), for the candidate alone.  As there, the shorter side's
hand-over is subtracted: the problem's process, which has nothing to gain, is measured as well.  Time that the device is
busy after a block, or before its clock, beyond that of blocks without calls of the problem's process, is added."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from typing import NamedTuple

from workers.referee.session.batches import Batch, Times
from workers.referee.session.call_runner import CallRunner
from workers.referee.timing import estimators, stopping
from workers.referee.timing.blocks import hand_over, secret_size
from workers.referee.timing.output_mapping import survey
from workers.referee.timing.paired_benchmark import tried_again, verify
from workers.referee.timing.quiet_host import Venue
from workers.referee.timing.samples import AHEAD_US, CANDIDATE, LEFT_OVER_US, SIDES, Score, per_call
from workers.referee.timing.sizing import TOO_SHORT, Terms, inputs_at_once

BLOCKS, ENOUGH_BLOCKS = 12, 6
IDLE_BLOCKS = 3
"""Blocks without calls, of each process, before every round."""


class OwnTime(NamedTuple):
    """Microseconds per call."""

    us: float
    """Mean of the fastest third of all blocks (estimators.py)."""
    low: float
    high: float
    """Ends of the mean's 95 % confidence interval."""


class Taken(NamedTuple):
    """Calls and times of a block."""

    calls: int
    wall_us: float
    """Wall time, with further work of the device for the block."""

    def call_us(self, score: Score) -> float:
        """Time per call, from the hand-overs so far."""
        return per_call(self.wall_us, score.handover.us, self.calls)


class _Idle(NamedTuple):
    """Times that the device is busy around a block without calls, in microseconds."""

    settled: float
    before: float


def run(runner: CallRunner, place: Venue, terms: Terms, seeming_us: float) -> OwnTime | None:
    """Measure until there are enough blocks, or the budget is spent.  None as soon as a timed call is wrong.

    `seeming_us`: time of a call among others, which may be many times its time alone; blocks that turn out too short do
    not count.  Raises DeviceUnhealthyError, and the processes' exceptions."""
    score = Score(block_us=terms.block_us, health=place.health, guess_us=(seeming_us, seeming_us), found_out=True)
    found: list[Taken] = []
    spent_s, call_us = 0.0, seeming_us
    while not _is_enough(len(found), spent_s / terms.budget_s):
        calls = _calls(runner, terms, call_us)
        if not score.canary_us or runner.candidate.mapped_calls < TOO_SHORT * calls:
            survey(runner, [(runner.candidate, calls)], alike=False)
            if runner.failed:
                return None
        batches = _draw(score, runner, terms, calls)
        with runner.exclusive(), place.alone(runner):
            began = time.monotonic() - spent_s
            over = functools.partial(_is_over, len(found), began, terms.budget_s)
            with runner.timed_by(place.stopwatch):
                some = _hold(score, runner, batches, call_us, over)
            spent_s = time.monotonic() - began
        del batches
        verify(score, runner)
        if runner.failed:
            return None
        if score.disturbed and tried_again(score, runner):
            spent_s = 0.0
            continue
        call_us = min([call_us, *(block.call_us(score) for block in some)])
        if not score.corrected and some:
            score.corrected = True
            if max(block.calls for block in some) < TOO_SHORT * _calls(runner, terms, call_us):
                spent_s = 0.0
                continue
        found += some
    place.health.note(score.canary_us[-1])
    return _summed(score, found)


def _calls(runner: CallRunner, terms: Terms, call_us: float) -> int:
    """Calls in a block of the intended duration, as far as there are inputs for them."""
    return max(1, min(inputs_at_once(runner), runner.in_block, math.ceil(terms.block_us / call_us)))


def _is_over(before: int, began: float, budget_s: float, blocks: int) -> bool:
    """Test whether `blocks` blocks in addition to `before` are enough by now."""
    return _is_enough(before + blocks, (time.monotonic() - began) / budget_s)


def _is_enough(blocks: int, spent: float) -> bool:
    """`spent`: share of the budget."""
    return blocks >= BLOCKS or (blocks >= ENOUGH_BLOCKS and spent >= 1) or (blocks >= 2 and spent >= stopping.OVERDRAFT)


def _draw(score: Score, runner: CallRunner, terms: Terms, calls: int) -> list[Batch]:
    """Fresh inputs for as many blocks as wanted and as memory holds, and for one that does not count.  If memory holds
    no more than two, calls are so long that only the first round is warmed up."""
    most = max(2, terms.round_bytes // (calls * runner.bytes_per_call))
    count = min(BLOCKS + 1, most) if most > 2 or not score.canary_us else 1
    drawn = []
    for _ in range(count):
        with score.beside(runner.device_lock):
            drawn.append(runner.draw(calls))
    return drawn


def _hold(
    score: Score, runner: CallRunner, batches: list[Batch], call_us: float, over: Callable[[int], bool]
) -> list[Taken]:
    """Run a block on each batch, until `over`.  The referee has the device alone.

    The first of several blocks does not count: it is new to the caches of its core, as the hand-overs before it would
    be."""
    score.watch()
    if len(batches) > 1:
        _block(score, runner, batches[0], call_us)
    idle = _idle(score, runner, batches[0])
    found: list[Taken] = []
    for batch in batches[len(batches) > 1 :]:
        if over(len(found)):
            break
        calls, times = _block(score, runner, batch, min([call_us, *(block.call_us(score) for block in found)]))
        found.append(_taken(times, idle, calls))
    score.watch()
    return found


def _block(score: Score, runner: CallRunner, batch: Batch, call_us: float) -> tuple[int, Times]:
    """Run a hand-over and a block of secret size that lasts about as long as it should."""
    runner.warm(runner.candidate)
    hand_over(score, runner, CANDIDATE)
    calls = secret_size(score.block_us / call_us, min(batch.slots, runner.candidate.mapped_calls))
    delivery = runner.run_candidate(batch, 0, calls)
    score.deliveries.append(delivery)
    return calls, delivery.times


def _idle(score: Score, runner: CallRunner, batch: Batch) -> _Idle:
    """Hand-overs of both sides, and the time that the device takes to become idle around a process without work."""
    settled, before = [], []
    for _ in range(IDLE_BLOCKS):
        for side in SIDES:
            hand_over(score, runner, side)
        times = runner.run_reference(batch, 0, 0)
        settled.append((times.settled_ns or 0) / 1000)
        before.append((times.before_ns or 0) / 1000)
    return _Idle(estimators.median(settled), estimators.median(before))


def _taken(times: Times, idle: _Idle, calls: int) -> Taken:
    left_over_us = max(0.0, (times.settled_ns or 0) / 1000 - idle.settled - LEFT_OVER_US)
    ahead_us = max(0.0, (times.before_ns or 0) / 1000 - idle.before - AHEAD_US)
    return Taken(calls, times.wall_ns / 1000 + left_over_us + ahead_us)


def _summed(score: Score, found: list[Taken]) -> OwnTime:
    """The time of a call.  Without a reference to compare with, it includes the whole possible error of the
    hand-over."""
    wall_us = estimators.median([block.wall_us for block in found])
    off = math.hypot(stopping.process_off(wall_us), stopping.handover_share(score, wall_us))
    interval = estimators.widened(estimators.undisturbed([block.call_us(score) for block in found]), off)
    return OwnTime(math.exp(interval.centre), math.exp(interval.low), math.exp(interval.high))
