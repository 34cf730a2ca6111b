"""Blocks of a benchmark, one after the other, each with the device to itself.

A process that has been idle for some milliseconds, or that follows the other side, needs up to 100
µs more for its next operation, and 600 µs more for a block of short calls after the referee has
read the outputs of the last one (H200).  So a hand-over of the same process precedes every block;
hand-overs have to be measured anyway.  If launching is a part of the calls' time, a call that does
not count, on inputs of an earlier one, precedes the hand-over (warmed_calls.py): the first launch
of a Triton kernel takes 15 to 65 µs more once the other side has run on the same core, and a
hand-over has no such launch (H200).

The second of two consecutive blocks of one side is faster because of its core's caches: by 2
to 7 % if calls are mostly launches, and less after a longer pause.  Between the candidate's
two blocks the referee reads outputs; between the reference's two there is nothing to read,
so an equal pause is inserted.
"""

from __future__ import annotations

import math
import secrets
import time
from dataclasses import asdict, replace

from app.domain.evaluation import Block
from workers.referee.session.batches import Batch, Times
from workers.referee.session.call_runner import CallRunner
from workers.referee.timing.measurements import CANDIDATE, REFERENCE, SIDES, Measurements, per_call
from workers.referee.timing.output_mapping import survey_again
from workers.referee.timing.stopping import SHORT_US

PROBES = 2
"""Blocks of a side, the faster of which estimates the time of a call before the first group."""

UNDISTURBED_US = 20_000.0
"""Longest disturbance of a probe, in microseconds: a side that takes as long is not
probed again.
"""

ORDER = ((REFERENCE, 0), (CANDIDATE, 0), (CANDIDATE, 1), (REFERENCE, 1))
"""Blocks of a group, and the position of each among its side's: a drift of the device's speed
cancels.
"""


def probe(
    measurements: Measurements, runner: CallRunner, batch: Batch, calls: tuple[int, int]
) -> None:
    """Estimate the time of a call by the faster of two blocks of `calls` calls a side: the first
    block on these cores takes milliseconds more.  A side with one call is not probed.

    The first hand-over takes longer as well; if it alone were subtracted, a call
    would seem to take nothing.
    """
    walls_us = {}
    for side, count in zip(SIDES, calls, strict=True):
        if count > 1:
            probed_us: list[float] = []
            while (
                len(probed_us) < min(PROBES, batch.slots // count)
                and sum(probed_us) < UNDISTURBED_US
            ):
                times = _run(
                    measurements, runner, batch, side, len(probed_us) * count, count, evenly=False
                )
                probed_us.append(times.wall_ns / 1000)
            hand_over(measurements, runner, side)
            walls_us[side] = min(probed_us)
    handover_us = min(map(measurements.handover_us, walls_us))
    reference_us, candidate_us = (
        per_call(walls_us[side], handover_us, count) if side in walls_us else guess_us
        for side, count, guess_us in zip(SIDES, calls, measurements.guess_us, strict=True)
    )
    measurements.guess_us = (reference_us, candidate_us)


def warm_up(measurements: Measurements, runner: CallRunner, batch: Batch) -> None:
    """Run an uncounted block of each side, because neither side's code and data are in the caches
    of its core yet.  The side that begins a group comes last.
    """
    reference, candidate = _sizes(measurements, runner, batch.slots)
    for side, calls in ((CANDIDATE, candidate), (REFERENCE, reference)):
        _run(measurements, runner, batch, side, 0, calls[0])


def _run(
    measurements: Measurements,
    runner: CallRunner,
    batch: Batch,
    side: str,
    first: int,
    count: int,
    *,
    evenly: bool = True,
) -> Times:
    """Run a hand-over and a block; the candidate's outputs are verified later.  `evenly`: the
    second of two blocks of the reference comes as late as the candidate's.
    """
    again = bool(measurements.handovers) and measurements.handovers[-1].side == side
    if evenly and side == REFERENCE and again and min(measurements.per_call_us) < SHORT_US:
        time.sleep(runner.reading_s)
    runner.release_spare_memory()
    if runner.gave_back:
        survey_again(runner)
    runner.warm(runner.reference if side == REFERENCE else runner.candidate)
    hand_over(measurements, runner, side)
    if side == REFERENCE:
        return runner.run_reference(batch, first, count)
    delivery = runner.run_candidate(batch, first, count)
    if runner.streams:  # memory cannot hold it until the end of the round
        runner.verify(delivery)
    else:
        measurements.deliveries.append(delivery)
    return delivery.times


def hand_over(measurements: Measurements, runner: CallRunner, side: str) -> None:
    """Measure a block without calls."""
    session = runner.reference if side == REFERENCE else runner.candidate
    measurements.handovers.append(as_block(-1, side, 0, runner.hand_over(session)))


def run_group(measurements: Measurements, runner: CallRunner, batch: Batch) -> list[Block]:
    """Run a group: reference, candidate, candidate, reference.

    Each block uses every slot once, just written by the referee: a side that used a slot
    twice would find it in its cache.
    """
    reference, candidate = _sizes(measurements, runner, batch.slots // 2)
    found = []
    for side, position in ORDER:
        sizes = reference if side == REFERENCE else candidate
        times = _run(measurements, runner, batch, side, position * sizes[0], sizes[position])
        found.append(as_block(len(measurements.groups), side, sizes[position], times))
    return [replace(block, **asdict(measurements.clocks)) for block in found]


def _sizes(
    measurements: Measurements, runner: CallRunner, most: int
) -> tuple[list[int], list[int]]:
    """Secret block sizes of one group, at most `most`: random for the candidate, and as
    many calls of the reference as last as long.  Chosen as late as possible, when most is
    known about the time of a call.
    """
    reference_us, candidate_us = measurements.per_call_us
    candidate = [
        secret_size(
            measurements.lasting_us / candidate_us, min(most, runner.candidate.mapped_calls)
        )
        for _ in range(2)
    ]
    most = min(most, runner.reference.mapped_calls)
    return [
        max(1, min(most, round(calls * candidate_us / reference_us))) for calls in candidate
    ], candidate


def secret_size(enough: float, most: int) -> int:
    """Random number of calls in a block: `enough` ± 25 %, so that the candidate
    cannot predict it.
    """
    wanted = max(1, min(most, math.ceil(enough)))
    spread = max(1, wanted // 2)
    return max(1, min(most, wanted - spread // 2 + secrets.randbelow(spread + 1)))


def as_block(group: int, side: str, calls: int, times: Times) -> Block:
    """The block that took those times."""
    settled_us = None if times.settled_ns is None else times.settled_ns / 1000
    before_us = None if times.before_ns is None else times.before_ns / 1000
    return Block(
        group=group,
        side=side,
        calls=calls,
        wall_us=times.wall_ns / 1000,
        claimed_us=times.claimed_ns / 1000,
        settled_us=settled_us,
        before_us=before_us,
    )
