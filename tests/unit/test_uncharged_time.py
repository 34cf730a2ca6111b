"""Time that is not the candidate's: waits, requests to the reference, comparisons of outputs."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from app.domain.evaluation import CaseOutcome, Environment, Evaluation, Status
from app.domain.evidence import Traces
from app.domain.job import Job, JobOptions
from workers.protocol.control_channel import Command
from workers.referee import evaluate_cases
from workers.referee.host.uncharged_time import UnchargedTime
from workers.referee.session.call_runner import CallRunner
from workers.referee.session.deadline import Deadline
from workers.referee.session.reference_side import ReferenceFailedError, reference_side

ENVIRONMENT = Environment(
    device_class="cpu", device_name="d", device_id="0", node="n", python="3", torch="2", triton="3"
)
CASES = 5


class Clock:
    """A clock that stands still between its `pass_` calls."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made)
    return made


def test_work_includes_no_wait_and_nested_work_counts_once(clock: Clock) -> None:
    uncharged = UnchargedTime()
    with uncharged.working():
        clock.pass_(1)
        with uncharged.working(), uncharged.waiting():
            clock.pass_(10)
        clock.pass_(2)
        assert (uncharged.work_s(), uncharged.waited_s()) == (3, 10)
    clock.pass_(100)  # the candidate's
    assert (uncharged.work_s(), uncharged.waited_s(), uncharged.total_s()) == (3, 10, 13)


def test_a_pause_of_a_process_that_works_is_a_wait(clock: Clock) -> None:
    uncharged = UnchargedTime()
    with uncharged.working():
        clock.pass_(5)
        uncharged.add(4)
    assert (uncharged.work_s(), uncharged.waited_s()) == (1, 4)


def test_a_slow_reference_and_a_slow_comparison_leave_the_candidate_its_time(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    uncharged = UnchargedTime()
    runner: Any = object.__new__(CallRunner)
    runner.deadline = Deadline(20, 5, uncharged=uncharged, work_s=50)
    runner.device_lock = SimpleNamespace(uncharged=uncharged, obstructed=False)
    slow = SimpleNamespace(
        verify=lambda *_, **__: not clock.pass_(19), are_right=lambda _: not clock.pass_(19)
    )
    monkeypatch.setattr(CallRunner, "verification", slow)
    with reference_side(uncharged):
        clock.pass_(30)
    clock.pass_(3)
    runner.verify()
    runner.are_right(None)
    assert runner.deadline.left_s == 17
    with pytest.raises(ReferenceFailedError, match="more than 50 s"):
        runner.verify()


def test_a_draw_is_no_time_of_the_candidates(clock: Clock) -> None:
    """A process that takes half a minute to draw inputs, and one that makes none of them."""
    uncharged = UnchargedTime()
    runner: Any = object.__new__(CallRunner)
    runner.deadline = Deadline(20, 5, uncharged=uncharged)
    runner.device_lock = SimpleNamespace(uncharged=uncharged)
    runner.draw_us = 0.0
    asked: list[int] = []

    def ask(command: int, *_: object, **__: object) -> tuple[int, int]:
        asked.append(command)
        clock.pass_(30)
        return 0, 0

    handle = SimpleNamespace(lock=uncharged.waiting())
    runner.reference = SimpleNamespace(ask=ask, wait_for_readers=lambda: None, handle=handle)
    runner._generate(b"", 0, 1)
    assert asked == [Command.GENERATE]
    assert runner.deadline.left_s == 20


def _evaluated(monkeypatch: pytest.MonkeyPatch, clock: Clock, own_s: float, work_s: float) -> Any:
    """The merged evaluation of cases, each of which takes so long for either side."""
    uncharged = UnchargedTime()

    def evaluate(job: Job, *_: object) -> tuple[Evaluation, Traces]:
        with uncharged.working():
            clock.pass_(work_s)
        clock.pass_(own_s)
        case = CaseOutcome(
            index=job.case, of=CASES, name=str(job.case), status=Status.PASSED, calls=1
        )
        found = Evaluation(status=Status.PASSED, environment=ENVIRONMENT, seed="00", cases=(case,))
        return found, Traces(timeline=b"")

    monkeypatch.setattr(evaluate_cases, "evaluate", evaluate)
    host: Any = SimpleNamespace(
        device_lock=SimpleNamespace(uncharged=uncharged),
        candidates=SimpleNamespace(reap=lambda: None),
    )
    options = JobOptions(cases=True, deadline_s=60)
    job = Job(job_id=uuid4(), reference=b"", candidate=b"", backend="torch", options=options)
    return evaluate_cases.evaluate_cases(job, host)[0]


@pytest.mark.parametrize(
    ("own_s", "work_s", "status", "kind", "cases"),
    [
        (11, 11, Status.PASSED, None, CASES),  # 110 s, half of them the reference's
        (25, 0, Status.TIMEOUT, "deadline", 3),
        (1, 35, Status.INVALID, "reference_failed", 2),
    ],
)
def test_describing_a_slow_reference_case_by_case_is_no_time_of_the_candidates(
    monkeypatch: pytest.MonkeyPatch,
    clock: Clock,
    own_s: float,
    work_s: float,
    status: Status,
    kind: str | None,
    cases: int,
) -> None:
    found = _evaluated(monkeypatch, clock, own_s, work_s)
    assert (found.status, found.error and found.error.kind) == (status, kind)
    assert len(found.cases) == cases
