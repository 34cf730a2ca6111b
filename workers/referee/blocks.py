"""The blocks of a contest, one after the other: reference, candidate, candidate, reference.

Whoever has not run for some milliseconds, or follows the other side, needs up to 100 µs more for the next thing that it
does (H200).  So a block follows either one of its own side or a hand-over of its own side, which is measured anyway;
each side has one of both in a group."""

from __future__ import annotations

import math
import secrets
from dataclasses import asdict, replace

from app.domain.evaluation import Block
from workers.referee.batches import Batch, Times
from workers.referee.score import CANDIDATE, REFERENCE, SIDES, Score, per_call
from workers.referee.trials import Trials

FEINTS = 3
"""In one block of so many the inputs are preceded by others (Trials.run_candidate), which nobody is told: of two that
follow one of their own side, or of two that do not, one of each side.  Whoever prepared an answer has the wrong one."""


def probe(score: Score, trials: Trials, batch: Batch, calls: tuple[int, int]) -> None:
    """Find out what a call takes, by a block of each side of so many calls; of one call nothing more is found out."""
    wakings = [wake(score, trials, side) for side, count in zip(SIDES, calls, strict=True) if count > 1]
    handover_us = min(block.wall_us for block in wakings)
    reference_us, candidate_us = score.guess_us
    if calls[0] > 1:
        count = min(calls[0], trials.reference.room)
        times = trials.run_reference(batch, 0, count)
        reference_us = per_call(times.wall_ns / 1000, handover_us, count)
    if calls[1] > 1:
        delivery = trials.run_candidate(batch, 0, min(calls[1], trials.candidate.room))
        score.deliveries.append(delivery)
        candidate_us = per_call(delivery.times.wall_ns / 1000, handover_us, delivery.count)
    score.guess_us = (reference_us, candidate_us)


def wake(score: Score, trials: Trials, side: str) -> Block:
    """Measure a hand-over, which is a block of no calls."""
    seat = trials.reference if side == REFERENCE else trials.candidate
    score.handovers.append(_block(-1, side, 0, trials.hand_over(seat)))
    return score.handovers[-1]


def hold(score: Score, trials: Trials, batch: Batch) -> list[Block]:
    """A group.  The first block follows one of its own side, or a hand-over.

    Both sides meet each slot once a block, just written by the referee: a side that met its slots twice would find
    them in its cache."""
    reference, candidate = _sizes(score, trials, batch)
    number = len(score.groups)
    after_own, after_other = (secrets.randbelow(FEINTS) == 0 for _ in range(2))
    times = trials.run_reference(batch, 0, reference[0], feint=after_own)
    before = _block(number, REFERENCE, reference[0], times)
    wake(score, trials, CANDIDATE)
    both = []
    for first, calls, feint in zip((0, candidate[0]), candidate, (after_other, after_own), strict=True):
        delivery = trials.run_candidate(batch, first, calls, feint=feint)
        score.deliveries.append(delivery)
        both.append(_block(number, CANDIDATE, calls, delivery.times))
    wake(score, trials, REFERENCE)
    times = trials.run_reference(batch, reference[0], reference[1], feint=after_other)
    after = _block(number, REFERENCE, reference[1], times)
    return [replace(block, **asdict(score.clocks)) for block in (before, *both, after)]


def _sizes(score: Score, trials: Trials, batch: Batch) -> tuple[list[int], list[int]]:
    """Secret block sizes for one group: of the candidate's choosing neither, of the reference as many calls as last as
    long.  Told at the last moment, when the most is known about how long a call takes."""
    most = batch.slots // 2
    reference_us, candidate_us = score.per_call_us
    candidate = [_secret_size(score.lasting_us / candidate_us, min(most, trials.candidate.room)) for _ in range(2)]
    most = min(most, trials.reference.room)
    return [max(1, min(most, round(calls * candidate_us / reference_us))) for calls in candidate], candidate


def _secret_size(enough: float, most: int) -> int:
    """Calls in a block: enough to last, give or take a quarter that nobody is told."""
    wanted = max(1, min(most, math.ceil(enough)))
    spread = max(1, wanted // 2)
    return max(1, min(most, wanted - spread // 2 + secrets.randbelow(spread + 1)))


def _block(group: int, side: str, calls: int, times: Times) -> Block:
    settled_us = None if times.settled_ns is None else times.settled_ns / 1000
    return Block(
        group=group, side=side, calls=calls, wall_us=times.wall_ns / 1000, claimed_us=times.claimed_ns / 1000,
        settled_us=settled_us,
    )  # fmt: skip
