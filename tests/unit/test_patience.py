"""Waiting times for other evaluations, their limits, and the results."""

from __future__ import annotations

import math
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from app.domain.job import Job, JobOptions
from workers.protocol import worker_socket
from workers.referee.session.call_runner import LATER_S, CallRunner
from workers.referee.session.deadline import Deadline
from workers.worker import referee_client

JOB = Job(job_id=uuid.uuid4(), reference=b"", candidate=b"", backend="triton", device_class="h200")


@contextmanager
def _asked_too_much(*, drops: bool) -> Iterator[subprocess.Popen[bytes]]:
    """A shared referee that does not answer in time; one that `drops` cancelled
    requests, or hangs.
    """
    ours, theirs = socket.socketpair()
    device_referee = referee_client.RefereeClient("h200", slots=2)
    with (
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process,
        ours,
        theirs,
    ):
        device_referee._channel, device_referee._referee_pid = ours, process.pid

        def referee() -> None:
            assert worker_socket.receive(theirs) is not None
            if drops:
                assert worker_socket.receive(theirs) is None  # the other end wants nothing more
                worker_socket.send(theirs, {"error": "cancelled"})

        thread = threading.Thread(target=referee)
        thread.start()
        worker_socket.send(ours, worker_socket.from_job(JOB))
        with pytest.raises(referee_client.InfrastructureError, match=r"no answer within 0\.1 s"):
            device_referee._receive(0.1)
        thread.join()
        yield process


def test_a_shared_referee_that_drops_an_evaluation_lives_on_for_the_others() -> None:
    with _asked_too_much(drops=True) as process:
        assert process.poll() is None


def test_one_that_cannot_hangs_for_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(referee_client, "GIVE_UP_S", 0.1)
    with _asked_too_much(drops=False) as process:
        assert process.wait(5) == -9


def test_what_follows_the_deadline_is_waited_for() -> None:
    options = JobOptions(deadline_s=100, call_timeout_s=30)
    assert (
        options.patience_s >= 100 + 3 * 30 + 60 + 30 + 10
    )  # without kernels; the profiler; a process without any
    assert JobOptions(call_timeout_s=3600).last_call_s < 3600


def test_later_calls_on_a_gpu_take_no_longer_than_the_first_let_expect() -> None:
    trials = object.__new__(CallRunner)
    trials.candidate, trials.deadline = object(), Deadline(1000, 300)  # type: ignore[assignment]
    trials.surveys, trials.quickest_s = True, None
    assert trials.time_limit_s(trials.candidate, 1) == 300  # it compiles
    trials.quickest_s = 0.5
    assert trials.time_limit_s(trials.candidate, 4) == pytest.approx(LATER_S + 20)
    trials.quickest_s = math.inf
    assert trials.time_limit_s(trials.candidate, 1) == 300
    trials.surveys, trials.quickest_s = False, 0.5  # no other evaluation waits for a CPU's one slot
    assert trials.time_limit_s(trials.candidate, 1) == 300


def test_a_first_call_that_compiles_has_longer_and_never_beyond_the_deadline() -> None:
    assert Deadline(1000, 30).allow_first(compiles=True) == 90
    assert Deadline(1000, 30).allow_first(compiles=False) == 30
    assert Deadline(40, 30).allow_first(compiles=True) == pytest.approx(40, abs=1)
