"""Memory in one piece in a process is mapped in one piece, in any order of requests."""

import itertools
import random
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workers.protocol import shared_memory
from workers.referee.processes.mapped_memory import AREA_BYTES, MOST_AREAS, MappedMemory

UNIT = 64
"""Unit of a piece's size, as 2 MiB on a GPU."""


class Mapped(SimpleNamespace):
    """Stands for memory that is mapped somewhere."""

    first: int
    end: int
    shown: torch.Tensor


@pytest.fixture(autouse=True)
def mapping(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Addresses are handed out with gaps; a descriptor is a number that all bytes have."""
    state = SimpleNamespace(next=1000, sizes=[])

    def reserve(size: int) -> SimpleNamespace:
        state.sizes.append(size)
        state.next += size + 1
        return SimpleNamespace(first=state.next - size)

    def attach_at(_device: object, fd: int, size: int, place: Any) -> Mapped:
        place = place or SimpleNamespace(addresses=reserve(size), offset=0)
        first = place.addresses.first + place.offset
        return Mapped(
            first=first, end=first + size, shown=torch.full((size,), fd, dtype=torch.uint8)
        )

    def in_one_piece(pieces: tuple[Mapped, ...]) -> torch.Tensor:
        assert all(before.end == after.first for before, after in itertools.pairwise(pieces))
        return torch.cat([piece.shown for piece in pieces])

    monkeypatch.setattr(shared_memory, "Addresses", reserve)
    monkeypatch.setattr(shared_memory, "attach_at", attach_at)
    monkeypatch.setattr(shared_memory, "in_one_piece", in_one_piece)
    return state


BORDER = AREA_BYTES * 3


@given(
    st.sets(st.integers(-6, 6), min_size=1),
    st.randoms(use_true_random=False),
    st.sampled_from([BORDER, BORDER + UNIT // 2, BORDER + 100 * UNIT]),
)
def test_every_byte_is_shown_where_it_lies(
    places: set[int], chance: random.Random, origin: int
) -> None:
    """Around a border between areas, too, and of a piece that lies across it."""
    shown = MappedMemory(torch.device("cpu"))
    number = {place: index + 1 for index, place in enumerate(places)}
    order = list(places)
    chance.shuffle(order)
    for place in order:
        shown.add(origin + place * UNIT, UNIT, number[place])
    assert len(shown) == len(places)
    for place in range(-7, 8):
        for offset in (0, 1, UNIT - 1):
            found = shown.at(origin + place * UNIT + offset, 1)
            assert (None if found is None else found.tolist()) == (
                [number[place]] if place in places else None
            )


def test_what_lies_in_one_piece_is_one(mapping: SimpleNamespace) -> None:
    shown = MappedMemory(torch.device("cpu"))
    for index in (1, 3, 0, 2):
        shown.add(BORDER + index * UNIT, UNIT, index)
    found = shown.at(BORDER + 1, 1 << 40)
    assert found is not None
    assert found.tolist() == ([0] * UNIT + [1] * UNIT + [2] * UNIT + [3] * UNIT)[1:]
    assert mapping.sizes == [AREA_BYTES]
    shown.clear()
    assert shown.at(BORDER, 1) is None
    shown.add(BORDER, UNIT, 9)
    assert len(mapping.sizes) == 2, "a process may still look at the memory mapped there"


def test_a_process_has_no_more_than_some_of_our_addresses(mapping: SimpleNamespace) -> None:
    """It says itself where its memory lies."""
    shown = MappedMemory(torch.device("cpu"))
    for area in range(MOST_AREAS + 5):
        shown.add(area * AREA_BYTES, UNIT, area)
    assert mapping.sizes == [AREA_BYTES] * MOST_AREAS + [UNIT] * 5
    assert all(shown.at(area * AREA_BYTES, 1) == area for area in range(MOST_AREAS + 5))
