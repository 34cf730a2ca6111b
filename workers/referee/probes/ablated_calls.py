"""Calls of the candidate with substitutes for its kernels' launches (AblationMode)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from workers.protocol.control_channel import AblationMode
from workers.referee.processes.process_handle import FailedError
from workers.referee.session.batches import Batch, Delivery
from workers.referee.session.call_runner import CallRunner

LAUNCHES = (
    AblationMode.SILENT,
    AblationMode.SILENT,  # again: a candidate could launch its kernels in one slot only
    AblationMode.KEEP,
    AblationMode.REPLAY,
    AblationMode.COPY,
    AblationMode.COPY_BACK,
    AblationMode.SCALE,
)
"""Substitutes for the launches of a row of calls on fresh inputs, one request for all as far as
they fit into the slots.  Of a candidate whose kernels matter, all but KEEP are wrong.
"""

LIBRARY = (AblationMode.NOTE, AblationMode.SCALE, AblationMode.MAP)
"""The same for launches that follow from the library's tensors."""

COPIES = (AblationMode.COPY, AblationMode.COPY_BACK, AblationMode.SCALE)


class Answer(NamedTuple):
    """Answer of the candidate to one input set, with substitutes for its launches."""

    mode: AblationMode
    batch: Batch
    """The input set, as a batch of its own."""
    delivery: Delivery | None
    """The outputs, if they are right with copies in place of the launches."""
    right: bool
    error: str
    """Reason of the failure; empty if there was none."""


def answers(extra: CallRunner, wanted: Sequence[AblationMode] = LAUNCHES) -> list[Answer]:
    """One call for each of these modes, on fresh inputs.

    Outputs are copied into their slots: calls in different modes are made one by one, and each
    releases the outputs of the one before.
    """
    found: list[Answer] = []
    with extra.candidate.copying_outputs():
        while len(found) < len(wanted):
            modes = wanted[len(found) : len(found) + extra.in_block]
            batch = extra.draw(len(modes))
            try:
                found += _in_a_row(extra, modes, batch)
            except FailedError:
                found += [_alone(extra, mode, batch.only([at])) for at, mode in enumerate(modes)]
    return found


def _in_a_row(extra: CallRunner, modes: Sequence[AblationMode], batch: Batch) -> list[Answer]:
    """One call for each of the modes, on the input sets of a batch.  Raises FailedError."""
    extra.yield_to_timers()
    replace_by(extra, *modes)
    delivery = extra.run_candidate(batch, 0, len(modes))
    found = []
    for at, (mode, right) in enumerate(zip(modes, extra.are_right(delivery), strict=True)):
        kept = delivery.part(at, at + 1) if right and mode in COPIES else None
        found.append(Answer(mode, batch.only([at]), kept, right, ""))
    return found


def _alone(extra: CallRunner, mode: AblationMode, batch: Batch) -> Answer:
    """The answer to one input set; a call that fails is not right."""
    try:
        [found] = _in_a_row(extra, (mode,), batch)
    except FailedError as error:
        return Answer(mode, batch, None, False, failure(error))
    return found


def failure(error: Exception) -> str:
    """Reason that an ablation has for a call that fails."""
    return f"without its kernels it fails: {error}"[:500]


def is_right(extra: CallRunner, mode: AblationMode, batch: Batch) -> bool:
    """Test whether a call is right with the launches replaced as `mode` says."""
    extra.yield_to_timers()
    replace_by(extra, mode)
    return passes(extra, batch)


def replace_by(extra: CallRunner, *modes: AblationMode) -> tuple[int, int]:
    """Replace the launches of the next calls (Session.replace_launches)."""
    return extra.candidate.replace_launches(extra.time_limit_s(extra.candidate, 1), *modes)


def passes(extra: CallRunner, batch: Batch) -> bool:
    """Test whether calls on these inputs are right; earlier calls are ignored."""
    return all(extra.are_right(extra.run_candidate(batch, 0, batch.slots)))
