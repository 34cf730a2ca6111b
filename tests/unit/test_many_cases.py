"""Many cases: more time, and no process that has served is kept until the last one is done."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from app.domain.evaluation import CaseOutcome, Environment, Evaluation, Status
from app.domain.evidence import Traces
from app.domain.job import Job, JobOptions
from app.domain.output_checks import Trial
from tests.unit.measurements import EMPTY, PASSED, TRIAL, with_trial
from workers.protocol import worker_socket
from workers.referee import evaluate_cases
from workers.referee.cancellation import Cancellation
from workers.referee.host.uncharged_time import UnchargedTime
from workers.worker import referee_client

ENVIRONMENT = Environment(
    device_class="cpu", device_name="d", device_id="0", node="n", python="3", torch="2", triton="3"
)
CASES = 100


def test_the_deadline_grows_with_the_number_of_cases() -> None:
    assert [evaluate_cases.allowed_s(120, cases) for cases in (1, 20, 40, 100)] == [
        120,
        120,
        240,
        600,
    ]
    assert evaluate_cases.allowed_s(3000, 100) == evaluate_cases.LONGEST_S
    assert evaluate_cases.allowed_s(7000, 100) == 7000


@pytest.mark.parametrize(
    ("other", "expected"),
    [(EMPTY, (Status.INVALID, "reference_failed")), (TRIAL, (Status.PASSED, None))],
)
def test_cases_of_which_none_has_an_answer_prove_nothing(
    other: Trial, expected: tuple[Status, str | None]
) -> None:
    found = [with_trial(replace(PASSED, timing=None), trial) for trial in (EMPTY, other)]
    merged = evaluate_cases.merged(found, b"", 120)
    assert (merged.status, merged.error and merged.error.kind) == expected


def test_a_hundred_cases_end_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    unreaped, most, deadlines = [0], [0], []

    def evaluate(
        job: Job, host: Any, cancellation: Cancellation, seed: bytes
    ) -> tuple[Evaluation, Traces]:
        deadlines.append(job.options.deadline_s)
        unreaped[0] += 2
        most[0] = max(most[0], unreaped[0])
        case = CaseOutcome(
            index=job.case, of=CASES, name=str(job.case), status=Status.PASSED, calls=1
        )
        return Evaluation(
            status=Status.PASSED, environment=ENVIRONMENT, seed="00", cases=(case,)
        ), Traces(timeline=b"")

    monkeypatch.setattr(evaluate_cases, "evaluate", evaluate)
    host: Any = SimpleNamespace(
        device_lock=SimpleNamespace(uncharged=UnchargedTime()),
        candidates=SimpleNamespace(reap=lambda: unreaped.__setitem__(0, 0)),
        conclude=None,
    )
    cancellation = Cancellation()
    job = Job(
        job_id=uuid4(),
        reference=b"",
        candidate=b"",
        backend="torch",
        options=JobOptions(cases=True, deadline_s=120),
    )
    evaluation, _ = evaluate_cases.evaluate_cases(job, host, cancellation)
    assert (evaluation.status, len(evaluation.cases)) == (Status.PASSED, CASES)
    assert most == [2]
    assert deadlines[0] == 120
    assert 590 < deadlines[1] <= 600
    assert cancellation.more_s == 480  # the worker has to wait so much longer


def test_a_worker_waits_longer_by_what_the_referee_says_and_no_longer() -> None:
    device_referee = referee_client.RefereeClient("cpu")
    ours, theirs = socket.socketpair()
    with ours, theirs:

        def referee() -> None:
            worker_socket.send(theirs, {"progress": {"begun": True}})
            worker_socket.send(theirs, {"progress": {"more_s": 30.0}})
            threading.Event().wait(0.2)
            worker_socket.send(theirs, {"answer": 1})

        speaking = threading.Thread(target=referee)
        speaking.start()
        assert device_referee._next_answer(ours, deadline=time.monotonic() + 0.1) == {"answer": 1}
        speaking.join()
        assert (device_referee._begun, device_referee.more_s) == (True, 30.0)
        device_referee.more_s = 0.0
        with pytest.raises(TimeoutError):
            device_referee._next_answer(ours, deadline=time.monotonic())
