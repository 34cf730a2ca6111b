"""EVALUATE: conditions that a job meets before its candidate is run: source,
backend, device memory.
"""

from __future__ import annotations

import math
from contextlib import ExitStack

from app.domain.backend import BACKENDS
from app.domain.evaluation import Status
from app.domain.job import Job
from app.domain.source import source_ablation
from workers.protocol import control_channel, problem_spec
from workers.referee.host.memory_budget import NotAtOnceError
from workers.referee.processes.process_session import Session
from workers.referee.progress import Progress
from workers.referee.resources import Resources
from workers.referee.session import memory_needs, setup
from workers.referee.session.deadline import REFERENCE_TIMEOUT_S
from workers.referee.session.fault_attribution import AttributeToProblem, Fault, invalid, too_large
from workers.sandbox import toolchain

LARGE_BYTES = 1 << 30
"""Bytes from which on the model of a later session is reserved before it is made."""

KEPT_MODEL_SHARE = 1 / 15
"""Share of the memory for evaluations up to which a model, with its twin, stays while its
evaluation waits for memory.  One of 8 GB takes six seconds to make (KernelBench 3/33).
"""

FAVOURED_SHARE = 0.3
"""Share of the memory for evaluations from which on one that holds it goes first in the use of the
device (DeviceLock.favoured).
"""


def refuse_unfit(job: Job, resources: Resources) -> None:
    """Raise Fault for a source that cannot be evaluated: its encoding, its size, a
    missing GPU or compiler.
    """
    if not source_ablation.reads_as_it_runs(job.candidate):
        raise Fault(
            Status.COMPILE_ERROR,
            "encoding",
            "the source declares an encoding in which it is another program than in UTF-8; expected"
            " UTF-8",
        )
    if len(job.candidate) > control_channel.SOURCE_BYTES:
        size = (
            f"{len(job.candidate):,} bytes; at most {control_channel.SOURCE_BYTES:,} are evaluated"
        )
        raise Fault(Status.COMPILE_ERROR, "too_large", f"the source has {size}")
    if len(job.reference) > control_channel.SOURCE_BYTES:
        raise invalid(
            "reference_failed",
            f"the reference has {len(job.reference):,} bytes; at most"
            f" {control_channel.SOURCE_BYTES:,}",
        )
    compiled = BACKENDS[job.backend].compiled_on_host
    if compiled and resources.device.precompiles:
        raise invalid("needs_gpu", f"backend {job.backend!r} needs a GPU; this device is the CPU")
    if compiled and (missing := toolchain.missing(cuda=True)):
        raise invalid(
            "no_compiler", f"backend {job.backend!r} needs {', '.join(missing)} on this host"
        )


def describe(progress: Progress, reference: Session, times: int) -> problem_spec.ProblemSpec:
    """The specification of the problem's inputs and outputs, from its reference.  Raises Fault.

    Describing a problem takes memory for some copies of its inputs and outputs, and each
    later session for a model of its own.  An estimate of that memory is reserved first, for
    later sessions if it is large.  `times`: multiple of the estimate to be reserved; 0 where the
    evaluation has reserved memory.
    """
    case, resources = progress.job.case, progress.resources
    seed = setup.init_seed(progress.seed)
    with ExitStack() as memory:
        if times and resources.memory_budget.total_bytes is not None:
            need = _estimate(progress, reference, seed) * times
            if case not in reference.handle.described or need > LARGE_BYTES:
                reserve_memory(progress, memory, need)
        with (
            progress.stages.stage("reference"),
            resources.device_lock.shared_at_first() as slow,
            AttributeToProblem(resources.references, reference, resources.device),
        ):
            sole = not progress.shares_memory
            spec = reference.describe(seed, REFERENCE_TIMEOUT_S, case, sole=sole, slow=slow)
    progress.spec = spec
    _require_fitting(resources, reference, memory_needs.least(spec))
    return spec


def _estimate(progress: Progress, reference: Session, seed: bytes) -> int:
    """The reference's estimate of the memory to describe the case, asked for once.  Raises
    Fault if the device is too small.
    """
    case, resources, known = progress.job.case, progress.resources, reference.handle.estimates
    if case not in known:
        with (
            progress.stages.stage("reference"),
            AttributeToProblem(resources.references, reference, resources.device),
        ):
            known[case] = reference.estimate_bytes(seed, REFERENCE_TIMEOUT_S)
        _require_fitting(resources, reference, known[case] // control_channel.ESTIMATED_INPUTS)
    return known[case]


def _require_fitting(resources: Resources, reference: Session, need_bytes: int) -> None:
    """Raise Fault (invalid) if the device is too small for the problem."""
    total_bytes = resources.memory_budget.total_bytes
    if total_bytes is not None and need_bytes > total_bytes:
        resources.references.discard(reference.handle)
        raise too_large(f"it needs {need_bytes:,} bytes or more", total_bytes)


def reserve_beside_model(
    progress: Progress, memory: ExitStack, need_bytes: int, resident_bytes: int
) -> bool:
    """Reserve memory for an evaluation whose reference has its model already; False, without any,
    if it would have to wait and the model is too large to stay.

    Models of evaluations that wait for each other's memory, of 30 GB with their twins, would fill
    the device without any of them running (level 4 of KernelBench).
    """
    total_bytes = progress.resources.memory_budget.total_bytes or math.inf
    waits = resident_bytes <= KEPT_MODEL_SHARE * total_bytes
    try:
        reserve_memory(progress, memory, need_bytes, resident_bytes, waits=waits)
    except NotAtOnceError:
        return False
    return True


def reserve_memory(
    progress: Progress,
    memory: ExitStack,
    need_bytes: int,
    resident_bytes: int = 0,
    *,
    waits: bool = True,
) -> None:
    """Wait until so much device memory is free and reserve it until `memory` is closed.
    `resident_bytes`, `waits`: see MemoryBudget.hold.  Raises Fault if cancelled.
    """
    resources = progress.resources
    with progress.stages.stage("room"), resources.device_lock.uncharged.waiting():
        hold = resources.memory_budget.hold(
            need_bytes, progress.cancellation, resident_bytes, waits=waits
        )
        progress.shares_memory = memory.enter_context(hold)
    if need_bytes > FAVOURED_SHARE * (resources.memory_budget.total_bytes or math.inf):
        memory.enter_context(resources.device_lock.favoured())
    progress.available_bytes = (
        None if progress.shares_memory else resources.device.free_bytes() + resident_bytes
    )
    memory.callback(resources.trim, need_bytes)
    if progress.cancellation.requested:
        raise Fault(Status.TIMEOUT, "cancelled", "it was cancelled before it began")
