"""Paired benchmark: ABBA groups of reference and candidate blocks on the referee's clock, until the ratio is known.

samples.py turns blocks into time per call, sizing.py chooses the number of calls, input sets and groups, and
stopping.py decides about groups.  Groups come in rounds: the inputs of a round are drawn beforehand and its outputs are
verified afterwards, while others may use the device; only the blocks themselves run alone."""

from __future__ import annotations

import time
from collections.abc import Iterator

from app.domain.evaluation import Timing
from workers.referee.session.batches import Delivery
from workers.referee.session.call_runner import CallRunner
from workers.referee.timing import sizing, stopping
from workers.referee.timing.blocks import PROBES, hold, probe, warm_up
from workers.referee.timing.output_mapping import survey
from workers.referee.timing.quiet_host import Venue
from workers.referee.timing.samples import Score

MAX_REPEATS = 2
DISTURBED_S = 40.0
"""Seconds for which a disturbed benchmark waits for first calls to end.  First calls of other candidates use the device
without a lock, and one that hangs is ended by its time limit."""

WORTHWHILE = 2.0
"""A benchmark with a wide interval is repeated if the remaining time is at least this many times its duration."""

PATIENCE = 2.0
"""Multiple of the budget that drawing inputs and verifying outputs may take; after that six groups are enough.  On the
CPU device, where the reference's fp64 twin is no faster than the reference, they are most of a benchmark."""


def run(runner: CallRunner, place: Venue, terms: sizing.Terms, before: sizing.Guess) -> Timing | None:
    """Measure until the ratio is precise, decided or out of budget.  None as soon as a timed call is wrong.

    Raises DeviceUnhealthyError, and the processes' exceptions."""
    score = Score(block_us=terms.block_us, health=place.health, guess_us=(before.reference_us, before.candidate_us))
    begun = time.monotonic()
    score.found_out = not sizing.seem_short(score, runner)
    if not score.found_out and not _make_room(score, runner):  # draws inputs, which also times a draw
        return None
    if score.found_out or not sizing.are_cheap(runner):
        _find_out(score, runner, place, known=before.known)
    spent_s = 0.0
    while _make_room(score, runner):
        round_ = sizing.draw_round(score, runner, terms, spent_s)
        with runner.exclusive(), place.alone(runner):
            began = time.monotonic() - spent_s
            with runner.timed_by(place.stopwatch):
                reason = _hold_round(score, runner, round_, began, terms.budget_s)
            spent_s = time.monotonic() - began if score.groups else 0.0
        del round_  # its memory is needed for verifying, and for the next
        verify(score, runner)
        if runner.failed:
            return None
        if _is_doubtful(score, runner, reason, begun) and tried_again(score, runner):
            spent_s = 0.0
            continue
        if len(score.groups) >= stopping.ENOUGH_GROUPS and score.beside_s >= PATIENCE * terms.budget_s:
            reason = reason or "budget"
        if reason:
            place.health.note(score.canary_us[-1])
            return stopping.timing(score, reason, terms.floor_us)
    return None


def _find_out(score: Score, runner: CallRunner, place: Venue, *, known: bool) -> None:
    """Measure the time of a call with the device to itself: among others it may seem many times as long, and every
    block would be too short.  `known`: the reference's time is."""
    calls = sizing.looks(score, runner, known=known)
    score.found_out = True
    if max(calls) == 1:
        return
    with runner.device_lock.shared():
        batch = runner.draw(min(runner.slots, PROBES * max(calls)))
    with runner.exclusive(), place.alone(runner), runner.timed_by(place.stopwatch):
        probe(score, runner, batch, calls)
    verify(score, runner)


def _make_room(score: Score, runner: CallRunner) -> bool:
    """Map memory for the outputs of a block, if they can stay where they are computed.  False if the candidate gave a
    wrong answer."""
    if not score.groups:
        survey(runner, sizing.wanting(score, runner))
    return not runner.failed


def _hold_round(score: Score, runner: CallRunner, round_: sizing.Round, began: float, budget_s: float) -> str:
    """Run the groups of a round between two canaries; returns the reason to stop, or "".  The referee has the device
    alone.

    The first group may show that the assumed time of calls is wrong.  Then it does not count, once; if all other groups
    would be too short, the round ends as well."""
    score.watch()
    if round_.warming is not None and not score.found_out:
        score.found_out = True
        probe(score, runner, round_.warming, (round_.warming.slots // PROBES,) * 2)
    elif round_.warming is not None:
        warm_up(score, runner, round_.warming)
    reason = ""
    for group in round_.groups:
        score.groups.append(hold(score, runner, group))
        if len(score.groups) == 1 and not score.corrected and group.slots > 2:  # else there is nothing to choose
            short = sizing.too_short(score, runner, round_.groups)
            if short or score.misjudged:
                score.correct()
            if short:
                break
            continue
        if reason := stopping.stop_reason(score, (time.monotonic() - began) / budget_s, budget_s):
            break
    score.watch()
    return reason


def _is_doubtful(score: Score, runner: CallRunner, reason: str, begun: float) -> bool:
    """Test whether another program used the device, or the benchmark ended without a usable result and there is time
    for another."""
    left = runner.deadline.left_s > WORTHWHILE * (time.monotonic() - begun)
    return score.disturbed or (left and stopping.is_vague(score, reason))


def tried_again(score: Score, runner: CallRunner) -> bool:
    """Start again once that is possible; False after too many repeats."""
    if score.repeats >= MAX_REPEATS:
        return False
    score.start_again()
    runner.device_lock.wait_for_those_apart(min(DISTURBED_S, runner.deadline.left_s / 2))
    return True


def verify(score: Score, runner: CallRunner) -> None:
    """Verify the outputs delivered in blocks, some calls at a time, since no timing can run meanwhile."""
    for some in _bundles(score.deliveries, runner.record.calls_at_once):
        with score.beside(runner.device_lock):
            runner.verify(*some)
    score.deliveries.clear()


def _bundles(deliveries: list[Delivery], calls: int) -> Iterator[list[Delivery]]:
    """Deliveries in groups of about `calls` calls, each verified at once: no timing can run meanwhile."""
    bundle: list[Delivery] = []
    for delivery in deliveries:
        bundle.append(delivery)
        if sum(each.count for each in bundle) >= calls:
            yield bundle
            bundle = []
    if bundle:
        yield bundle
