"""Outputs that lie wherever the process says: they are taken from there, and from nowhere else."""

import random
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from workers.protocol import layout
from workers.referee.processes import snapshot
from workers.referee.processes.mapped_memory import Extent, MappedMemory
from workers.referee.processes.process_handle import ProcessHandle
from workers.referee.processes.process_session import SHORTEST_RUN, Session
from workers.sandbox.process_errors import BrokenProtocolError

LOW, HIGH = 0x7F0000000000, (1 << 64) - 1


def make_session(sizes: list[int], calls: int, windows: dict[int, torch.Tensor]) -> Session:
    """A session of a process that gives outputs of so many bytes and has shared such
    memory; its slots hold noise.
    """
    leaves = tuple(
        {"kind": "tensor", "dtype": "uint8", "shape": [size], "stride": None} for size in sizes
    )
    offsets = tuple(256 * index for index in range(len(sizes)))
    region = layout.Region(
        start=256, slot_bytes=256 * len(sizes), slots=calls, offsets=offsets, leaves=leaves
    )
    handle: Any = object.__new__(ProcessHandle)
    handle._mapped, handle.process = MappedMemory(torch.device("cpu")), None
    handle._mapped._extents = [Extent(base, (), shown) for base, shown in sorted(windows.items())]
    session: Any = Session(handle)
    session.arena = SimpleNamespace(outputs=region, compared_inputs=())
    session._memory = noise(region.stop)
    return session


def noise(size: int) -> torch.Tensor:
    return torch.randint(0, 256, (size,), dtype=torch.uint8)


def leaf_bytes(session: Session, memory: torch.Tensor) -> list[list[int]]:
    """Bytes of slots, call by call and leaf by leaf, without the gaps between leaves."""
    assert session.arena is not None
    region = session.arena.outputs
    spans = list(zip(region.offsets, map(layout.size_of, region.leaves), strict=True))
    return [row[offset : offset + size].tolist() for row in memory for offset, size in spans]


def expected(session: Session, calls: int, addresses: list[int]) -> list[list[int]]:
    """Byte by byte.  Raises ValueError where there is none."""
    assert session.arena is not None
    leaves = session.arena.outputs.leaves
    slots = leaf_bytes(session, session.region(session.arena.outputs, 0, calls))
    found = []
    for index, address in enumerate(addresses):
        here = (
            range(address, address + layout.size_of(leaves[index % len(leaves)])) if address else []
        )
        shown = [session.handle.mapped(at, 1) for at in here]
        if any(byte is None for byte in shown):
            raise ValueError(address)
        found.append([int(byte) for byte in shown if byte is not None] if address else slots[index])
    return found


@st.composite
def situations(draw: st.DrawFn) -> tuple[Session, int, list[int], list[torch.Tensor]]:
    """MappedMemory with and without gaps, and addresses that follow each other at a
    distance, until they do not.
    """
    sizes = draw(st.lists(st.sampled_from([0, 1, 7, 8, 16, 24, 64]), min_size=1, max_size=3))
    calls = draw(st.integers(1, 14))
    base, windows = LOW, {}
    for length in draw(st.lists(st.sampled_from([200, 513, 1024]), min_size=1, max_size=3)):
        windows[base] = noise(length)
        base += length + draw(st.sampled_from([0, 0, 0, 8, 1000]))
    columns = []
    for _ in sizes:
        address = LOW + 8 * draw(st.integers(0, 60))
        step, column = draw(st.sampled_from([0, 8, 16, 64, 72, 7])), []
        for _ in range(calls):
            step = draw(st.sampled_from([step] * 60 + [0, 8, 16, 64, 1, -8, 1 << 30]))
            kind = draw(
                st.sampled_from(["next"] * 60 + ["slot", "slot", "back", "back", "anywhere"])
            )
            address = (
                draw(st.integers(LOW, base))
                if kind == "back"
                else min(max(1, address + step), HIGH)
            )
            column.append(
                {"slot": 0, "anywhere": draw(st.sampled_from([1, LOW - 1, HIGH]))}.get(
                    kind, address
                )
            )
        columns.append(column)
    addresses = [column[call] for call in range(calls) for column in columns]
    return make_session(sizes, calls, windows), calls, addresses, list(windows.values())


@given(situations(), st.randoms(use_true_random=False))
def test_outputs_are_what_lies_at_their_addresses(
    situation: tuple[Session, int, list[int], list[torch.Tensor]], chance: random.Random
) -> None:
    session, calls, addresses, windows = situation
    try:
        before = expected(session, calls, addresses)
    except ValueError:
        with pytest.raises(BrokenProtocolError, match="where nothing was shared"):
            session.delivered(0, calls, addresses)
        return
    snapshot = session.delivered(0, calls, addresses)
    assert leaf_bytes(session, snapshot.copy) == before
    assert not snapshot.differs()
    written = chance.choice([*windows, session.region(session.arena.outputs, 0, calls).view(-1)])
    written[chance.randrange(len(written))] ^= 1
    assert leaf_bytes(session, snapshot.copy) == before
    if any(addresses):
        assert bool(snapshot.differs()) is (expected(session, calls, addresses) != before)
    assert leaf_bytes(session, session.delivered(0, calls, addresses).copy) == expected(
        session, calls, addresses
    )


@pytest.mark.parametrize("width", [24, 31])
@pytest.mark.parametrize("gap", [0, 8, 5, -8])
def test_equally_spaced_outputs_are_copied_in_one_go(width: int, gap: int) -> None:
    windows = {LOW: noise(64 * 40)}
    session = make_session([width], 64, windows)
    addresses = [LOW + call * (width + gap) for call in range(64)]
    snapshot = session.delivered(0, 64, addresses)
    assert (len(snapshot.runs), snapshot.rest) == (1, [])
    assert leaf_bytes(session, snapshot.copy) == expected(session, 64, addresses)


def test_a_run_ends_where_its_window_does() -> None:
    windows = {LOW: noise(100), LOW + 100: noise(100)}
    session = make_session([16], 12, windows)
    addresses = [LOW + 16 * call for call in range(12)]
    snapshot = session.delivered(0, 12, addresses)
    assert [len(source) for _, source in snapshot.runs] == [6, 5]
    assert len(snapshot.rest) == 2, "the one that lies across"
    with pytest.raises(BrokenProtocolError, match="where nothing was shared"):
        session.delivered(0, 12, [address + 9 for address in addresses])


def _in_segments(segments: int, each: int, width: int) -> tuple[Session, list[int]]:
    """A session with outputs in segments of its memory, and their addresses."""
    bases = [LOW + 4 * width * each * index for index in range(segments)]
    session = make_session([width], segments * each, {at: noise(width * each) for at in bases})
    return session, [at + width * index for at in bases for index in range(each)]


@pytest.mark.parametrize("joined_bytes", [0, 1 << 20])
@pytest.mark.parametrize("width", [24, 31])
def test_a_change_is_seen_in_any_of_many_runs(
    monkeypatch: pytest.MonkeyPatch, width: int, joined_bytes: int
) -> None:
    monkeypatch.setattr(snapshot, "JOINED_BYTES", joined_bytes)
    session, addresses = _in_segments(5, SHORTEST_RUN, width)
    addresses[1] = addresses[0]  # the first lie anywhere
    found = session.delivered(0, len(addresses), addresses)
    assert len(found.runs) > 1
    assert found.rest
    for address in addresses:
        assert not found.differs()
        byte = session.handle.mapped(address + width - 1, 1)
        assert byte is not None
        byte ^= 1
        assert found.differs()
        byte ^= 1


def test_outputs_in_many_segments_take_few_operations() -> None:
    """Each operation takes some 10 µs of the time for which the device is held."""
    seen: list[str] = []

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if not func.is_view:
                seen.append(str(func))
            return func(*args, **(kwargs or {}))

    session, addresses = _in_segments(20, 5, 24)
    with Seen():
        session.delivered(0, len(addresses), addresses).differs()
    assert len(seen) < 8, seen


def test_a_few_are_taken_one_by_one() -> None:
    session = make_session([8], SHORTEST_RUN - 1, {LOW: noise(64)})
    snapshot = session.delivered(
        0, SHORTEST_RUN - 1, [LOW + 8 * call for call in range(SHORTEST_RUN - 1)]
    )
    assert (snapshot.runs, len(snapshot.rest)) == ([], SHORTEST_RUN - 1)


def test_without_addresses_outputs_are_those_of_the_slots() -> None:
    session = make_session([24, 7], 3, {})
    assert session.arena is not None
    slots = session.region(session.arena.outputs, 0, 3)
    for addresses in ([], [0] * 6):
        snapshot = session.delivered(0, 3, addresses)
        assert torch.equal(snapshot.copy, slots)
        assert not snapshot.differs()
        slots[1, 3] ^= 1
        assert snapshot.differs()


def test_no_address_is_none_even_where_the_process_says_that_its_memory_begins_there() -> None:
    session = make_session([8], 8, {0: noise(64)})
    addresses = [8 * call for call in range(8)]
    assert leaf_bytes(session, session.delivered(0, 8, addresses).copy) == expected(
        session, 8, addresses
    )


@pytest.mark.parametrize("shape", [(1, 4096), (2, 24), (3, 17)])
def test_rewritten_memory_stays_as_it_is(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "COMPARED_WORDS", 8)
    memory = torch.randint(0, 256, shape, dtype=torch.uint8)
    before = memory.clone()
    snapshot.rewrite(memory)
    assert torch.equal(memory, before)
