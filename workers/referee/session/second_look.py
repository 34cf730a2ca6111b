"""EVALUATE: second look at a wrong call: is it right once ties and rounding are taken into account?

The reference's process decides (workers/shims/problem/answers/equivalent_answers.py).  It receives
the inputs and the delivered outputs and returns the nearest right outputs: an element that is
equivalent to the expected one keeps its delivered value.  The result is compared like any output.
Calls that are wrong by far get no second look (far_off.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from workers.referee.comparison import correctness
from workers.referee.session.batches import Delivery

SECONDS = 60.0
"""Processor seconds per evaluation that the reference may spend on perturbing its roundings;
after that it looks for ties only.
"""


class Answer(NamedTuple):
    """Answer of the reference's process about one call."""

    nearest: torch.Tensor
    """The nearest right outputs, uint8 (1, slot_bytes)."""
    leaves: list[correctness.SecondLook]
    """Findings on each output."""
    busy_s: float
    """Processor seconds."""


Ask = Callable[[Delivery, bool], Answer | None]
"""Function that asks the reference's process about one call; the second argument restricts it to
ties.  None if the process cannot decide.
"""


class SecondLooks:
    """Second looks of one evaluation."""

    def __init__(self) -> None:
        """No time is spent yet."""
        self._spent_s = 0.0

    def reviewed(
        self,
        ask: Ask,
        part: Delivery,
        call: int,
        outputs: list[correctness.ComparedOutput],
        expected: list[torch.Tensor],
        shown: Callable[[torch.Tensor], list[torch.Tensor]],
    ) -> list[correctness.ComparedOutput]:
        """The outputs of some calls, with the wrong call `call` compared once more.

        `ask`: sends the question; `part`: that call as a delivery of its own; `expected`: (1,
        elements) for each of its outputs; `shown`: views of the outputs in a slot's memory.
        """
        answer = ask(part, self._spent_s > SECONDS)
        if answer is None:
            return outputs
        self._spent_s += answer.busy_s
        return [
            output if output.ok[call] else output.reviewed(call, exact, near, leaf)
            for output, exact, near, leaf in zip(
                outputs, expected, shown(answer.nearest), answer.leaves, strict=True
            )
        ]
