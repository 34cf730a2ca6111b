"""Survey before a benchmark on a GPU: finds and maps the addresses of outputs, so that
timed blocks need not copy them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import nullcontext

from workers.protocol import layout
from workers.protocol.control_channel import POINTERS_BYTES, Delivering
from workers.referee.processes.process_handle import FailedError
from workers.referee.processes.process_session import Session
from workers.referee.session.batches import Batch, Times
from workers.referee.session.call_runner import CallRunner
from workers.referee.session.varying_outputs import compared_with_reference


def survey(
    runner: CallRunner, wanted: Sequence[tuple[Session, int]], *, alike: bool = True
) -> None:
    """Find the addresses of the outputs of so many calls and map them, so that timed blocks need
    not copy outputs. Afterwards the process has as much memory as such a block needs.

    Outputs are copied in timed blocks if one overwrites another (a model that returns the same
    buffer every time), if they are not contiguous, or if the candidate's answer is wrong.  With
    `alike`, both sides copy if one has to: a copy is a tenth to half of a short call.
    """
    leaves = len(runner.arena.outputs.leaves)
    fit = [(session, count) for session, count in wanted if count * leaves * 8 <= POINTERS_BYTES]
    if not runner.surveys or not fit:
        return
    with runner.device_lock.shared():
        batch = runner.draw(max(count for _, count in fit))
    for session, count in fit:
        with runner.device_lock.shared():
            _survey(runner, session, batch, count)
    if alike:
        _deliver_alike(runner)


def _deliver_alike(runner: CallRunner) -> None:
    """Make both sides copy their outputs if one has to."""
    sides = (runner.reference, runner.candidate)
    if any(session.delivering == Delivering.COPY for session in sides):
        for session in sides:
            session.delivering = Delivering.COPY


def survey_again(runner: CallRunner) -> None:
    """Survey the reference again, after it has given memory back."""
    _survey(runner, runner.reference, runner.draw(1), 1)
    _deliver_alike(runner)


def _survey(runner: CallRunner, session: Session, batch: Batch, count: int) -> None:
    on_trial = session is runner.candidate
    runner.make_room_to_call()
    session.mapping = (
        session.handle.mappings_dropped
    )  # before the first is made: others may drop them meanwhile
    with runner.side_of(session), session.handle.lock:
        runner.fill(session, batch, 0, count)
        at, limit_s = runner.slot(batch, 0, count), runner.time_limit_s(session, count)
        with compared_with_reference(runner, [(batch, 0, count)]) if on_trial else nullcontext():
            wall_ns, busy_ns = session.timed_run(at, count, Delivering.SURVEY, limit_s)
        session.process.freeze()
        addresses = session.pointers(count)
    if on_trial and not runner.verify(
        runner.delivery(batch, 0, count, Times(wall_ns, busy_ns), [])
    ):
        return
    with runner.side_of(session):
        is_mapped = map_in_place(runner, session, addresses, count)
    session.delivering = Delivering.HOLD if is_mapped else Delivering.COPY
    session.mapped_calls = count if is_mapped else session.mapped_calls


def map_in_place(runner: CallRunner, session: Session, addresses: list[int], calls: int) -> bool:
    """Map the outputs of so many calls at the addresses where they lie; False where
    they cannot be read there.
    """
    leaves = list(runner.arena.outputs.leaves)
    kept = len(leaves) - len(runner.arena.compared_inputs)
    # Inputs that belong to the answer have no address: they are read in their slots.
    returned = [at for index, at in enumerate(addresses) if index % len(leaves) < kept]
    spans = _spans(returned, leaves[:kept] * calls)
    return bool(spans) and _map(runner, session, spans)


def _map(runner: CallRunner, session: Session, spans: list[tuple[int, int]]) -> bool:
    """Map everything at these addresses; False if a part cannot be mapped."""
    left = spans
    try:
        while left:
            runner.yield_to_timers()
            with session.handle.lock:
                left = _map_first(runner, session, left)
    except FailedError:  # memory that cannot be shared: a candidate's own allocation
        return False
    finally:
        if session is runner.candidate:
            session.process.freeze()
    return True


def _map_first(
    runner: CallRunner, session: Session, spans: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Map the first piece that is not mapped yet; returns what lies behind it.

    The caller holds the process's lock, for which evaluations of the same problem wait: once for
    each piece and not for each output, of which several lie in a piece.
    """
    handle = session.handle
    for index, (at, end) in enumerate(spans):
        while at < end:
            shown = handle.mapped(at, end - at)
            if shown is None:
                handle.map_segment(at, runner.time_limit_s(session, 1))
                shown = handle.mapped(at, end - at)
                rest = end if shown is None else at + len(shown)
                return [(rest, end), *spans[index + 1 :]]
            at += len(shown)
    return []


def _spans(addresses: list[int], leaves: list[layout.Node]) -> list[tuple[int, int]]:
    """Begin and end of each output, in the order of memory; empty if an output was
    copied, or two overlap.
    """
    outputs = [
        (at, layout.size_of(leaf))
        for at, leaf in zip(addresses, leaves, strict=True)
        if leaf["kind"] == "tensor"
    ]
    spans = sorted((at, at + size) for at, size in outputs if size)
    overlap = any(end > begin for (_, end), (begin, _) in itertools.pairwise(spans))
    return [] if overlap or any(not at for at, _ in spans) else spans
