"""EVALUATE: where one call's time went, by the account of the candidate's process: testimony, and marked as such.

By default its own Triton kernels are timed between events while the call's work queues up on the device, which costs
next to nothing.  The driver's profiler sees everything, the library's kernels and those of CUDA extensions, too.  It is
one call more and a start of some 70 ms (H200), and used where it is asked for or nothing else can tell."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.evaluation import Testimony
from app.domain.profile import KernelRow, Profile
from workers import launches, spec
from workers.launches import Launch
from workers.referee import roofline
from workers.referee.deadline import Deadline
from workers.referee.party import FailedError, Seat
from workers.referee.trials import Trials
from workers.sandbox.confined import Ended, TimedOut
from workers.wire import Command

LAUNCH_BOUND = 0.6
"""A call whose work takes the device less than this share of the time that the call takes is bound by the host."""

PROFILER_TIMEOUT_S = 60.0
"""For it and for what it saw, in seconds."""


def profile(
    trials: Trials, agreed: spec.Spec, bytes_per_s: float, *, full: bool
) -> tuple[Testimony, Profile, list[Launch]]:
    """One more call: how many launches in all calls so far and in this one, the kernel table, and each launch.

    Raises what the party raises.  That the driver's profiler fails is no fault of the candidate's."""
    candidate = trials.candidate
    batch = trials.draw(1)
    trials.show(batch, 0, 1)
    device_ns, _ = candidate.ask(Command.PROFILE, trials.patience(candidate, 2), a=trials.slot(batch, 0, 1))
    seen, total = _launches(candidate, trials.patience(candidate, 1))
    device_ns = max(
        device_ns, launches.busy_ns(seen)
    )  # what another stream did before the call's own began counts, too
    testimony = Testimony(launches=total, launches_alone=len(_own(seen)))
    computing: list[Launch] = []
    source, error, covered = "testimony", None, _share(_busy_ns(seen), device_ns)
    if full:
        deadline = Deadline(PROFILER_TIMEOUT_S, PROFILER_TIMEOUT_S)
        try:
            everything_ns, _ = candidate.ask(Command.PROFILE, deadline.allow(), a=trials.slot(batch, 0, 1), b=1)
            seen, _ = _launches(candidate, deadline.allow())
            source, device_ns = "profiler", everything_ns
            computing = [launch for launch in seen if launch.origin != "transfer"]
            covered = _share(_busy_ns(seen), launches.busy_ns(computing))
        except (FailedError, Ended, TimedOut, ValueError) as failed:
            error = str(failed)[:500] or type(failed).__name__
    own = _own(seen)
    table = Profile(
        kernels=_table(seen), calls=1, coverage_time=covered,
        coverage_count=len(own) / len(computing) if computing else None, source=source,
        floor_us=roofline.floor_us(agreed.bytes_moved, bytes_per_s), bytes_moved=agreed.bytes_moved, flops=agreed.flops,
        device_us=device_ns / 1000, profiler_error=error,
    )  # fmt: skip
    return testimony, table, seen


def is_launch_bound(profile: Profile, call_us: float) -> bool:
    """Whether a call of `call_us` mostly waits for the host, which launches more slowly than the device works."""
    return profile.device_us is not None and profile.device_us < LAUNCH_BOUND * call_us


def _launches(candidate: Seat, timeout_s: float) -> tuple[list[Launch], int]:
    rows, total = candidate.ask(Command.TESTIFY, timeout_s)
    return launches.read(candidate.party.mailbox, rows), total


def _own(seen: Sequence[Launch]) -> list[Launch]:
    """Of kernels that the candidate brought."""
    return [launch for launch in seen if launch.origin in launches.OWN]


def _busy_ns(seen: Sequence[Launch]) -> int:
    return launches.busy_ns(_own(seen))


def _share(own_ns: int, all_ns: int) -> float | None:
    return min(1.0, own_ns / all_ns) if all_ns else None


def _table(seen: Sequence[Launch]) -> tuple[KernelRow, ...]:
    """Launches of one kernel together, in the order in which they first came; sizes are those of the first."""
    groups: dict[tuple[str, str], list[Launch]] = {}
    for launch in seen:
        groups.setdefault((launch.name, launch.origin), []).append(launch)
    return tuple(
        KernelRow(
            name=name, launches=len(group), total_us=sum(each.duration_ns for each in group) / 1000,
            custom=origin in launches.OWN, origin=origin, grid=group[0].grid, block=group[0].block,
            registers=group[0].registers, shared_bytes=group[0].shared_bytes,
        )
        for (name, origin), group in groups.items()
    )  # fmt: skip
