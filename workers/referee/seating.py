"""EVALUATE: the two sides take their seats: the reference in a process that may serve several evaluations, the
candidate in one of its own."""

from __future__ import annotations

import hashlib

from app.domain.job import Job
from workers import spec
from workers.referee.deadline import REFERENCE_TIMEOUT_S, Deadline
from workers.referee.faults import Unaided
from workers.referee.host import Host
from workers.referee.lease import Lease
from workers.referee.party import Seat


def sit(job: Job, host: Host) -> Seat:
    """A seat in the process of the reference, which is loaded.  Raises Fault (invalid)."""
    with Unaided(host.references, None):
        return host.references.sit(job.reference, job.entry_point, REFERENCE_TIMEOUT_S)


def leave(host: Host, reference: Seat) -> None:
    """The evaluation is over."""
    with host.lease.shared():
        host.references.leave(reference)


def lay_out(host: Host, agreed: spec.Spec) -> spec.Arena:
    """As many input sets at a time as an arena of this device holds."""
    slots = max(2, min(host.device.max_slots, host.device.arena_bytes // max(1, agreed.slot_bytes)))
    return spec.arena(agreed, slots)


def load(
    candidate: Seat, job: Job, reference: Seat, agreed: spec.Spec, seed: bytes, deadline: Deadline, lease: Lease
) -> None:
    """Source, then arena with the reference's parameters, then the constructor.

    A CUDA source is compiled while it is loaded, on the host's cores, with nobody kept from the device: that may take
    as long as the deadline leaves."""
    assert reference.place is not None
    loading_s = deadline.left_s if job.backend == "cuda" else deadline.allow()
    candidate.party.load_candidate(job.candidate, agreed, job.entry_point, job.backend, loading_s)
    place = reference.place
    timeout_s = deadline.allow()
    candidate.share_arena(
        place, place.candidate_bytes, timeout_s, seed=init_seed(seed), prefix=reference.prefix, lease=lease
    )


def init_seed(seed: bytes) -> bytes:
    """The seed under which both constructors run, so that parameters without a namesake start alike.  The candidate is
    given this one; nothing about the inputs follows from it."""
    return hashlib.sha256(seed + b"init").digest()
