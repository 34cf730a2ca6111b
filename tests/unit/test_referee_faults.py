"""The referee itself runs out of memory, or loses its device."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import uuid
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from app.domain.evaluation import Environment, Evaluation, EvaluationError, Status
from app.domain.evidence import Traces
from app.domain.job import Job
from workers.protocol import worker_socket
from workers.referee import evaluate, serve
from workers.referee.host.uncharged_time import UnchargedTime
from workers.referee.resources import LostZygoteError, Resources
from workers.referee.session.fault_attribution import Fault, invalid
from workers.sandbox.process_errors import Ended

ENVIRONMENT = Environment(
    device_class="cpu", device_name="d", device_id="0", node="n", python="3", torch="2", triton="3"
)
JOB = Job(job_id=uuid.uuid4(), reference=b"", candidate=b"", backend="torch")


class Tensor:
    """Something that takes memory."""


def test_a_second_attempt_has_the_memory_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    first: list[weakref.ref[Tensor]] = []

    def attempt(*_: Any, room: evaluate.Room) -> tuple[Any, Fault | None]:
        kept = Tensor()
        stages = SimpleNamespace(chrome_trace=lambda *_: b"")
        progress = SimpleNamespace(
            shares_memory=room is not evaluate.Room.ALONE,
            cancellation=SimpleNamespace(requested=False),
            kept=kept,
            stages=stages,
            launches=[],
            codes=(),
        )
        if room is not evaluate.Room.ONCE:
            assert first[0]() is None
            return progress, None
        first.append(weakref.ref(kept))
        try:
            raise invalid(
                "no_room", "no memory", out_of_memory=True
            )  # its traceback holds this frame
        except Fault as fault:
            return progress, fault

    monkeypatch.setattr(evaluate, "_attempt", attempt)
    monkeypatch.setattr(evaluate, "conclude", lambda *_: SimpleNamespace(timing=None))
    evaluate.evaluate(JOB, SimpleNamespace())  # type: ignore[arg-type]
    assert first


def fake_host(**parts: Any) -> Any:
    nothing = dict.fromkeys(("restart_helpers", "start_builders", "require_zygote"), lambda: None)
    sound = SimpleNamespace(require_sound=lambda: None)
    lease = SimpleNamespace(uncharged=UnchargedTime(), waited_s=UnchargedTime().waited_s)
    usual = {
        "lost": False,
        "candidates": SimpleNamespace(recycle=lambda size: None),
        "health": sound,
        "device_lock": lease,
        "baselines": None,
    }
    return SimpleNamespace(**nothing | usual | parts)


def answered(host: Any) -> dict[str, Any]:
    """The referee's answer to a job, after its word that it has begun."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        serve.Connection(theirs, host)._answer(worker_socket.from_job(JOB))
        assert worker_socket.receive(ours) == {"progress": {"begun": True}}
        answer = worker_socket.receive(ours)
    assert answer is not None
    return answer


def ended(status: Status, message: str = "") -> tuple[Evaluation, Traces]:
    error = EvaluationError(kind="crashed", message=message) if message else None
    return Evaluation(status=status, environment=ENVIRONMENT, seed="00", error=error), Traces(
        timeline=b"{}"
    )


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        ([ended(Status.CRASHED, str(Ended(status=9))), ended(Status.PASSED)], "passed"),
        (
            [
                ended(Status.INVALID, f"the reference failed: {Ended(status=9)}"),
                ended(Status.PASSED),
            ],
            "passed",
        ),
        ([ended(Status.CRASHED, str(Ended(status=9)))] * 2, "crashed"),
        ([ended(Status.CRASHED, str(Ended(status=11)))], "crashed"),
    ],
)
def test_what_was_killed_from_outside_is_evaluated_once_more(
    monkeypatch: pytest.MonkeyPatch, ends: list[Any], status: str
) -> None:
    left = list(ends)
    monkeypatch.setattr(serve, "measure", lambda *_: left.pop(0))
    assert answered(fake_host())["evaluation"]["status"] == status
    assert not left


def test_a_dead_zygote_is_not_the_candidates_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end kills the candidate's process, which looks like a crash."""

    def gone() -> None:
        raise LostZygoteError("the zygote has ended")

    codes: list[int] = []
    monkeypatch.setattr("workers.referee.serve.os._exit", codes.append)
    monkeypatch.setattr(
        serve, "measure", lambda *_: ended(Status.CRASHED, "the process exited with code 1")
    )
    answer = answered(fake_host(require_zygote=gone, lost=True))
    assert (answer["cut_short"], answer["ends"], codes) == (True, True, [serve.LOST])


@pytest.mark.parametrize("lost", [True, False])
def test_a_referee_without_its_device_ends(monkeypatch: pytest.MonkeyPatch, lost: bool) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("an illegal memory access was encountered")

    codes: list[int] = []
    monkeypatch.setattr(serve, "measure", broken)
    monkeypatch.setattr("workers.referee.serve.os._exit", codes.append)
    answer = answered(fake_host(lost=lost))
    assert "illegal memory access" in answer["error"]
    assert codes == ([serve.LOST] if lost else [])


def test_a_helper_outlives_the_evaluation_that_started_it() -> None:
    """Its parent-death signal comes when the thread ends that started it."""
    resources = Resources.__new__(Resources)
    resources._starter = ThreadPoolExecutor(1)
    body = "import ctypes, time; ctypes.CDLL(None).prctl(1, 9); print(flush=True); time.sleep(60)"
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", body], stdout=subprocess.PIPE)

    def evaluate_once() -> None:
        started.append(resources._lasting(start))
        assert started[0].stdout is not None
        started[0].stdout.read(1)  # it has asked for the signal

    evaluation = threading.Thread(target=evaluate_once)
    evaluation.start()
    evaluation.join()
    with started[0] as process:
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.2)
        finally:
            process.kill()
            resources._starter.shutdown()
