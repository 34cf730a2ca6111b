"""Which outputs are left where they are, for the referee to read them there, and
which are copied.
"""

import mmap
import os
import struct
from collections.abc import Callable, Iterator

import pytest
import torch

from tests.specs import one_output
from workers.protocol import control_channel, problem_spec, shared_memory
from workers.protocol.control_channel import Delivering
from workers.protocol.shared_memory import Segment
from workers.shims import calls
from workers.shims.calls import Shared

CPU = torch.device("cpu")
CALLS = 3


def test_pieces_that_touch_are_one() -> None:
    shared = Shared()
    for base, size in ((300, 100), (100, 100), (200, 50)):
        shared.add(Segment(base, size))
    assert shared.covers(100, 150)
    assert shared.covers(320, 80)
    assert not shared.covers(240, 20)
    assert not shared.covers(390, 20)


def test_segments_that_the_allocator_gives_back_by_itself_are_shared_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """torch frees what it has cached when memory runs out in a call, and tries again; the referee's
    mapping of such a segment shows the memory from before.
    """
    numbers, releases = {100: 1, 300: 2}, [0]
    monkeypatch.setattr(calls, "releases", lambda: releases[0])
    monkeypatch.setattr(calls, "allocation_number", lambda at: numbers[at])
    shared = Shared()
    for base in numbers:
        shared.add(Segment(base, 200))
    assert shared.covers(100, 400)
    numbers[300] = 3  # the same addresses, another allocation
    releases[0] = 1
    assert shared.covers(100, 200)
    assert not shared.covers(300, 8)
    shared.add(Segment(300, 200))
    assert shared.covers(100, 400)


@pytest.fixture
def given_back() -> Iterator[list[str]]:
    """Names of torch's functions that were called."""
    called: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_cuda_emptyCache", "_accelerator_emptyCache"):
            patch.setattr(torch._C, name, lambda name=name: called.append(name), raising=False)
        yield called


@pytest.mark.parametrize("name", ["_cuda_emptyCache", "_accelerator_emptyCache"])
def test_what_lies_in_memory_that_was_given_back_is_copied(
    given_back: list[str], name: str
) -> None:
    """Its address would show the referee the previous content."""

    def model(x: torch.Tensor) -> torch.Tensor:
        if x[0] == 2:
            getattr(torch._C, name)()
        return x * 10

    assert _left_and_copied(model, torch.float32) == ([True, False, False], [-1, 20, 30])
    assert given_back == [name]


@pytest.mark.parametrize(
    ("model", "left"),
    [
        (lambda z: torch.conj(z) + 0, True),
        (lambda z: torch.conj(z * 1j), False),
        (lambda z: torch._neg_view(z + 0), False),
        (lambda z: torch.stack([z, z], 1)[:, 0], False),
    ],
)
def test_outputs_whose_memory_holds_other_values_than_they_are_are_copied(
    model: Callable[[torch.Tensor], torch.Tensor], left: bool
) -> None:
    assert _left_and_copied(model, torch.complex64)[0] == [left] * CALLS


def _left_and_copied(
    model: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype
) -> tuple[list[bool], list[complex]]:
    """Call by call, whether the output was left where it is; and its slot's content,
    −1 where nothing was copied.
    """
    spec = one_output(torch.zeros(64, dtype=dtype))
    place = problem_spec.arena(spec, CALLS)
    fd, arena = shared_memory.create(CPU, place.candidate_bytes)
    os.close(fd)
    shared, mailbox = Shared(), mmap.mmap(-1, control_channel.MAILBOX_BYTES)
    shared.add(Segment(0, 1 << 62))
    shared.forget_after_release()
    for slot in range(CALLS):
        place.inputs.views(arena, slot)[0].fill_(slot + 1)
        place.outputs.views(arena, slot)[0].fill_(-1)
    calls.Slots(spec, place, arena, shared, mailbox).run(model, 0, CALLS, Delivering.HOLD)
    pointers = struct.unpack_from(f"<{CALLS}Q", mailbox, control_channel.POINTERS_AT)
    return [bool(pointer) for pointer in pointers], [
        place.outputs.views(arena, n)[0][5].item() for n in range(CALLS)
    ]
