"""Answers of a few bits, such as one boolean: unwritten memory often holds the right one by chance,
and so does a copy of some input.  They show something only if they are right in many calls that do
not all have the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from workers.protocol import layout
from workers.protocol.control_channel import AblationMode
from workers.referee.probes.ablated_calls import is_right
from workers.referee.session.call_runner import CallRunner

FEW = 16
"""Booleans in all outputs together that count as a few."""

CALLS = 16
"""Calls that have to be right.  An answer that is the same in nine of ten is equal in all of them
with a probability of 0.19, and then nothing is shown.
"""


def stays_right(extra: CallRunner, mode: AblationMode) -> bool:
    """Test whether an answer that was right in one call, with launches replaced as `mode` says, was
    not right by chance.
    """
    if not _are_few(extra.arena.outputs.leaves):
        return True
    answers: list[torch.Tensor] = []
    while len(answers) < CALLS:
        batch = extra.draw(min(CALLS - len(answers), extra.in_block))
        if not is_right(extra, mode, batch):
            return False
        leaves = extra.truth([(batch, 0, batch.slots)]).expected
        answers += torch.cat([leaf.bool() for leaf in leaves], dim=1).cpu().unbind()
    return not all(torch.equal(answers[0], each) for each in answers)


def _are_few(outputs: Sequence[layout.Node]) -> bool:
    """Test whether all outputs are booleans, and few."""
    if any(layout.dtype_of(leaf) != torch.bool for leaf in outputs):
        return False
    return sum(math.prod(leaf.get("shape", ())) for leaf in outputs) <= FEW
