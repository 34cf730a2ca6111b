"""EVALUATE: set-up of both sides: sessions, memory layout, loading.  The reference's process may
serve several evaluations, the candidate has a process of its own.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager

from app.domain.backend import BACKENDS
from app.domain.job import Job
from workers.protocol import problem_spec
from workers.protocol.control_channel import AblationMode
from workers.referee.host import bandwidth
from workers.referee.host.device import Device
from workers.referee.host.device_lock import DeviceLock
from workers.referee.host.memory_budget import UNLIMITED
from workers.referee.processes.process_handle import ProcessHandle
from workers.referee.processes.process_session import Session
from workers.referee.resources import Resources
from workers.referee.session import memory_needs
from workers.referee.session.context import EvaluationContext
from workers.referee.session.deadline import REFERENCE_TIMEOUT_S, Deadline
from workers.referee.session.fault_attribution import AttributeToProblem
from workers.referee.session.record import CHECK_BYTES
from workers.referee.timing import sizing

EXPECTED_SHARE = 0.45
"""Share of an arena for expected outputs, in addition to the calls' memory, if they are
made when outputs are verified.
"""

FASTEST = 5.0
"""Speedup up to which the candidate's blocks reach their full duration; those of one that is
16 times as fast last a third of it.  Memory for faster candidates lies idle for all others: at
16, a transposed convolution of 3.4 ms with 0.5 GB a call would reserve 13 calls a side where
one makes a block, and eight such problems would wait for each other's memory for a third of a
sweep (KernelBench 2/61, H200).
"""

FEWEST_CALLS = 8
"""Calls in a block down to which an evaluation keeps to its share of the memory.  With 18 calls of
a softmax of 64 MB six of eight evaluations fitted on an H200, and the others waited for memory for
a quarter of their time; with five calls the bias of its speedup was 3 %.
"""

LARGEST_SHARE = 0.6
"""Share of the memory for evaluations that a single one may take; an evaluation that
needs more streams its calls.
"""

WAITING_S = 10.0
"""Additional seconds for a second process, which may wait while others are timed."""


def open_reference_session(job: Job, resources: Resources) -> Session:
    """A session with the reference's process, which has loaded the problem.  Raises
    Fault (invalid).
    """
    with (
        resources.device_lock.shared_at_first() as slow,
        AttributeToProblem(resources.references, None, resources.device),
    ):
        return resources.references.open_session(
            job.reference,
            job.entry_point,
            REFERENCE_TIMEOUT_S,
            by_cases=job.options.cases,
            slow=slow,
        )


def close_reference_session(resources: Resources, reference: Session) -> None:
    """Close the reference's session at the end of an evaluation."""
    with resources.device_lock.shared():
        resources.references.close_session(reference)


def lay_out(
    resources: Resources, spec: problem_spec.ProblemSpec, budget_s: float, least_slots: int = 2
) -> problem_spec.Arena:
    """Memory layout with as many input sets as an arena of this device holds and as
    a block can use.

    `least_slots`: input sets of a small problem, if an arena holds so many.
    """
    device = resources.device
    most = sizing.most_slots(device.max_slots, budget_s, device.block_us)
    if spec.case is None and spec.slot_bytes > device.together_bytes:
        block_us = sizing.block_us(budget_s, device.block_us)
        floor_us = max(
            bandwidth.floor_us(spec.bytes_moved, resources.bytes_per_s), spec.call_us / FASTEST
        )
        return _apart(spec, device, max(2, min(most // 2, sizing.calls(block_us, floor_us))))
    slots = max(2, min(max(most, least_slots), device.arena_bytes // max(1, spec.slot_bytes)))
    return problem_spec.arena(spec, problem_spec.Slots(slots, slots))


def _apart(spec: problem_spec.ProblemSpec, device: Device, most: int) -> problem_spec.Arena:
    """The layout of a problem whose expected outputs are made when outputs are
    verified: a call's memory holds its inputs and outputs only.  Calls are streamed if
    memory holds no more than one; a block has fewer of them if the evaluation then keeps
    to its share of the memory.
    """
    inputs = min(most, device.arena_bytes // (spec.input_bytes + spec.output_bytes))
    expected = int(device.arena_bytes * EXPECTED_SHARE) // spec.expected_bytes

    def arena(calls: int) -> problem_spec.Arena:
        slots = problem_spec.Slots(calls, max(1, min(calls - 1, expected)))
        return problem_spec.arena(spec, slots)

    largest = LARGEST_SHARE * (device.room_bytes or UNLIMITED)
    share = min(device.share_bytes or UNLIMITED, largest)
    for room_bytes, fewest in ((share, FEWEST_CALLS), (largest, 2)):
        for calls in range(inputs, fewest - 1, -1):
            found = arena(calls)
            need = memory_needs.of_evaluation(spec, found, device.round_bytes, CHECK_BYTES)
            if need <= room_bytes:
                return found
    return problem_spec.arena(spec, problem_spec.Slots(1, 0))


def load(
    candidate: Session,
    job: Job,
    reference: Session,
    spec: problem_spec.ProblemSpec,
    seed: bytes,
    deadline: Deadline,
    device_lock: DeviceLock,
) -> None:
    """Load the candidate: its source, then the arena with the reference's
    parameters, then the constructor.

    A source that is compiled on the host's cores, and a constructor that compiles it, may take as
    long as the deadline leaves; the device is open to others meanwhile.  Timers pause the process
    only if it keeps the device busy: a compiler that stood still during every block would take
    several times as long.
    """
    assert reference.arena is not None
    compiled = BACKENDS[job.backend].compiled_on_host
    loading_s = deadline.left_s if compiled else deadline.allow()
    with device_lock.apart(candidate.process, paused_after_s=math.inf):
        candidate.handle.load_candidate(
            job.candidate, spec, job.entry_point, job.backend, loading_s
        )
    arena = reference.arena
    candidate.share_arena(
        arena,
        arena.candidate_bytes,
        deadline.left_s if compiled else deadline.allow(),
        seed=init_seed(seed),
        prefix=reference.prefix,
        device_lock=device_lock,
    )


@contextmanager
def fresh_session(
    handle: ProcessHandle, context: EvaluationContext, *, silent: bool = False
) -> Iterator[tuple[Session, Deadline]]:
    """A session with another, fresh process that has loaded the candidate, and its deadline.  A
    cancellation kills that process and, afterwards, the first candidate again.  `silent`: the
    process never launches a kernel of the candidate.

    The caller does not hold the device's lock.  Waiting for a process with the lock would keep
    timers away, and a warm pool that makes contexts only while no timing runs would wait for those
    timers.  The process's exceptions pass through.
    """
    timeout_s = context.job.options.last_call_s
    deadline = Deadline(
        timeout_s + WAITING_S,
        timeout_s,
        context.cancellation,
        context.resources.device_lock.uncharged,
    )
    context.cancellation.set_process(handle.process)
    try:
        session = Session(handle)
        if silent:
            session.replace_launches(deadline.allow(), AblationMode.SILENT)
        load(
            session,
            context.job,
            context.runner.reference,
            context.spec,
            context.seed,
            deadline,
            context.resources.device_lock,
        )
        yield session, deadline
    finally:
        context.cancellation.set_process(context.runner.candidate.process)
        context.resources.candidates.retire(handle)


def init_seed(seed: bytes) -> bytes:
    """The seed under which both constructors run, so that parameters without a
    counterpart start with the same values. The candidate receives this seed; nothing
    about the inputs follows from it.
    """
    return hashlib.sha256(seed + b"init").digest()
