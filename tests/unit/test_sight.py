"""Inputs of later calls cannot be read."""

import mmap
import os
import signal
from typing import Any

import pytest
import torch

from tests.specs import one_output
from workers.protocol import problem_spec, shared_memory
from workers.protocol.control_channel import MAILBOX_BYTES, Delivering
from workers.shims.calls import Shared, Slots

SLOTS = 5


@pytest.fixture
def slots() -> Slots:
    spec = one_output(torch.ones(3), training=True)
    place = problem_spec.arena(spec, SLOTS)
    fd, arena = shared_memory.create(torch.device("cpu"), place.reference_bytes)
    os.close(fd)
    return Slots(spec, place, arena, Shared(), mmap.mmap(-1, MAILBOX_BYTES))


def _reads(slots: Slots, slot: int) -> bool:
    """Whether a process can read the slot; else a segmentation fault ends it."""
    pid = os.fork()
    if pid == 0:
        slots._inputs[slot][0].sum().item()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert not os.WIFSIGNALED(status) or os.WTERMSIG(status) == signal.SIGSEGV
    return not os.WIFSIGNALED(status)


def test_a_call_sees_its_own_inputs_and_earlier_ones(slots: Slots) -> None:
    seen: list[list[bool]] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        seen.append([_reads(slots, slot) for slot in range(SLOTS)])
        return x + 1

    slots.run(model, 1, 3, Delivering.COPY)
    assert seen == [
        [
            True,
            True,
            False,
            False,
            True,
        ],  # the last is of another block, and holds an earlier one's output
        [True, True, True, False, True],
        [True, True, True, True, True],
    ]
    assert torch.equal(slots._outputs[3][0], slots._inputs[3][0] + 1)


def test_all_are_in_sight_once_a_block_is_over(slots: Slots) -> None:
    def fails(_: Any) -> Any:
        raise ValueError("not today")

    with pytest.raises(ValueError, match="not today"):
        slots.run(fails, 0, SLOTS, Delivering.COPY)
    assert all(_reads(slots, slot) for slot in range(SLOTS))
