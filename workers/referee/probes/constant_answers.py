"""EVALUATE: answers that are the same for other inputs, as a whole or where kernels write them.

Replays of values that a kernel wrote for other inputs are right there, and say nothing about the
kernel: the problem asks for these values (a fill behind the last row, a causal mask).
"""

from __future__ import annotations

import torch

from workers.protocol.control_channel import AblationMode
from workers.referee.comparison import kept_slices
from workers.referee.probes import ablated_calls
from workers.referee.processes.process_handle import FailedError
from workers.referee.session.batches import Batch, leaf_views
from workers.referee.session.call_runner import CallRunner

ANSWER_ELEMENTS = 1 << 24
"""Elements of two answers that are compared."""


def are_all(extra: CallRunner, usual: Batch, other: Batch) -> bool:
    """Test whether the first calls of both batches have the same answer."""
    return all(map(torch.equal, _answer(extra, usual), _answer(extra, other)))


def are_all_that_needs_kernels(extra: CallRunner, usual: Batch, other: Batch) -> bool:
    """Test whether all elements that are wrong without the kernels, with NaN in unwritten memory,
    are the same in the right answers to both batches' first calls.  False if the answers are too
    large to be compared as a whole.
    """
    wanted, others = _answer(extra, usual), _answer(extra, other)
    extra.yield_to_timers()
    ablated_calls.replace_by(extra, AblationMode.NOTHING)
    try:
        delivery = extra.run_candidate(usual, 0, 1)
    except FailedError:
        return False
    given = [leaf[0] for leaf in leaf_views(delivery.outputs, extra.arena.outputs)]
    if any(one.numel() < got.numel() for one, got in zip(wanted, given, strict=True)):
        return False
    wrong = [kept_slices.are_wrong(*pair) for pair in zip(given, wanted, strict=True)]
    return any(bool(each.any()) for each in wrong) and not any(
        bool((each & (one != another)).any())
        for each, one, another in zip(wrong, wanted, others, strict=True)
    )


def _answer(extra: CallRunner, batch: Batch) -> list[torch.Tensor]:
    """Copies of the expected outputs of the first call, (elements,) each, up to ANSWER_ELEMENTS."""
    expected = extra.truth([(batch, 0, 1)]).expected
    return [leaf[0].reshape(-1)[:ANSWER_ELEMENTS].clone() for leaf in expected]
