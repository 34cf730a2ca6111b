"""Questions to the reference's process about the candidate's answer to one call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from workers.protocol import problem_spec, product_errors
from workers.protocol.control_channel import Command
from workers.referee.comparison import correctness
from workers.referee.host.uncharged_time import UnchargedTime
from workers.referee.processes.process_handle import FailedError, decoding
from workers.referee.processes.process_session import Session, synchronize
from workers.referee.session.batches import Batch, Delivery
from workers.referee.session.deadline import REFERENCE_TIMEOUT_S
from workers.referee.session.reference_side import reference_side
from workers.referee.session.second_look import Answer
from workers.sandbox.process_errors import BrokenProtocolError


class PredictedErrors(NamedTuple):
    """Errors of an answer, beside those that narrow factors of products would cause."""

    of_outputs: dict[int, list[product_errors.Sums]]
    """By output, one for each of product_errors.PREDICTIONS; empty if a comparison shows those
    errors.
    """
    busy_s: float
    """Processor seconds."""


class Questions:
    """Questions of one evaluation."""

    def __init__(
        self,
        reference: Session,
        arena: problem_spec.Arena,
        uncharged: UnchargedTime,
        given: Callable[[Batch, int, int], torch.Tensor],
    ) -> None:
        """`given`: inputs of some calls (Draws.given)."""
        self._reference, self._arena = reference, arena
        self._uncharged, self._given = uncharged, given

    def second_look(self, delivery: Delivery, ties_only: bool) -> Answer | None:
        """Ask about one wrong call; see second_look.Ask.  None if the process cannot decide."""
        with self._shown(delivery) as outputs:
            told = self._told(Command.SECOND_LOOK, ties_only)
            if told is None:
                return None
            busy_s, fields = told
            with decoding():
                leaves = [correctness.SecondLook.checked(each) for each in fields]
            expected = len(self._arena.outputs.leaves)
            if len(leaves) != expected:
                raise BrokenProtocolError(
                    f"expected findings on {expected} outputs, got {len(leaves)}"
                )
            return Answer(outputs.clone(), leaves, busy_s)

    def predicted_errors(
        self, delivery: Delivery, wanted: int, control: int = 0
    ) -> PredictedErrors | None:
        """Ask for the errors of one call; see Command.PREDICT.  None if the process cannot tell."""
        with self._shown(delivery):
            told = self._told(Command.PREDICT, control, wanted)
            if told is None:
                return None
            busy_s, fields = told
            with decoding():
                return PredictedErrors(product_errors.checked(fields), busy_s)

    def _told(self, command: Command, number: int, more: int = 0) -> tuple[float, Any] | None:
        """Processor seconds, and the JSON that answers a question about the call in the first slot;
        None if it fails.
        """
        try:
            busy_ns, text = self._reference.ask_for_text(
                command, REFERENCE_TIMEOUT_S, a=0, b=number, c=more
            )
        except FailedError:
            return None
        with decoding():
            return busy_ns / 1e9, json.loads(text)

    @contextmanager
    def _shown(self, delivery: Delivery) -> Iterator[torch.Tensor]:
        """Context with a call's inputs and outputs in the reference's first slot; gives the memory
        of those outputs.
        """
        reference, arena = self._reference, self._arena
        with reference_side(self._uncharged), reference.handle.lock:
            reference.wait_for_readers()
            given = self._given(delivery.batch, delivery.first, 1)
            inputs = reference.region(arena.inputs, 0, 1)
            outputs = reference.region(arena.outputs, 0, 1)
            if delivery.batch.inputs is not None:
                inputs.copy_(given)
            outputs.copy_(delivery.outputs)
            synchronize(reference.handle.device)
            yield outputs
