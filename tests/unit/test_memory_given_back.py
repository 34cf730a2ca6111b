"""Device memory that an evaluation gives back: nothing keeps it, and who relied on it learns of that."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from workers.protocol.control_channel import Delivering
from workers.referee.processes.process_handle import ProcessHandle
from workers.referee.processes.process_session import Session
from workers.referee.session.batches import Truth
from workers.referee.session.draws import Draws
from workers.referee.timing import output_mapping

CPU = torch.device("cpu")


@pytest.mark.parametrize(("free_bytes", "stays"), [(99, False), (100, True)])
def test_expected_outputs_are_gone_once_their_memory_is_released(
    monkeypatch: pytest.MonkeyPatch, free_bytes: int, stays: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free_bytes, 1000))
    draws: Any = object.__new__(Draws)
    draws._device, draws._truth_bytes = torch.device("cuda"), 100
    memory = torch.zeros(8)
    draws._expected = SimpleNamespace(memory=memory)
    draws._last = ((None, 0, 1), 7, Truth(expected=[memory[:4]], baseline=[]))
    alive = weakref.ref(memory.untyped_storage())
    del memory
    draws.release_spare_memory()
    assert (alive() is not None) == stays
    assert (draws._last is not None) == stays


@pytest.fixture
def handle() -> ProcessHandle:
    return ProcessHandle(SimpleNamespace(kill=lambda wait_s: None), CPU)  # type: ignore[arg-type]


def test_every_evaluation_learns_that_its_reference_has_given_memory_back(handle: ProcessHandle) -> None:
    first, second = sessions = Session(handle, 1), Session(handle, 2)
    for session in sessions:
        session.delivering, session.mapping = Delivering.HOLD, handle.mappings_dropped
    draws: Any = object.__new__(Draws)
    draws.reference = second
    assert not draws.gave_back
    handle.unmap_segments()  # on behalf of the first
    assert first.has_lost_mapping
    assert draws.gave_back
    second.delivering = Delivering.COPY
    assert not draws.gave_back  # nothing stays in place
    handle.close()


def test_a_survey_begins_before_mappings_may_be_dropped(monkeypatch: pytest.MonkeyPatch, handle: ProcessHandle) -> None:
    session: Any = Session(handle, 1)
    session.pointers = lambda count: [1 << 20]
    session.timed_run = lambda *_: (1, 1)
    session.process.freeze = lambda: None
    runner: Any = SimpleNamespace(candidate=None, fill=lambda *_: None, slot=lambda *_: 0, time_limit_s=lambda *_: 1.0)
    monkeypatch.setattr(output_mapping, "map_in_place", lambda *_: not handle.unmap_segments())
    output_mapping._survey(runner, session, None, 1)
    assert session.delivering == Delivering.HOLD
    assert session.has_lost_mapping
    monkeypatch.setattr(output_mapping, "map_in_place", lambda *_: True)
    output_mapping._survey(runner, session, None, 1)
    assert not session.has_lost_mapping
    handle.close()
