"""Inputs that a candidate leaves as they were, although the reference's answer is in them.

A step of an optimizer, say, moves weights by less than rounding in bf16 may: an answer without it
is within the limits of the comparison.
"""

from __future__ import annotations

import torch

from app.domain.evaluation import Status
from workers.protocol import layout
from workers.referee.session.batches import Delivery
from workers.referee.session.draws import Draws
from workers.referee.session.fault_attribution import Fault


def require_changed(draws: Draws, delivery: Delivery) -> None:
    """Raise Fault (incorrect) for a call on the problem's own inputs that has changed nothing in an
    input which the reference changes for the same ones.
    """
    for call in range(0 if delivery.batch.variants else delivery.count):
        for place, index in enumerate(draws.arena.compared_inputs):
            if index not in delivery.changed[call] and _changes(draws, delivery, call, place):
                message = f"it leaves input {index} as it was, which the reference changes"
                raise Fault(Status.INCORRECT, "wrong_output", message)


def _changes(draws: Draws, delivery: Delivery, call: int, place: int) -> bool:
    """Test whether the reference changes a compared input in a call."""
    arena = draws.arena
    leaf = len(arena.outputs.leaves) - len(arena.compared_inputs) + place
    index = arena.compared_inputs[place]
    part = (delivery.batch, delivery.first + call, 1)
    own = draws.truth([part]).baseline[leaf]
    given = draws.given(*part)
    at = arena.inputs.offsets[index]
    before = given[:, at : at + layout.size_of(arena.inputs.leaves[index])]
    after = own.contiguous().view(torch.uint8).view(1, -1)
    return not torch.equal(before, after)
