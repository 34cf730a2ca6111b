"""Requests to the reference's process: its errors, and memory that it gives back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from workers.protocol.control_channel import Command
from workers.referee.host.uncharged_time import UnchargedTime
from workers.referee.processes.process_handle import PROCESS_ERRORS
from workers.referee.processes.process_session import Session
from workers.referee.session.deadline import REFERENCE_TIMEOUT_S


class ReferenceFailedError(Exception):
    """The reference's process failed: the job is invalid, and the candidate is not blamed."""


@contextmanager
def reference_side(uncharged: UnchargedTime) -> Iterator[None]:
    """Context of requests to the reference: their time is no candidate's, and errors of the
    reference's process become ReferenceFailedError.
    """
    try:
        with uncharged.working():
            yield
    except PROCESS_ERRORS as error:
        raise ReferenceFailedError(str(error) or "no answer in time") from error


def make_room(reference: Session, need_bytes: int, uncharged: UnchargedTime) -> None:
    """Have this process and the reference's release cached memory if less than
    `need_bytes` is free on the device.
    """
    device = reference.handle.device
    if device.type != "cuda" or torch.cuda.mem_get_info(device)[0] > need_bytes:
        return
    torch.cuda.empty_cache()
    if torch.cuda.mem_get_info(device)[0] > need_bytes:
        return
    give_back(reference, uncharged)


def give_back(reference: Session, uncharged: UnchargedTime) -> None:
    """Have the reference's process release the outputs of earlier calls and its cached memory."""
    with reference_side(uncharged):
        reference.ask(Command.GIVE_BACK, REFERENCE_TIMEOUT_S)
    reference.handle.unmap_segments()  # a mapping keeps its memory
