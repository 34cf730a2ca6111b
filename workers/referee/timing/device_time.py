"""The speedup by the device's own time: calls are replayed from CUDA graphs, which
leaves the host's launching out.

A replayed block follows the rules of every timed block: the referee writes fresh inputs into the
input slots on which the graphs were recorded, the process is frozen until the clock starts, and the
outputs are compared.  A block replays a secret number of graphs, each of them once, so no call has
inputs that an earlier call had.  Hence the process's claim to have recorded its calls needs no
trust: a graph without the work gives the outputs for earlier inputs.

This stage runs after everything that is credited; if it fails, only its own value is missing.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import torch

from app.domain.evaluation import Block, Timing
from app.domain.other_timings import ERROR_CHARS, DeviceTiming
from workers.protocol import problem_spec, shared_memory
from workers.protocol.control_channel import POINTERS_BYTES, AblationMode, Command, Delivering
from workers.referee.processes.process_handle import PROCESS_ERRORS
from workers.referee.processes.process_session import Session
from workers.referee.session.batches import Batch, Delivery, Times
from workers.referee.session.call_runner import CallRunner
from workers.referee.session.context import EvaluationContext
from workers.referee.session.reference_side import ReferenceFailedError
from workers.referee.timing import sizing, stopping
from workers.referee.timing.blocks import ORDER, as_block, hand_over, secret_size
from workers.referee.timing.measurements import CANDIDATE, REFERENCE, Measurements, per_call
from workers.referee.timing.output_mapping import map_in_place
from workers.referee.timing.paired_benchmark import PATIENCE, try_restart
from workers.referee.timing.quiet_host import QuietHost

GRAPHS = (4, 6)
"""Least and greatest number of graphs of a side: their number in a block is secret."""

GRAPH_CALLS = 100
"""Least calls of a graph if there are more than the least number of graphs: starting a graph takes
some microseconds of the host, as long as a short call.
"""

SLOTS = 1024
"""Input slots of a small problem: a block of half as many calls of 2 µs lasts a millisecond, which
is long against the hand-over's jitter (some 60 µs on an H200).
"""

HOST_SHARE = 8.0
"""Factor by which calls are assumed to be shorter than by the wall clock when graphs are sized, so
that blocks are long enough without launch overhead.
"""

WORTHWHILE = 4.0
"""Multiple of the timing budget that must be left of the deadline."""

CHECKED = 2
"""Secretly chosen calls of a block that are compared, where expected outputs are
made when outputs are verified.
"""

SHORT_US, SHORT_ERROR, ERROR = 10.0, 0.15, 0.07
"""Relative difference from graphs of one process that replay calls on the same outputs, for calls
that take less than SHORT_US microseconds on either side and for others: here each call has memory
of its own, and short kernels have gaps between graphs.  Ratios were 5 to 13 % lower below 10 µs, 3
to 6 % above (five pairs, 40 evaluations, H200).
"""


class _NoValueError(Exception):
    """Error: the device-time speedup cannot be measured; the message is the reason."""


@dataclass(frozen=True, kw_only=True)
class _Graphs:
    """Graphs of one side."""

    calls: int
    """Calls of each."""
    number: int

    @property
    def most(self) -> int:
        """Calls of a block that takes all of them."""
        return self.calls * self.number

    def enough(self, calls: float) -> int:
        """Number of calls in the fewest graphs that have at least so many calls; of
        all graphs if those have fewer.
        """
        return self.calls * max(1, min(self.number, math.ceil(calls / self.calls)))

    def within(self, calls: int) -> int:
        """Number of graphs with at most so many calls; at least one."""
        return max(1, min(self.number, calls // self.calls))


def extra_bytes(spec: problem_spec.ProblemSpec, arena: problem_spec.Arena) -> int:
    """Bytes of device memory needed for graphs, beyond those of the evaluation: the reference's
    process keeps the memory that it used for timed blocks.
    """
    return arena.inputs.slots * arena.outputs.slot_bytes + 2 * spec.peaks.call_bytes


def added(
    timing: Timing, context: EvaluationContext, quiet_host: QuietHost, budget: sizing.TimingBudget
) -> Timing:
    """The same timing with the device-time speedup in it, or with the reason why there is none.

    Raises only for faults of the referee."""
    runner, error = context.runner, ""
    try:
        return replace(
            timing, device=_as_device_timing(_measured(timing, runner, quiet_host, budget))
        )
    except _NoValueError as reason:
        error = str(reason)
    except ReferenceFailedError as failure:
        context.resources.references.discard(runner.reference.handle)
        error = f"the reference could not be captured and replayed: {failure}"
    except PROCESS_ERRORS as failure:
        error = (
            "the candidate could not be captured and replayed:"
            f" {str(failure) or 'no answer in time'}"
        )
    except (torch.OutOfMemoryError, shared_memory.OutOfDeviceMemoryError):
        error = "the device's memory ran out"
    finally:
        runner.candidate.delivering = runner.reference.delivering = Delivering.COPY
    return replace(timing, device=DeviceTiming(error=error[:ERROR_CHARS]))


def _as_device_timing(found: Timing) -> DeviceTiming:
    off = 1 + (SHORT_ERROR if min(found.reference_us, found.candidate_us) < SHORT_US else ERROR)
    return DeviceTiming(
        reference_us=found.reference_us,
        candidate_us=found.candidate_us,
        speedup=found.speedup,
        ci_low=found.ci_low / off,
        ci_high=found.ci_high * off,
        groups=found.groups,
        calls_per_side=found.calls_per_side,
    )


def _measured(
    timing: Timing, runner: CallRunner, quiet_host: QuietHost, budget: sizing.TimingBudget
) -> Timing:
    """Benchmark with replayed blocks.  Raises _NoValueError, and the processes' exceptions."""
    if not runner.surveys:
        raise _NoValueError("CUDA graphs need a GPU")
    if runner.streams:
        raise _NoValueError("memory holds a single call, whose inputs are drawn when it is made")
    if any(leaf["kind"] != "tensor" for leaf in runner.arena.inputs.leaves):
        raise _NoValueError("numbers among the inputs, which a graph would not read again")
    _require_time(runner, budget)
    measurements = Measurements(
        block_us=budget.block_us,
        health=quiet_host.health,
        guess_us=(timing.reference_us, timing.candidate_us),
    )
    graphs = {
        REFERENCE: _plan(runner, budget.block_us / timing.reference_us),
        CANDIDATE: _plan(runner, budget.block_us / timing.candidate_us),
    }
    seen = _capture_both(runner, graphs)
    return _benchmark(measurements, runner, quiet_host, budget, graphs, seen)


def _require_time(runner: CallRunner, budget: sizing.TimingBudget) -> None:
    if runner.deadline.left_s < WORTHWHILE * budget.budget_s:
        raise _NoValueError("no time was left")


def _plan(runner: CallRunner, filling: float) -> _Graphs:
    """Number and size of a side's graphs.  `filling`: calls that fill a block by the wall clock."""
    leaves = max(1, len(runner.arena.outputs.leaves))
    most = min(sizing.inputs_at_once(runner) // 2, runner.in_block, POINTERS_BYTES // 8 // leaves)
    wanted = max(1, min(most, math.ceil(HOST_SHARE * filling)))
    number = min(wanted, max(GRAPHS[0], min(GRAPHS[1], wanted // GRAPH_CALLS)))
    return _Graphs(calls=wanted // number, number=number)


def _capture_both(runner: CallRunner, graphs: dict[str, _Graphs]) -> Batch:
    """Have both sides record their calls in the same way: with outputs in place or, if
    the candidate's outputs cannot be read there, with copies of them.  Returns the
    inputs on which they were recorded.

    The candidate records first: a failure then does not touch the reference's
    process, which serves others.
    """
    with runner.device_lock.shared():
        batch = replace(runner.draw(max(each.most for each in graphs.values())), at=0)
        runner.candidate.replace_launches(
            runner.time_limit_s(runner.candidate, 1), AblationMode.HONEST
        )
    runner.candidate.handle.unmap_segments()
    delivering = Delivering.CAPTURE
    addresses = _capture(runner, runner.candidate, batch, graphs[CANDIDATE], delivering)
    with runner.device_lock.shared():
        is_mapped = map_in_place(runner, runner.candidate, addresses, graphs[CANDIDATE].most)
    if not is_mapped:
        delivering = Delivering.COPY
        _capture(runner, runner.candidate, batch, graphs[CANDIDATE], delivering)
    _capture(runner, runner.reference, batch, graphs[REFERENCE], delivering)
    runner.candidate.delivering = runner.reference.delivering = Delivering.REPLAY
    return batch


def _capture(
    runner: CallRunner, session: Session, batch: Batch, graphs: _Graphs, delivering: Delivering
) -> list[int]:
    """Have one side record its calls; returns the addresses of their outputs, call by call."""
    addresses: list[int] = []
    for first in range(0, graphs.most, graphs.calls):
        runner.yield_to_timers()
        with (
            runner.device_lock.shared(),
            runner.side_of(session),
            session.handle.lock,
        ):
            limit_s = runner.time_limit_s(session, 2 * graphs.calls)
            if not first:
                session.ask(Command.CAPTURE, limit_s)
                runner.fill(session, batch, 0, graphs.most)
            session.ask(Command.CAPTURE, limit_s, a=first, b=graphs.calls, c=delivering)
            addresses += session.pointers(graphs.calls)
            session.process.freeze()
    return addresses


def _benchmark(
    measurements: Measurements,
    runner: CallRunner,
    quiet_host: QuietHost,
    budget: sizing.TimingBudget,
    graphs: dict[str, _Graphs],
    seen: Batch,
) -> Timing:
    """Rounds of groups, until the ratio is known or the budget is spent."""
    spent_s = 0.0
    with runner.exclusive(), quiet_host.prepared_for(runner), runner.timed_by(quiet_host.stopwatch):
        _warm_up(measurements, runner, graphs, seen)
    while True:
        _require_time(runner, budget)
        drawn = list(_draw(measurements, runner, budget, graphs, spent_s))
        with (
            runner.exclusive(),
            quiet_host.prepared_for(runner),
            runner.timed_by(quiet_host.stopwatch),
        ):
            began = time.monotonic() - spent_s
            measurements.run_canary()
            reason = ""
            for batch in drawn:
                measurements.groups.append(_run_group(measurements, runner, graphs, batch))
                spent_s = time.monotonic() - began
                reason = reason or stopping.stop_reason(
                    measurements, spent_s / budget.budget_s, budget.budget_s
                )
                if reason:
                    break
            measurements.run_canary()
        del drawn
        _verify(measurements, runner)
        if measurements.disturbed and try_restart(measurements, runner):
            spent_s = 0.0
            continue
        if (
            len(measurements.groups) >= stopping.ENOUGH_GROUPS
            and measurements.sharing_s >= PATIENCE * budget.budget_s
        ):
            reason = reason or "budget"
        if reason:
            return stopping.timing(measurements, reason, budget.floor_us)


def _draw(
    measurements: Measurements,
    runner: CallRunner,
    budget: sizing.TimingBudget,
    graphs: dict[str, _Graphs],
    spent_s: float,
) -> Iterator[Batch]:
    """Fresh inputs for the groups of a round, two blocks each: for no more groups
    than there is time and memory for.
    """
    calls = max(
        each.enough(sizing.SPREAD * measurements.lasting_us / us)
        for each, us in zip(
            (graphs[REFERENCE], graphs[CANDIDATE]), measurements.per_call_us, strict=True
        )
    )
    wanted = sizing.ROUND_GROUPS
    if measurements.groups:
        in_time = math.ceil((budget.budget_s - spent_s) / spent_s * len(measurements.groups))
        wanted = min(wanted, max(in_time, stopping.ENOUGH_GROUPS - len(measurements.groups)))
    fitting = budget.round_bytes // (2 * calls * runner.bytes_per_call)
    for _ in range(max(1, min(wanted, fitting))):
        with measurements.sharing(runner.device_lock):
            yield runner.draw(2 * calls)


def _warm_up(
    measurements: Measurements, runner: CallRunner, graphs: dict[str, _Graphs], seen: Batch
) -> None:
    """Run an uncounted block of each side, on inputs that were seen before, and
    estimate the time of a call from it.
    """
    guess_us = {}
    for side in (CANDIDATE, REFERENCE):
        calls = graphs[side].most
        wall_us = _run(measurements, runner, side, seen, 0, calls).wall_ns / 1000
        guess_us[side] = per_call(wall_us, measurements.handover_us(side), calls)
    measurements.guess_us = (guess_us[REFERENCE], guess_us[CANDIDATE])
    measurements.deliveries.clear()


def _run_group(
    measurements: Measurements, runner: CallRunner, graphs: dict[str, _Graphs], batch: Batch
) -> list[Block]:
    """A group: reference, candidate, candidate, reference."""
    sizes = _sizes(measurements, graphs, batch.slots // 2)
    found = []
    for side, position in ORDER:
        calls = sizes[side][position]
        times = _run(measurements, runner, side, batch, position * sizes[side][0], calls)
        found.append(as_block(len(measurements.groups), side, calls, times))
    return [replace(block, **asdict(measurements.clocks)) for block in found]


def _sizes(
    measurements: Measurements, graphs: dict[str, _Graphs], most: int
) -> dict[str, list[int]]:
    """Secret numbers of calls for both blocks of each side, in whole graphs and at most `most`; the
    reference's blocks last about as long.
    """
    reference_us, candidate_us = measurements.per_call_us
    own, other = graphs[CANDIDATE], graphs[REFERENCE]
    enough = measurements.lasting_us / (candidate_us * own.calls)
    chosen = [own.calls * secret_size(enough, own.within(most)) for _ in range(2)]
    alike = [round(calls * candidate_us / (reference_us * other.calls)) for calls in chosen]
    return {
        CANDIDATE: chosen,
        REFERENCE: [other.calls * max(1, min(other.within(most), each)) for each in alike],
    }


def _run(
    measurements: Measurements, runner: CallRunner, side: str, batch: Batch, first: int, calls: int
) -> Times:
    """Replay one block, after a hand-over; the candidate's outputs are verified later."""
    hand_over(measurements, runner, side)
    some = replace(
        batch.only(list(range(first, first + calls))), at=0
    )  # where the first graph reads
    if side == REFERENCE:
        return runner.run_reference(some, 0, calls)
    delivery = runner.run_candidate(some, 0, calls)
    measurements.deliveries.append(delivery)
    return delivery.times


def _verify(measurements: Measurements, runner: CallRunner) -> None:
    """Compare outputs of the blocks.  Raises _NoValueError if one is wrong."""
    for delivery in measurements.deliveries:
        for part in _chosen(runner, delivery):
            with measurements.sharing(runner.device_lock):
                right = runner.are_right(part)
            if not all(right):
                raise _NoValueError(
                    "the candidate's replayed outputs are wrong: a graph holds the work that is"
                    " launched on torch's current stream, and no work of Python"
                )
    measurements.deliveries.clear()


def _chosen(runner: CallRunner, delivery: Delivery) -> Iterator[Delivery]:
    """Parts of a block to compare: the whole block if its expected outputs are
    known, else some of its calls.
    """
    if runner.arena.slots.together:
        yield delivery
        return
    for _ in range(min(CHECKED, delivery.count)):
        call = secrets.randbelow(delivery.count)
        yield delivery.part(call, call + 1)
