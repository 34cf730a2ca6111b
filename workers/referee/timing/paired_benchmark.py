"""Paired benchmark: ABBA groups of reference and candidate blocks on the referee's clock, until the
ratio is known.

measurements.py turns blocks into time per call, sizing.py chooses the number of calls, input sets
and groups, and stopping.py decides about groups.  Groups come in rounds: the inputs of a round are
drawn beforehand and its outputs are verified afterwards, while others may use the device; only the
blocks themselves run alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from app.domain.evaluation import Timing
from workers.referee.session import warmed_calls
from workers.referee.session.batches import Delivery
from workers.referee.session.call_runner import APART_S, CallRunner
from workers.referee.session.fault_attribution import disturbed
from workers.referee.timing import sizing, stopping
from workers.referee.timing.blocks import PROBES, probe, run_group, warm_up
from workers.referee.timing.measurements import Measurements
from workers.referee.timing.output_mapping import survey
from workers.referee.timing.quiet_host import QuietHost

MAX_REPEATS = 2
"""Restarts of a benchmark: a device that is disturbed three times is disturbed for longer."""
WORTHWHILE = 2.0
"""A benchmark with a wide interval is repeated if the remaining time is at least
this many times its duration.
"""

PATIENCE = 2.0
"""Multiple of the budget that drawing inputs and verifying outputs may take; after that six
groups are enough.  On the CPU device, where the reference's fp64 twin is no faster than the
reference, they are most of a benchmark.
"""


def run(
    runner: CallRunner,
    quiet_host: QuietHost,
    budget: sizing.TimingBudget,
    before: sizing.Guess,
    *,
    alone: bool = True,
) -> Timing | None:
    """Measure until the ratio is precise, decided or out of budget.  None as soon as
    a timed call is wrong.

    `alone`: no other evaluation uses the device, so whatever keeps it busy is this pair's, or
    another program's. Otherwise raises Fault (disturbed).  Also raises DeviceUnhealthyError,
    and the processes' exceptions.
    """
    measurements = Measurements(
        block_us=budget.block_us,
        health=quiet_host.health,
        guess_us=(before.reference_us, before.candidate_us),
        operators=warmed_calls.operators(runner.work) if quiet_host.health.expected_us else 0,
    )
    begun = time.monotonic()
    measurements.time_is_known = not sizing.may_be_short(measurements, runner)
    if not measurements.time_is_known and not _map_outputs(
        measurements, runner
    ):  # draws inputs, which also times a draw
        return None
    if measurements.time_is_known or not sizing.draws_are_cheap(runner):
        _measure_call_time(measurements, runner, quiet_host, known=before.known)
    spent_s = 0.0
    while _map_outputs(measurements, runner):
        round_ = sizing.draw_round(measurements, runner, budget, spent_s)
        with runner.exclusive(), quiet_host.prepared_for(runner):
            began = time.monotonic() - spent_s
            with runner.timed_by(quiet_host.stopwatch):
                reason = _run_groups(measurements, runner, round_, began, budget.budget_s)
            spent_s = time.monotonic() - began if measurements.groups else 0.0
        del round_  # its memory is needed for verifying, and for the next
        verify(measurements, runner)
        if runner.failed:
            return None
        if _is_doubtful(measurements, runner, reason, begun) and try_restart(measurements, runner):
            spent_s = 0.0
            continue
        if measurements.disturbed and not alone:
            raise disturbed()
        if (
            len(measurements.groups) >= stopping.ENOUGH_GROUPS
            and measurements.sharing_s >= PATIENCE * budget.budget_s
        ):
            reason = reason or "budget"
        if reason:
            quiet_host.health.note(measurements.canary_us[-1])
            return stopping.timing(measurements, reason, budget.floor_us)
    return None


def _measure_call_time(
    measurements: Measurements, runner: CallRunner, quiet_host: QuietHost, *, known: bool
) -> None:
    """Measure the time of a call with exclusive use of the device: beside other evaluations it
    may seem many times as long, and every block would be too short.  `known`: True if the
    reference's time is known already.
    """
    calls = sizing.probe_calls(measurements, runner, known=known)
    measurements.time_is_known = True
    if max(calls) == 1:
        return
    with runner.device_lock.shared():
        batch = runner.draw(min(runner.slots, PROBES * max(calls)))
    with runner.exclusive(), quiet_host.prepared_for(runner), runner.timed_by(quiet_host.stopwatch):
        probe(measurements, runner, batch, calls)
    verify(measurements, runner)


def _map_outputs(measurements: Measurements, runner: CallRunner) -> bool:
    """Map memory for the outputs of a block, if they can stay where they are computed.  False if
    the candidate gave a wrong answer.
    """
    if not measurements.groups:
        survey(runner, sizing.sessions_to_survey(measurements, runner))
    return not runner.failed


def _run_groups(
    measurements: Measurements,
    runner: CallRunner,
    round_: sizing.Round,
    began: float,
    budget_s: float,
) -> str:
    """Run the groups of a round between two canaries; returns the reason to stop, or "".
    The referee has the device alone.

    The first group may show that the assumed time of calls is wrong.  Then it does not count, once;
    if all other groups would be too short, the round ends as well.
    """
    measurements.run_canary()
    if round_.warming is not None and not measurements.time_is_known:
        measurements.time_is_known = True
        probe(measurements, runner, round_.warming, (round_.warming.slots // PROBES,) * 2)
    elif round_.warming is not None:
        warm_up(measurements, runner, round_.warming)
    reason = ""
    for group in round_.groups:
        measurements.groups.append(run_group(measurements, runner, group))
        if (
            len(measurements.groups) == 1 and not measurements.corrected and group.slots > 2
        ):  # else there is nothing to choose
            short = sizing.too_short(measurements, runner, round_.groups)
            if short or measurements.misjudged:
                measurements.correct()
            if short:
                break
            continue
        if reason := stopping.stop_reason(
            measurements, (time.monotonic() - began) / budget_s, budget_s
        ):
            break
    measurements.run_canary()
    return reason


def _is_doubtful(measurements: Measurements, runner: CallRunner, reason: str, begun: float) -> bool:
    """Test whether another program used the device, or the benchmark ended without a usable result
    and there is time for another.
    """
    left = runner.deadline.left_s > WORTHWHILE * (time.monotonic() - begun)
    return measurements.disturbed or (left and stopping.is_vague(measurements, reason))


def try_restart(measurements: Measurements, runner: CallRunner) -> bool:
    """Discard the measurements and wait until first calls of other candidates have ended; False,
    without doing so, after MAX_REPEATS.
    """
    if measurements.repeats >= MAX_REPEATS:
        return False
    measurements.start_again()
    runner.device_lock.wait_for_apart(min(APART_S, runner.deadline.left_s / 2))
    return True


def verify(measurements: Measurements, runner: CallRunner) -> None:
    """Verify the outputs delivered in blocks, some calls at a time, since no timing
    can run meanwhile.
    """
    for some in _groups_to_verify(measurements.deliveries, runner.record.calls_at_once):
        with measurements.sharing(runner.device_lock):
            runner.verify(*some)
    measurements.deliveries.clear()


def _groups_to_verify(deliveries: list[Delivery], calls: int) -> Iterator[list[Delivery]]:
    """Deliveries in groups of about `calls` calls, each verified at once."""
    bundle: list[Delivery] = []
    for delivery in deliveries:
        bundle.append(delivery)
        if sum(each.count for each in bundle) >= calls:
            yield bundle
            bundle = []
    if bundle:
        yield bundle
