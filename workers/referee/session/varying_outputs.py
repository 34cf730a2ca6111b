"""Attribution of outputs whose shapes or types differ from the problem's specification: the
candidate's fault, unless the reference's own outputs for the same inputs differ as well.

A problem is described by two draws of inputs.  Outputs with a shape that depends on the inputs'
values may differ in a third.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from workers.protocol.control_channel import ReplyCode
from workers.referee.processes.process_handle import FailedError
from workers.referee.session.batches import Part
from workers.referee.session.draws import Draws
from workers.referee.session.reference_side import ReferenceFailedError

OTHER_OUTPUTS = frozenset(
    {
        ReplyCode.WRONG_TYPE,
        ReplyCode.WRONG_STRUCTURE,
        ReplyCode.WRONG_SHAPE,
        ReplyCode.WRONG_DTYPE,
    }
)
"""Failures of a call with outputs that differ from the problem's specification."""


@contextmanager
def compared_with_reference(
    draws: Draws,
    parts: Sequence[Part],
    locked: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Iterator[None]:
    """Context of calls of the candidate on these inputs.  Raises ReferenceFailedError in place of
    the candidate's error if the problem's outputs vary.

    `locked`: context that holds the device's lock, if the caller does not.  Expected outputs that
    are made together with the inputs have shown by then that the reference's do not vary.
    """
    try:
        yield
    except FailedError as error:
        if error.outcome in OTHER_OUTPUTS and not draws.arena.slots.together:
            with locked():
                _require_outputs_as_described(draws, parts)
        raise


def _require_outputs_as_described(draws: Draws, parts: Sequence[Part]) -> None:
    """Let the reference answer the same inputs.  Raises ReferenceFailedError."""
    try:
        for batch, first, count in parts:
            for call in range(first, first + count):
                draws.own_outputs([(batch, call, 1)])
    except ReferenceFailedError as error:
        message = f"its outputs vary from call to call: {error}"
        raise ReferenceFailedError(message) from error.__cause__
