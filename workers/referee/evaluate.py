"""EVALUATE: one job, from source to Evaluation.

A candidate's fault ends as a status, a problem's fault as `invalid`, a fault of the
referee as an exception.
"""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from enum import Enum

import torch

from app.domain.evaluation import Evaluation, Status
from app.domain.evidence import Traces
from app.domain.job import Job
from workers.protocol import exhausted_memory
from workers.protocol.problem_spec import Arena, ProblemSpec
from workers.referee import admission, candidate_stages, shortages
from workers.referee.cancellation import Cancellation
from workers.referee.conclusion import conclude
from workers.referee.processes.process_session import Session
from workers.referee.progress import Progress
from workers.referee.resources import Resources
from workers.referee.session import memory_needs, setup
from workers.referee.session.deadline import REFERENCE_TIMEOUT_S, Deadline
from workers.referee.session.fault_attribution import (
    AttributeToProblem,
    Fault,
    invalid,
    is_out_of_memory,
    may_lack_memory,
    no_room,
    too_large,
)
from workers.referee.session.record import CHECK_BYTES
from workers.referee.session.reference_side import ReferenceFailedError
from workers.referee.session.stage_timer import Stages
from workers.referee.timing import device_time

_log = logging.getLogger(__name__)

AVAILABLE_SHARE = 0.9
"""Share of the memory for evaluations below which a lack of memory says nothing of the problem."""


class Room(Enum):
    """Device memory that an attempt reserves."""

    ONCE = "as much as it needs"
    TWICE = "twice the memory"
    ALONE = "all memory"
    """Such an attempt waits until every other evaluation has ended, and no other begins before it:
    in a sweep of KernelBench four such waits took a minute of seven (H200, eight slots).
    """

    @property
    def times(self) -> int:
        """Multiple of what is needed that is reserved once this is known; an attempt alone has
        reserved all memory by then.
        """
        return {Room.ONCE: 1, Room.TWICE: 2, Room.ALONE: 0}[self]


def evaluate(
    job: Job,
    resources: Resources,
    cancellation: Cancellation | None = None,
    seed: bytes | None = None,
) -> tuple[Evaluation, Traces]:
    """The evaluation of a job and its traces; after a cancellation, the part that
    was measured by then.

    `seed`: master seed of 32 bytes, drawn if None.  If memory runs out, or the device is never at
    rest, while other evaluations use it, the cause is unknown, and the evaluation is repeated:
    among others with more memory if not the candidate's process lacked it, then with the device's
    whole memory.

    Raises only for faults of the referee (ZygoteError, OSError,
    DeviceUnhealthyError, torch.OutOfMemoryError).
    """
    cancellation = cancellation or Cancellation()
    room = Room.ONCE
    progress, fault = _attempt(job, resources, cancellation, seed, room=room)
    while fault is not None and (more := _room_to_repeat(room, progress, fault)) is not None:
        room = more
        _log.warning("job %s: once more with %s: %s", job.job_id, room.value, fault.error.message)
        del progress, fault  # frees the tensors of this attempt for the next one
        progress, fault = _attempt(job, resources, cancellation, seed, room=room)
    if fault is not None and fault.out_of_memory:
        fault = _attribute_exhausted_memory(fault, progress)
    evaluation = conclude(progress, fault)
    blocks = evaluation.timing.blocks if evaluation.timing else ()
    timeline = progress.stages.chrome_trace(blocks, progress.launches)
    return evaluation, Traces(timeline=timeline, codes=progress.codes)


def _room_to_repeat(room: Room, progress: Progress, fault: Fault) -> Room | None:
    """Memory for one more attempt after one with `room`; None if there is to be none.

    If the candidate's process ran out of memory, it may hold more than it reserved, which others
    then lack: it has the device to itself at once.
    """
    repeats = fault.out_of_memory or fault.disturbed
    if not (progress.shares_memory and repeats) or progress.cancellation.requested:
        return None
    is_others = fault.out_of_memory and fault.status is not Status.OUT_OF_MEMORY
    return Room.TWICE if room is Room.ONCE and is_others else Room.ALONE


def _attribute_exhausted_memory(fault: Fault, progress: Progress) -> Fault:
    """The fault of an evaluation that ran out of memory with the device to itself.  It is the
    candidate's if the candidate had more memory than the reference needs; otherwise the
    problem is too large for this device, unless references of waiting evaluations, or other
    programs, had much of the memory.
    """
    spec, resources = progress.spec, progress.resources
    total_bytes = resources.memory_budget.total_bytes
    if total_bytes is None:
        return fault
    available_bytes = (
        total_bytes
        if progress.available_bytes is None
        else min(total_bytes, progress.available_bytes)
    )
    why = fault.error.message
    if fault.status is Status.OUT_OF_MEMORY and spec is not None:
        if shortages.has_enough(resources, spec, available_bytes):
            return fault
        left = shortages.left_bytes(resources, spec, available_bytes)
        why = f"beside the reference, a candidate has {max(0, left):,} bytes"
    if available_bytes < AVAILABLE_SHARE * total_bytes:
        return no_room(why, total_bytes, available_bytes, fault.error.log)
    return too_large(why, total_bytes, fault.error.log)


def _attempt(
    job: Job, resources: Resources, cancellation: Cancellation, seed: bytes | None, *, room: Room
) -> tuple[Progress, Fault | None]:
    """Progress of one attempt, and the fault that ended it."""
    shares_memory = resources.memory_budget.total_bytes is not None and room is not Room.ALONE
    progress = Progress(
        job=job,
        resources=resources,
        seed=seed or os.urandom(32),
        stages=Stages(),
        cancellation=cancellation,
        shares_memory=shares_memory,
    )
    try:
        _run_stages(progress, room)
    except Fault as fault:
        return progress, _without_traceback(fault)
    except RuntimeError as error:
        # The referee's own lack of memory: a first use of a kernel says it as an error of CUDA.
        is_shortage = exhausted_memory.is_said_by(str(error))
        if not (isinstance(error, torch.OutOfMemoryError) or is_shortage):
            raise
        return progress, invalid("no_room", str(error), out_of_memory=True)
    return progress, None


def _without_traceback(fault: Fault) -> Fault:
    """The fault without its traceback and causes.  Their frames refer to the sessions and,
    through the caller's frame, to the fault itself, so the device's memory would stay occupied
    until the next collection of cycles.
    """
    fault.__cause__ = fault.__context__ = None
    return fault.with_traceback(None)


def _prepared(
    progress: Progress, memory: ExitStack, sessions: ExitStack, room: Room
) -> tuple[Session, ProblemSpec]:
    """The session with the reference, which has its arena, and the specification.  Raises Fault.

    `memory` and `sessions` release reservations and sessions.
    """
    resources = progress.resources
    if room is Room.ALONE:
        admission.reserve_memory(progress, memory, resources.memory_budget.total_bytes or 0)
    reference, spec = _described(progress, sessions, room.times)
    arena, need_bytes = _planned(progress, spec)
    if room is not Room.ALONE and not admission.reserve_beside_model(
        progress, memory, room.times * need_bytes, memory_needs.resident(spec)
    ):
        sessions.close()
        admission.reserve_memory(progress, memory, room.times * need_bytes)
        reference, spec = _described(progress, sessions, 0)
        arena, _ = _planned(progress, spec)
    with (
        progress.stages.stage("arena"),
        resources.device_lock.shared(),
        AttributeToProblem(resources.references, reference, resources.device),
    ):
        reference.share_arena(arena, arena.reference_bytes, REFERENCE_TIMEOUT_S)
    return reference, spec


def _described(progress: Progress, sessions: ExitStack, times: int) -> tuple[Session, ProblemSpec]:
    """A session with the reference, and the specification.  `times`: see admission.describe."""
    with progress.stages.stage("reference"):
        reference = setup.open_reference_session(progress.job, progress.resources)
    sessions.callback(setup.close_reference_session, progress.resources, reference)
    return reference, admission.describe(progress, reference, times)


def _planned(progress: Progress, spec: ProblemSpec) -> tuple[Arena, int]:
    """The memory layout, and the bytes of device memory that the evaluation takes."""
    options, resources = progress.job.options, progress.resources
    has_graphs = options.device_time and not resources.device.precompiles
    least_slots = device_time.SLOTS if has_graphs else 2
    arena = setup.lay_out(resources, spec, options.timing_budget_s, least_slots)
    need_bytes = memory_needs.of_evaluation(spec, arena, resources.device.round_bytes, CHECK_BYTES)
    return arena, need_bytes + (device_time.extra_bytes(spec, arena) if has_graphs else 0)


def _run_stages(progress: Progress, room: Room) -> None:
    """Run all stages in order.  Raises Fault."""
    job, resources = progress.job, progress.resources
    admission.refuse_unfit(job, resources)
    with ExitStack() as memory, ExitStack() as sessions:  # sessions end before memory is released
        with resources.device_lock.uncharged.working():
            reference, spec = _prepared(progress, memory, sessions, room)
            with progress.stages.stage("spawn"):
                candidate = resources.candidates.take(job.options.memory_bytes)
        deadline = Deadline(
            job.options.deadline_s,
            job.options.call_timeout_s,
            progress.cancellation,
            resources.device_lock.uncharged,
            work_s=job.options.deadline_s,
        )
        try:
            candidate_stages.run(progress, reference, candidate, spec, deadline)
        except ReferenceFailedError as error:
            resources.references.discard(reference.handle)
            message, cause = f"the reference failed: {error}", error.__cause__
            out_of_memory, disturbed = is_out_of_memory(cause), may_lack_memory(cause)
            raise invalid(
                "reference_failed", message, out_of_memory=out_of_memory, disturbed=disturbed
            ) from error
