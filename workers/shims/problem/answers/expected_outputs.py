"""Expected outputs of a reference's session: its own, the fp64 outputs, and equivalent answers."""

from __future__ import annotations

import time
from typing import Any

import torch

from workers.protocol import layout
from workers.shims.problem.answers import changed_inputs, equivalent_answers, pieces, true_answer
from workers.shims.problem.reference_session import Session, call, write


def own(session: Session, inputs: list[Any], baseline_at: list[torch.Tensor]) -> None:
    """Write the reference's own outputs for these inputs, which may be changed by the call."""
    rows = session.spec.piece_rows
    if rows is None:
        changed_inputs.deliver(session.spec, call(session.model, inputs), inputs, baseline_at)
        return
    for start in range(0, baseline_at[0].shape[0], rows):
        write(
            pieces.rows_of(baseline_at, rows, start),
            call(session.model, pieces.cut(inputs, rows, start)),
        )


def compute(
    session: Session,
    inputs: list[Any],
    baseline_at: list[torch.Tensor],
    expected_at: list[torch.Tensor],
) -> bool:
    """Write the reference's own outputs and the expected outputs for these inputs; returns
    whether the latter are the twin's.
    """
    spec, rows, twin = session.spec, session.spec.piece_rows, session.twin
    assert session.arena is not None
    best, streamed = true_answer.Truth(spec.truth), session.arena.slots.streamed
    if rows is not None:
        for start in range(0, baseline_at[0].shape[0], rows):
            piece = pieces.cut(inputs, rows, start)
            wide = true_answer.widened(piece, best) if twin is not None else None
            baseline = call(session.model, piece)
            write(pieces.rows_of(baseline_at, rows, start), baseline)
            exact = baseline if wide is None else true_answer.call(twin, wide, best)
            write(pieces.rows_of(expected_at, rows, start), exact)
        return twin is not None
    early = (
        true_answer.widened(inputs, best)
        if twin is not None and (spec.mutated_inputs or not streamed)
        else None
    )
    baseline = call(session.model, inputs)
    changed_inputs.deliver(spec, baseline, inputs, baseline_at)
    if twin is None:
        write(expected_at, list(baseline_at))
        return False
    del baseline
    try:
        wide = true_answer.widened(inputs, best) if early is None else early
        exact = true_answer.call(twin, wide, best)
        write(expected_at, changed_inputs.for_slot(spec, exact, wide))
    except torch.OutOfMemoryError:
        if not streamed:
            raise
        write(expected_at, list(baseline_at))
        return False
    return True


def equivalent(
    session: Session, slot: int, *, ties_only: bool
) -> list[equivalent_answers.Leaf] | None:
    """Findings on elements of an answer that differ from the expected ones and are right
    (equivalent_answers.py); None for a problem with calls that are streamed whole.
    """
    assert session.arena is not None
    assert session.memory is not None
    spec, best = session.spec, true_answer.Truth(session.spec.truth)
    if spec.compared_inputs:
        return None
    inputs = layout.rebuild(spec.inputs, iter(session.inputs[slot]))
    got = session.arena.outputs.views(session.memory, slot)
    until = time.process_time() + (0.0 if ties_only else equivalent_answers.look_s(got, inputs))
    model = session.model if session.twin is None else session.twin
    rows = spec.piece_rows
    if rows is None:
        if session.arena.slots.streamed:
            return None
        return equivalent_answers.find_equivalent(model, best, inputs, got, until)
    return equivalent_answers.merged(
        equivalent_answers.find_equivalent(
            model, best, pieces.cut(inputs, rows, start), pieces.rows_of(got, rows, start), until
        )
        for start in range(0, got[0].shape[0], rows)
    )
