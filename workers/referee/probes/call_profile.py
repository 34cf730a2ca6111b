"""EVALUATE: profile of a call: its kernels and operators, as reported by the
candidate's process (testimony).

The candidate's own Triton kernels are timed between events while the call's work queues up on the
device, at almost no cost.  The driver's profiler also sees the library's kernels and those of CUDA
extensions.  On a GPU it runs for every candidate that claims kernels and has passed so far, after
timing, because it makes later launches of the process slower.  It sees several calls, and the call
with the median share of own kernels counts: other evaluations use the device meanwhile, and a
kernel that waits for its turn looks long.  Timers do not wait for the profiler, which takes 0.2 s
to start and to write its file, mostly on the host; they pause the process.  On the CPU device a
dispatch mode records the library's operators (workers/backends/recording/library_work.py).

Every profiled call has fresh inputs and is verified, so a candidate that detects the
profiler must still answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import NamedTuple

from app.domain.backend import OWN_ORIGINS
from app.domain.evaluation import Timing
from app.domain.evidence import KernelCode, Testimony
from app.domain.kernel_profile import KernelRow, Profile
from workers.protocol import kernel_code, launch_records, problem_spec
from workers.protocol.control_channel import Command
from workers.protocol.launch_records import Launch
from workers.referee.host import bandwidth
from workers.referee.probes import shared_products
from workers.referee.processes.process_handle import FailedError
from workers.referee.processes.process_session import Session
from workers.referee.session.batches import Times
from workers.referee.session.call_runner import CallRunner
from workers.referee.session.deadline import Deadline

LAUNCH_BOUND = 0.85
"""Share of a call's time: a call that keeps the device busy for less than this is launch-bound."""

BALANCED = 0.6
"""Share from which on the host and the device are about equally fast, and either may be the slower
one in another process.  Benchmarks of one kernel of 30 µs gave 0.69 to 1.03 for a truth of 1.0,
each with a narrow interval (H200).
"""

PROFILER_TIMEOUT_S = 60.0
"""Limit for the profiler and for reading its records, in seconds."""

PROFILED_CALLS, PROFILED_S = 5, 0.01
"""Most calls that the profiler sees, an odd number, and their total time in seconds.  Of long calls
one is enough: each meets other processes' turns on the device.
"""


def profile(
    runner: CallRunner, spec: problem_spec.ProblemSpec, bytes_per_s: float, *, full: bool
) -> tuple[Testimony, Profile, list[Launch]]:
    """Profile a candidate: launches in all calls and in one, the kernel table of one
    call, and its launches.

    All calls made here are verified.  The process's exceptions pass through; a failure of the
    driver's profiler is recorded and is no fault of the candidate.
    """
    account, total = _by_events(runner)
    alone, error = len(_own(account.seen)), None
    if full:
        try:
            account, total = _by_profiler(runner)
        except FailedError as failed:
            error = str(failed)[:500] or type(failed).__name__
    computing = account.computing
    table = Profile(
        kernels=_table(account.seen, modelled=runner.candidate.handle.device.type == "cpu"),
        calls=1,
        coverage_time=account.covered,
        coverage_count=len(_own(account.seen)) / len(computing) if computing else None,
        source=account.source,
        floor_us=bandwidth.floor_us(spec.bytes_moved, bytes_per_s),
        bytes_moved=spec.bytes_moved,
        flops=spec.work.flops,
        shared_products=shared_products.share(account.seen, spec.work.products),
        reference_rest_bytes=spec.work.rest_bytes,
        reference_rest_operators=spec.work.rest_operators,
        reference_bytes=spec.work.whole_bytes or None,
        reference_elementwise_bytes=spec.work.local_bytes,
        reference_head_bytes=spec.work.head_bytes,
        reference_tail_bytes=spec.work.tail_bytes,
        reference_chains=spec.work.chains,
        device_us=account.device_ns / 1000,
        profiler_error=error,
    )
    failures = () if _own(account.seen) else _caught(runner)
    return (
        Testimony(launches=total, launches_alone=alone, failures=failures),
        table,
        account.seen,
    )


class _Account(NamedTuple):
    """One call's work on the device."""

    source: str
    """`testimony` or `profiler`."""
    seen: list[Launch]
    device_ns: int
    covered: float | None
    """Share of the candidate's own kernels in it."""
    computing: Sequence[Launch] = ()
    """Launches of all kernels; none where only the candidate's own are seen."""


def _by_events(runner: CallRunner) -> tuple[_Account, int]:
    """Account of a call with its own launches timed between events, or with its work recorded on
    the CPU device; and the launches in all calls so far.
    """
    device_ns = _profiled(runner, 0)
    seen, total = _launches(runner.candidate, runner.time_limit_s(runner.candidate, 1))
    # The launches include work that another stream did before the call began.
    device_ns = max(device_ns, launch_records.busy_ns(seen))
    whole = sum(each.work_bytes for each in seen)
    own = sum(each.work_bytes for each in _own(seen))
    covered = _share(own, whole) if whole else _share(_busy_ns(seen), device_ns)
    return _Account("testimony", seen, device_ns, covered), total


def _by_profiler(runner: CallRunner) -> tuple[_Account, int]:
    """Account of the typical one of some calls under the driver's profiler, and the launches in all
    calls so far.  Raises FailedError where the profiler fails.
    """
    everything_ns = _profiled(runner, _calls_to_profile(runner))
    rows, total = _launches(runner.candidate, PROFILER_TIMEOUT_S)
    seen = typical(rows)
    computing = _computing(seen)
    device_ns = launch_records.busy_ns(seen) if rows else max(0, everything_ns)
    covered = _share(_busy_ns(seen), launch_records.busy_ns(computing))
    return _Account("profiler", seen, device_ns, covered, computing), total


def codes(runner: CallRunner) -> tuple[KernelCode, ...]:
    """Code of the kernels of the profiled call, after `profile`; empty if the
    process gives none.
    """
    candidate = runner.candidate
    try:
        texts, _ = candidate.ask(Command.CODE, runner.time_limit_s(candidate, 1))
        return kernel_code.read(candidate.handle.mailbox, texts)
    except FailedError:
        return ()


def _caught(runner: CallRunner) -> tuple[str, ...]:
    """Failures of kernels and extensions that the candidate's source caught."""
    candidate = runner.candidate
    _, text = candidate.ask_for_text(Command.CAUGHT, runner.time_limit_s(candidate, 1))
    return tuple(text.splitlines())


def _profiled(runner: CallRunner, by_profiler: int) -> int:
    """Make calls on fresh inputs and verify them; returns nanoseconds of device time of the
    first, as reported by the process.

    `by_profiler`: number of calls that the driver's profiler sees; 0 for one call whose own
    launches are timed between events.
    """
    candidate, count = runner.candidate, max(1, by_profiler)
    deadline = Deadline(PROFILER_TIMEOUT_S, PROFILER_TIMEOUT_S)
    timeout_s = deadline.allow() if by_profiler else runner.time_limit_s(candidate, 2)
    batch = runner.draw(count)
    runner.give_inputs(batch, 0, count)
    slot = runner.slot(batch, 0, count)
    with runner.device_lock.apart_meanwhile(candidate.process) if by_profiler else nullcontext():
        device_ns, _ = candidate.ask(Command.PROFILE, timeout_s, a=slot, b=by_profiler)
    runner.verify(runner.delivery(batch, 0, count, Times(0, 0), []))
    return device_ns


def _calls_to_profile(runner: CallRunner) -> int:
    """Number of calls to profile: 1, 3 … PROFILED_CALLS."""
    fit = int(
        min(
            PROFILED_CALLS, runner.in_block, PROFILED_S / max(1e-6, runner.quickest_s or PROFILED_S)
        )
    )
    return max(1, fit - 1 + fit % 2)


def typical(rows: Sequence[Launch]) -> list[Launch]:
    """Launches of the profiled call with the median share of own kernels; of two
    middle ones, the lower.
    """
    calls: dict[int, list[Launch]] = {}
    for row in rows:
        calls.setdefault(row.call, []).append(row)
    ordered = sorted(
        calls.values(),
        key=lambda call: _share(_busy_ns(call), launch_records.busy_ns(_computing(call))) or 0.0,
    )
    return ordered[(len(ordered) - 1) // 2] if ordered else []


def _computing(seen: Sequence[Launch]) -> list[Launch]:
    """Launches without transfers between host and device."""
    return [launch for launch in seen if launch.origin != "transfer"]


def marked_if_launch_bound(timing: Timing, profile: Profile) -> Timing:
    """The timing, with a mark if the candidate's calls are launch-bound.  If host and device are
    about equally fast, the interval is widened upwards: another process may be faster.

    The device time is testimony, so it moves no estimate.
    """
    if not profile.device_us or profile.device_us >= LAUNCH_BOUND * timing.candidate_us:
        return timing
    share = profile.device_us / timing.candidate_us
    ci_high = timing.ci_high / share if share >= BALANCED else timing.ci_high
    return replace(timing, launch_bound=True, ci_high=ci_high)


def _launches(candidate: Session, timeout_s: float) -> tuple[list[Launch], int]:
    rows, total = candidate.ask(Command.TESTIFY, timeout_s)
    return launch_records.read(candidate.handle.mailbox, rows), total


def _own(seen: Sequence[Launch]) -> list[Launch]:
    """Launches of the candidate's own kernels."""
    return [launch for launch in seen if launch.origin in OWN_ORIGINS]


def _busy_ns(seen: Sequence[Launch]) -> int:
    return launch_records.busy_ns(_own(seen))


def _share(own_ns: int, all_ns: int) -> float | None:
    return min(1.0, own_ns / all_ns) if all_ns else None


def _table(seen: Sequence[Launch], *, modelled: bool) -> tuple[KernelRow, ...]:
    """Rows of the kernel table, one per kernel, in the order of their first launch; grid and block
    are those of the first launch.
    """
    groups: dict[tuple[str, str], list[Launch]] = {}
    for launch in seen:
        groups.setdefault((launch.name, launch.origin), []).append(launch)
    return tuple(
        KernelRow(
            name=name,
            launches=len(group),
            total_us=sum(each.duration_ns for each in group) / 1000,
            custom=origin in OWN_ORIGINS,
            origin=origin,
            grid=group[0].grid,
            block=group[0].block,
            registers=group[0].registers,
            shared_bytes=group[0].shared_bytes,
            work_bytes=sum(each.work_bytes for each in group) if modelled else None,
        )
        for (name, origin), group in groups.items()
    )
