"""What is done when the referee itself runs out of memory, or loses its device."""

from __future__ import annotations

import socket
import uuid
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from app.domain.job import Job
from workers import frames
from workers.referee import evaluate, serve
from workers.referee.faults import Fault, invalid

JOB = Job(job_id=uuid.uuid4(), reference=b"", candidate=b"", backend="torch")


class Tensor:
    """Something that takes memory."""


def test_a_second_attempt_has_the_memory_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    first: list[weakref.ref[Tensor]] = []

    def attempt(*_: Any, alone: bool) -> tuple[Any, Fault | None]:
        kept = Tensor()
        stages = SimpleNamespace(chrome_trace=lambda *_: b"")
        progress = SimpleNamespace(among_others=not alone, kept=kept, stages=stages, launches=[])
        if alone:
            assert first[0]() is None
            return progress, None
        first.append(weakref.ref(kept))
        try:
            raise invalid("no_room", "no memory", starved=True)  # whose traceback holds this frame
        except Fault as fault:
            return progress, fault

    monkeypatch.setattr(evaluate, "_attempt", attempt)
    monkeypatch.setattr(evaluate, "_conclude", lambda *_: SimpleNamespace(timing=None))
    evaluate.evaluate(JOB, SimpleNamespace())  # type: ignore[arg-type]
    assert first


@pytest.mark.parametrize("lost", [True, False])
def test_a_referee_without_its_device_ends(monkeypatch: pytest.MonkeyPatch, lost: bool) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("an illegal memory access was encountered")

    codes: list[int] = []
    monkeypatch.setattr(serve, "measure", broken)
    monkeypatch.setattr(serve.os, "_exit", codes.append)
    host: Any = SimpleNamespace(
        lost=lost, recycle=lambda size: None, health=SimpleNamespace(require_sound=lambda: None)
    )  # fmt: skip
    ours, theirs = socket.socketpair()
    with ours, theirs:
        serve.Connection(theirs, host)._answer(frames.from_job(JOB))
        answer = frames.receive(ours)
    assert answer is not None
    assert "illegal memory access" in answer["error"]
    assert codes == ([serve.LOST] if lost else [])
