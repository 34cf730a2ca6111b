"""Outputs that stay where a model put them."""

from __future__ import annotations

import mmap
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from workers.protocol import control_channel, layout, shared_memory
from workers.protocol.control_channel import Delivering
from workers.shims.calls import Shared, Slots
from workers.shims.returned_outputs import RefusedOutputError

RIGHT = torch.arange(12.0).view(3, 4)
SHARED = range(RIGHT.data_ptr(), RIGHT.data_ptr() + RIGHT.nbytes)


class AllOf(Shared):
    """Shared memory that is RIGHT's."""

    def covers(self, address: int, size: int) -> bool:
        return address in SHARED and address + size <= SHARED.stop


def _slots(outputs: Any) -> Slots:
    cpu = torch.device("cpu")
    nodes = layout.describe([RIGHT]), layout.describe(outputs)
    inputs = layout.lay_out(0, 1, [nodes[0]], 4096)
    answers = layout.lay_out(inputs.stop, 1, [nodes[1]])
    _, memory = shared_memory.create(cpu, answers.stop)
    spec: Any = SimpleNamespace(inputs=nodes[0], outputs=nodes[1], compared_inputs=())
    arena: Any = SimpleNamespace(inputs=inputs, outputs=answers, compared_inputs=())
    return Slots(spec, arena, memory, AllOf(), mmap.mmap(-1, control_channel.MAILBOX_BYTES))


def _pointers(slots: Slots, value: object) -> list[int]:
    return slots._call(lambda _: value, 0, 1, Delivering.HOLD)


def test_the_only_output_is_told_apart_as_several_are() -> None:
    one, two = _slots(RIGHT), _slots((RIGHT, RIGHT))
    assert one._lone is not None
    assert two._lone is None
    for value in (RIGHT, RIGHT.clone(), RIGHT.t().contiguous().t()):
        (pointer,) = _pointers(one, value)
        assert [pointer] * 2 == _pointers(two, (value, value))
        assert one._held[-1] is value
        if value is RIGHT:
            assert pointer == RIGHT.data_ptr()
        else:  # outside of shared memory, or its elements lie otherwise: copied
            assert pointer == 0
            assert torch.equal(one._outputs[0][0], RIGHT)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (RIGHT.double(), "expected torch.float32, got torch.float64"),
        (RIGHT[:2], "expected shape"),
        (RIGHT.as_subclass(type("Late", (torch.Tensor,), {})), "expected torch.Tensor, got"),
        (None, "expected torch.Tensor, got NoneType"),
        ((RIGHT,), "expected torch.Tensor, got tuple"),
    ],
)
def test_another_output_is_refused(value: object, message: str) -> None:
    with pytest.raises(RefusedOutputError, match=message):
        _pointers(_slots(RIGHT), value)
