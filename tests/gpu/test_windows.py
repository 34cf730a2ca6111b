"""MappedMemory onto memory of a GPU, as the driver maps it."""

import os

import pytest
import torch

from workers.protocol import shared_memory
from workers.referee.processes.mapped_memory import AREA_BYTES, MappedMemory

pytestmark = pytest.mark.gpu

UNIT = 2 << 20
BASE = 5 * AREA_BYTES
DEVICE = torch.device("cuda:0")


def _made(value: int, size: int = UNIT) -> tuple[int, torch.Tensor]:
    """Memory full of that value: a descriptor, and its owner's view."""
    fd, owned = shared_memory.create(DEVICE, size)
    owned.whole.fill_(value)
    torch.cuda.synchronize()
    return fd, owned.whole


def _add(shown: MappedMemory, base: int, value: int) -> torch.Tensor:
    fd, owned = _made(value)
    try:
        shown.add(base, UNIT, fd)
    finally:
        os.close(fd)
    return owned


def test_pieces_are_read_and_written_as_one() -> None:
    shown = MappedMemory(DEVICE)
    owned = {index: _add(shown, BASE + index * UNIT, index) for index in (2, 0, 3, 1)}
    whole = shown.at(BASE, 1 << 40)
    assert whole is not None
    assert whole.view(4, UNIT).float().mean(dim=1).tolist() == [0, 1, 2, 3]
    across = whole.unfold(0, UNIT, UNIT // 2).clone()  # a view like outputs at equal distances
    assert across[1].float().mean().item() == 0.5
    whole[UNIT - 4 : UNIT + 4].copy_(torch.full((8,), 77, dtype=torch.uint8, device=DEVICE))
    assert (owned[0][-4:].tolist(), owned[1][:4].tolist()) == ([77] * 4, [77] * 4)
    assert torch.empty_like(whole).copy_(whole).equal(whole), "the driver's own copy"


def test_what_is_there_stays_for_those_who_look_at_it() -> None:
    shown = MappedMemory(DEVICE)
    _add(shown, BASE, 1)
    before = shown.at(BASE, UNIT)
    with pytest.raises(shared_memory.CudaDriverError):
        _add(shown, BASE, 2)
    shown.clear()
    _add(shown, BASE, 3)
    now = shown.at(BASE, UNIT)
    assert before is not None
    assert now is not None
    assert (before.float().mean().item(), now.float().mean().item()) == (1, 3)


def test_memory_is_free_once_its_views_are_gone() -> None:
    torch.cuda.synchronize()
    free, _ = torch.cuda.mem_get_info()
    shown = MappedMemory(DEVICE)
    for index in range(64):
        _add(shown, BASE + index * UNIT, index)
    assert free - torch.cuda.mem_get_info()[0] >= 64 * UNIT
    shown.clear()
    assert free - torch.cuda.mem_get_info()[0] < 16 * UNIT
