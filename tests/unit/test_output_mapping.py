"""How timed blocks deliver, once it is known where outputs come to lie."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from workers.protocol.control_channel import Delivering, ReplyCode
from workers.referee.processes.process_handle import FailedError
from workers.referee.timing import output_mapping


def _sides(*mappable: bool) -> Any:
    """Trials with outputs that lie where they can be mapped, or not."""
    reference, candidate = (
        SimpleNamespace(delivering=Delivering.COPY, mappable=each) for each in mappable
    )
    return SimpleNamespace(
        surveys=True,
        arena=SimpleNamespace(outputs=SimpleNamespace(leaves=[{}])),
        draw=lambda count: None,
        device_lock=SimpleNamespace(shared=nullcontext),
        reference=reference,
        candidate=candidate,
    )


def _look(trials: Any, session: Any, batch: Any, count: int) -> None:
    session.delivering = Delivering.HOLD if session.mappable else Delivering.COPY


@pytest.mark.parametrize("reference", [True, False])
@pytest.mark.parametrize("candidate", [True, False])
def test_where_one_side_has_to_copy_its_outputs_both_do(
    monkeypatch: pytest.MonkeyPatch, *, reference: bool, candidate: bool
) -> None:
    monkeypatch.setattr(output_mapping, "_survey", _look)
    trials = _sides(reference, candidate)
    output_mapping.survey(trials, [(trials.reference, 8), (trials.candidate, 8)])
    found = {trials.reference.delivering, trials.candidate.delivering}
    assert found == {Delivering.HOLD if reference and candidate else Delivering.COPY}


ONE, NUMBER = {"kind": "tensor", "dtype": "float32", "shape": [4]}, {"kind": "float"}


@pytest.mark.parametrize(
    ("addresses", "leaves", "found"),
    [
        ([512, 256], [ONE, ONE], [(256, 272), (512, 528)]),
        ([256, 0, 512, 0], [ONE, NUMBER, ONE, NUMBER], [(256, 272), (512, 528)]),
        ([256, 0], [ONE, ONE], []),  # not in one piece: its process has copied it
        ([256, 256], [ONE, ONE], []),  # the same memory again
        ([256, 264], [ONE, ONE], []),
        ([0], [NUMBER], []),
    ],
)
def test_outputs_stay_where_they_are_if_all_can(
    addresses: list[int], leaves: list[dict[str, Any]], found: list[tuple[int, int]]
) -> None:
    assert output_mapping._spans(addresses, leaves) == found


@pytest.mark.parametrize(
    ("addresses", "compared", "found"),
    [
        ([256, 0, 512, 0], (3,), [(256, 272), (512, 528)]),
        ([256, 0, 0, 0], (3,), []),  # the second call's output is not in one piece
        ([0, 0], (0, 1), []),
        ([256, 512], (), [(256, 272), (512, 528)]),
    ],
)
def test_inputs_that_belong_to_the_answer_do_not_keep_outputs_from_their_places(
    monkeypatch: pytest.MonkeyPatch,
    addresses: list[int],
    compared: tuple[int, ...],
    found: list[tuple[int, int]],
) -> None:
    mapped: list[list[tuple[int, int]]] = []

    def note(runner: Any, session: Any, spans: list[tuple[int, int]]) -> bool:
        mapped.append(spans)
        return True

    monkeypatch.setattr(output_mapping, "_map", note)
    calls = 2 if len(addresses) == 4 else 1
    outputs = SimpleNamespace(leaves=[ONE] * (len(addresses) // calls))
    runner: Any = SimpleNamespace(arena=SimpleNamespace(outputs=outputs, compared_inputs=compared))
    assert output_mapping.map_in_place(runner, None, addresses, calls) == bool(found)
    assert mapped == ([found] if found else [])


class Process:
    """A process with memory in pieces of 100 bytes, from multiples of that on."""

    def __init__(self, last: int = 10_000) -> None:
        """`last`: end of the memory that can be shared."""
        self.last = last
        self.pieces: set[int] = set()
        self.lock = Lock()

    def mapped(self, address: int, size: int) -> bytes | None:
        base = address - address % 100
        return bytes(min(size, base + 100 - address)) if base in self.pieces else None

    def map_segment(self, address: int, _: float) -> None:
        assert self.lock.held
        if address >= self.last:
            raise FailedError(ReplyCode.CALL_FAILED, "it cannot be shared")
        self.pieces.add(address - address % 100)


class Lock:
    """A lock that counts how often it was taken."""

    def __init__(self) -> None:
        self.held, self.taken = False, 0

    def __enter__(self) -> None:
        self.held, self.taken = True, self.taken + 1

    def __exit__(self, *_: object) -> None:
        self.held = False


@pytest.mark.parametrize("is_candidate", [True, False])
def test_pieces_are_mapped_once_whatever_lies_in_them(*, is_candidate: bool) -> None:
    """Timers may go first before each of them, and others use the process."""
    handle, done = Process(), list[str]()
    session: Any = SimpleNamespace(
        handle=handle, process=SimpleNamespace(freeze=lambda: done.append("frozen"))
    )
    runner: Any = SimpleNamespace(
        candidate=session if is_candidate else None,
        time_limit_s=lambda *_: 1.0,
        yield_to_timers=lambda: done.append("yielded") if not handle.lock.held else None,
    )
    spans = [(at, at + 20) for at in range(0, 180, 20)] + [(290, 520)]
    assert output_mapping._map(runner, session, spans)
    assert handle.pieces == {0, 100, 200, 300, 400, 500}
    assert handle.lock.taken <= len(handle.pieces) + 1
    assert done == ["yielded"] * handle.lock.taken + ["frozen"] * is_candidate
    assert output_mapping._map(runner, session, spans)
    assert handle.lock.taken <= len(handle.pieces) + 2
    handle.last = 600
    assert not output_mapping._map(runner, session, [*spans, (600, 610)])
