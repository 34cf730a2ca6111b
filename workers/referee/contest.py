"""The contest: ABBA groups of reference and candidate blocks on the referee's clock, until the ratio is known.

What blocks make per call is in score.py.  Groups come in rounds: inputs of a round are drawn beforehand and outputs are
verified afterwards, while other referees may use the device; only the blocks themselves run alone."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from app.domain.evaluation import Canary, Timing
from workers.referee import statistics
from workers.referee.batches import Batch, Delivery, Times
from workers.referee.blocks import PROBES, UNDISTURBED_US, hold, probe, warm_up
from workers.referee.cores import Cores
from workers.referee.health import Health
from workers.referee.lease import Lease
from workers.referee.party import Seat
from workers.referee.score import CANDIDATE, REFERENCE, SIDES, Score
from workers.referee.trials import Trials
from workers.sandbox.spawn import Stopwatch
from workers.sandbox.wakeful import Wakeful
from workers.wire import Delivering

PRECISE = math.log(1.01)
"""Half-width of the log-ratio's interval at which measuring stops."""

SHORT_US = 50.0
PRECISE_SHORT = math.log(1.03)
"""The same where one side's call is shorter than that: mostly the host's launching is timed then, and no number of
groups makes that steadier."""

DECIDED = math.log(1 / 5)
"""A candidate slower than this after `DECIDED_GROUPS` groups is slow; its interval stays wide."""

DECIDED_GROUPS = 3
MAX_GROUPS = 40
MAX_REPEATS = 2
DISTURBED_S = 40.0
"""Who was disturbed waits for so long, in seconds, for first calls to end: those of other candidates use the device
without a lease, and one that hangs there is ended by its limit for a call."""

ROUND_GROUPS = 6
"""Groups drawn at once, if their inputs and outputs fit into the device's arena."""

DRAW_US = 200_000.0
"""What making the inputs of a group may take: a slow reference has a slower fp64 twin, and then groups are small."""

OVERDRAFT = 1.5
"""A slow pair may use its budget so many times over in order to have six groups, and with them a narrow interval."""

PATIENCE = 2.0
"""Making inputs and verifying outputs may take so many times the budget; from then on six groups are enough.  On the
CPU device, where a reference's fp64 twin is no faster than the reference, that is most of a contest."""

HANDOVER_OFF_US = 12.0
"""By so much hand-overs of calls differ from those of none, and one process's from another's (H200)."""

PROCESS_OFF = 0.005
"""By this share calls of one process differ from those of another that runs the same code, for as long as both live.
With both of these, intervals held 92 to 100 % of each of 17 sets of 20 to 60 pairs of known ratio (H200s); without this
one, 68 % of a set whose blocks lasted 8 ms."""

MOSTLY_HANDOVER_US = 200.0
"""In a block of a few calls, one that takes less is for a good part the hand-over."""

PROBED, PROBED_AT_LEAST = 16, 4
"""Calls that say what one takes, each with a copy of its outputs.  Among others a call of some microseconds may seem to
take milliseconds: so there are several even where one would make a block."""

TOO_SHORT = 0.7
"""Of the calls that a block should have, as few as this are too few: the guess was wrong that they were drawn by."""

ROUND_SHARE = 0.6
"""Of a budget, what the blocks of a first round may take; the rest is for hand-overs, warming up, and more groups."""

SPREAD = 1.25
"""A block has up to so many times the calls that make it last as long as it should (blocks.py)."""

SURVEYED = 1.5
"""Memory for so many times the outputs: without the copies that were made so far, calls take less."""


@dataclass(frozen=True, kw_only=True)
class Venue:
    """Where a contest is held."""

    lease: Lease
    wakeful: Wakeful
    health: Health
    stopwatch: Stopwatch
    cores: Cores | None
    """None on the CPU, where both sides are bound to one core from their start."""

    @contextmanager
    def alone(self, trials: Trials) -> Iterator[None]:
        """Cores awake, and the two sides on quiet ones."""
        with ExitStack() as stack:
            stack.enter_context(self.wakeful.awake())
            if self.cores is not None:
                sides = (trials.reference, trials.candidate)
                stack.enter_context(self.cores.quiet([side.process.pid for side in sides]))
            yield


@dataclass(frozen=True, kw_only=True)
class Terms:
    """On which a contest is held."""

    budget_s: float
    """For all of it, in seconds."""
    block_us: float
    """See Score."""
    round_bytes: int
    """Memory for the inputs and outputs of a round."""
    floor_us: float
    """Roofline floor, passed on into the Timing."""


@dataclass(frozen=True, kw_only=True)
class Guess:
    """What a call seems to take, in microseconds, before anything is timed."""

    reference_us: float
    candidate_us: float
    known: bool
    """Whether the reference's is that of an earlier contest."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """What is drawn at a time."""

    warming: Batch | None
    """For a block of each side that does not count."""
    groups: list[Batch]


def block_us(budget_s: float, bounds: tuple[float, float]) -> float:
    """What a block should last, in microseconds: the more time there is, the smaller the hand-over's jitter against it
    (some 60 µs on an H200: 3 % of a block of 2 ms, and six groups of them leave 0.7 % of it)."""
    least, most = bounds
    return min(most, max(least, ROUND_SHARE * budget_s * 1e6 / (4 * ROUND_GROUPS)))


def guess(trials: Trials, few: Delivery, reference_us: float | None) -> Guess:
    """By a block of a few calls among others, and of the reference on the same inputs where nothing is known of it.
    The device must be shared.  `reference_us`: what its calls took in the last contest."""
    if reference_us is not None:
        return Guess(reference_us=reference_us, candidate_us=_seeming_us(few.times, few.count), known=True)
    times = trials.run_reference(few.batch, few.first, few.count)
    return Guess(
        reference_us=_seeming_us(times, few.count), candidate_us=_seeming_us(few.times, few.count), known=False
    )  # fmt: skip


def run(trials: Trials, place: Venue, terms: Terms, before: Guess) -> Timing | None:
    """Measure until precise, decided or out of budget.  None as soon as a timed call is wrong.

    Raises DeviceUnhealthyError, and what the parties raise."""
    score = Score(block_us=terms.block_us, health=place.health, guess_us=(before.reference_us, before.candidate_us))
    _find_out(score, trials, place, known=before.known)
    spent_s = 0.0
    while _make_room(score, trials, place.lease):
        round_ = _draw_round(score, trials, place.lease, terms, spent_s)
        with score.alone(place.lease), place.alone(trials):
            began = time.monotonic() - spent_s
            with trials.timed_by(place.stopwatch):
                reason = _hold_round(score, trials, round_, began, terms.budget_s)
            spent_s = time.monotonic() - began if score.groups else 0.0
        del round_  # what it takes is needed for verifying, and for the next
        _verify(score, trials, place.lease)
        if trials.failed:
            return None
        if score.disturbed and score.repeats < MAX_REPEATS:
            score.start_again()
            spent_s = 0.0
            place.lease.wait_for_those_apart(min(DISTURBED_S, trials.deadline.left_s / 2))
            continue
        if len(score.groups) >= statistics.RANK_FROM and score.beside_s >= PATIENCE * terms.budget_s:
            reason = reason or "budget"
        if reason:
            place.health.note(score.canary_us[-1])
            return _timing(score, reason, terms.floor_us)
    return None


def _find_out(score: Score, trials: Trials, place: Venue, *, known: bool) -> None:
    """What a call takes, with the device to itself: among others it may seem to take many times as long, and then every
    block would be too short.  `known`: of the reference it is."""
    most = min(PROBED, max(1, trials.slots // PROBES))
    reference, candidate = (
        1 if guess_us > UNDISTURBED_US else min(most, max(PROBED_AT_LEAST, math.ceil(score.block_us / guess_us)))
        for guess_us in score.guess_us
    )
    reference = 1 if known else reference
    if max(reference, candidate) == 1:
        return
    with place.lease.shared():
        batch = trials.draw(min(trials.slots, PROBES * max(reference, candidate)))
    with score.alone(place.lease), place.alone(trials), trials.timed_by(place.stopwatch):
        probe(score, trials, batch, (reference, candidate))
    _verify(score, trials, place.lease)


def _make_room(score: Score, trials: Trials, lease: Lease) -> bool:
    """Where outputs can stay where they are computed, memory for those of a block.  False if the candidate gave a wrong
    answer."""
    if not score.groups:
        cramped = [
            (seat, _reserve(score, trials, per_call_us, SURVEYED))
            for seat, per_call_us in _seats(score, trials)
            if seat.delivering == Delivering.COPY or _is_cramped(score, trials, seat, per_call_us)
        ]
        trials.survey(lease, cramped)
    return not trials.failed


def _seats(score: Score, trials: Trials) -> Iterator[tuple[Seat, float]]:
    return zip((trials.reference, trials.candidate), score.per_call_us, strict=True)


def _is_cramped(score: Score, trials: Trials, seat: Seat, per_call_us: float) -> bool:
    """Whether a block would end early for want of memory for its outputs."""
    return seat.delivering == Delivering.HOLD and seat.room < TOO_SHORT * _reserve(score, trials, per_call_us)


def _verify(score: Score, trials: Trials, lease: Lease) -> None:
    for some in _bundles(score.deliveries, trials.record.calls_at_once):
        with score.beside(lease):
            trials.verify(*some)
    score.deliveries.clear()


def _bundles(deliveries: list[Delivery], calls: int) -> Iterator[list[Delivery]]:
    """What can be verified at once, of so many calls about: nobody can be timed meanwhile."""
    bundle: list[Delivery] = []
    for delivery in deliveries:
        bundle.append(delivery)
        if sum(each.count for each in bundle) >= calls:
            yield bundle
            bundle = []
    if bundle:
        yield bundle


def _reserve(score: Score, trials: Trials, per_call_us: float, share: float = 1.0) -> int:
    """Calls for which there should be inputs, or memory for outputs: `share` times those with which a block lasts as
    long as it should."""
    return _calls(trials, share * score.lasting_us / per_call_us)


def _hold_round(score: Score, trials: Trials, round_: Round, began: float, budget_s: float) -> str:
    """Hold the groups of a round, between two canaries; why to stop, or nothing.  The device is ours alone.

    The first group may show that what was known of calls is wrong.  Then it does not count; and if all others would be
    too short, the round ends there.  Once."""
    score.watch()
    if round_.warming is not None:
        warm_up(score, trials, round_.warming)
    reason = ""
    for group in round_.groups:
        score.groups.append(hold(score, trials, group))
        if len(score.groups) == 1 and not score.corrected:
            short = _too_short(score, trials, round_.groups)
            if short or score.misjudged:
                score.correct()
            if short:
                break
            continue
        if reason := _stop_reason(score, (time.monotonic() - began) / budget_s):
            break
    score.watch()
    return reason


def _too_short(score: Score, trials: Trials, groups: list[Batch]) -> bool:
    """Whether every block of this round would be shorter than need be, and those of another need not."""
    there = min(batch.slots // 2 for batch in groups)
    cramped = any(_is_cramped(score, trials, *each) for each in _seats(score, trials))
    return cramped or there < TOO_SHORT * _reserve(score, trials, min(score.per_call_us))


def _seeming_us(times: Times, calls: int) -> float:
    """Microseconds of a call, from a block of a few.  Too many calls at a first look cost little, too few a second."""
    call_us = times.wall_ns / 1000 / calls
    return call_us / 2 if call_us < MOSTLY_HANDOVER_US else call_us


def _calls(trials: Trials, enough: float) -> int:
    """Calls in a block, as many as there may be at a time."""
    return max(1, min(_most(trials) // 2, math.ceil(enough)))


def _most(trials: Trials) -> int:
    """Input sets of a group: as many as have room, and as can be drawn in time."""
    return max(2, min(trials.slots, math.floor(DRAW_US / trials.draw_us)))


def _draw_round(score: Score, trials: Trials, lease: Lease, terms: Terms, spent_s: float) -> Round:
    """Fresh inputs for the groups of a round: for no more than there is time for.  A candidate that looks slow gets a
    short one, because it may be decided.

    Where memory allows no more than two groups in a round, calls are so long that only the first round is warmed up
    for."""
    reference_us, candidate_us = score.per_call_us
    wanted = ROUND_GROUPS
    if score.groups:
        in_time = math.ceil((terms.budget_s - spent_s) / spent_s * len(score.groups))
        wanted = max(1, min(wanted, max(in_time, statistics.RANK_FROM - len(score.groups))))
    elif candidate_us > 4 * reference_us:
        wanted = DECIDED_GROUPS
    calls = _reserve(score, trials, min(reference_us, candidate_us), SPREAD)
    most = max(2, terms.round_bytes // (2 * calls * trials.bytes_per_call))
    warmed = not score.groups or most > 2
    groups = [2 * calls] * min(wanted, most - warmed)
    drawn = []
    for slots in [calls, *groups] if warmed else groups:
        with score.beside(lease):
            drawn.append(trials.draw(slots))
    return Round(warming=drawn.pop(0) if warmed else None, groups=drawn)


def _stop_reason(score: Score, spent: float) -> str:
    """Why to stop, or nothing.  `spent`: share of the budget, which counts only while the device is ours alone; a group
    of which less than half fits into it is not begun."""
    ratios = score.ratios
    groups = len(ratios)
    if groups < 2:
        return ""
    found = statistics.interval(ratios)
    if groups >= DECIDED_GROUPS and found.centre < DECIDED and max(ratios) < DECIDED:
        return "decided"
    if groups >= statistics.RANK_FROM and found.half_width <= _wanted(score):
        return "precise"
    if groups >= MAX_GROUPS:
        return "groups"
    enough = groups >= statistics.RANK_FROM or spent >= OVERDRAFT
    return "budget" if spent + spent / groups / 2 >= 1 and enough else ""


def _canary(score: Score) -> Canary | None:
    """The worst that the canary showed while what counts was measured; None where there is none (CPU)."""
    if not score.health.expected_us:
        return None
    return Canary(
        expected_us=score.health.expected_us, before_us=score.canary_us[-2], after_us=score.canary_us[-1],
        repeats=score.repeats,
    )  # fmt: skip


def _wanted(score: Score) -> float:
    shortest = min(statistics.median(score.times_us(side)) for side in SIDES)
    return PRECISE_SHORT if shortest < SHORT_US else PRECISE


def _interval(score: Score) -> statistics.Interval:
    """Of the groups, and of what they have in common and do not show: how far each side's process may be off."""
    found = statistics.interval(score.ratios)
    walls = [
        statistics.median([block.wall_us for group in score.groups for block in group if block.side == side])
        for side in SIDES
    ]
    off = [math.hypot(HANDOVER_OFF_US / wall, PROCESS_OFF) for wall in walls]
    return statistics.widened(found, math.hypot(*off))


def _timing(score: Score, reason: str, floor_us: float) -> Timing:
    found = _interval(score)
    blocks = [block for group in score.groups for block in group]
    timed = [block for block in blocks if block.side == CANDIDATE]
    claimed = [block.claimed_us / block.calls for block in timed if block.claimed_us is not None]
    return Timing(
        reference_us=statistics.median(score.times_us(REFERENCE)),
        candidate_us=statistics.median(score.times_us(CANDIDATE)),
        speedup=math.exp(found.centre), ci_low=math.exp(found.low), ci_high=math.exp(found.high),
        groups=len(score.groups), calls_per_side=sum(block.calls for block in timed),
        handover_us=score.handover_us(REFERENCE), candidate_handover_us=score.handover_us(CANDIDATE),
        claimed_us=statistics.median(claimed), floor_us=floor_us, stop_reason=reason,
        blocks=(*score.handovers, *blocks), canary=_canary(score),
    )  # fmt: skip
