"""Each process of the service may die at any moment: it is started again before the
next attempt; no side is blamed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from uuid import uuid4

import pytest

from app.domain.evaluation import Status
from app.domain.job import Job, JobOptions
from tests.processes import children, command_line, is_running
from tests.waiting import until
from workers.worker import referee_client

REFERENCE = b"""
import torch
class Model(torch.nn.Module):
    def forward(self, x): return torch.relu(x) + 1
def get_inputs(): return [torch.randn(64, 64)]
"""
HONEST = REFERENCE.replace(b"class Model(", b"class ModelNew(")
SLOW = HONEST.replace(b"return torch", b"__import__('time').sleep(60); return torch")
HELPERS = {
    "zygote": "workers.sandbox.zygote .* workers.shims.candidate",
    "builders": "workers.sandbox.zygote .* workers.shims.builder",
    "stopwatch": "workers.referee.host.stopwatch",
    "core_waker": "workers.referee.host.core_waker",
}


def job(candidate: bytes = HONEST, backend: str = "torch") -> Job:
    options = JobOptions(call_timeout_s=90, timing_budget_s=0.05, deadline_s=90)
    return Job(
        job_id=uuid4(), reference=REFERENCE, candidate=candidate, backend=backend, options=options
    )


def passes(device_referee: referee_client.RefereeClient, backend: str = "torch") -> None:
    evaluation = device_referee.run(job(backend=backend)).evaluation
    assert evaluation.status is Status.PASSED, evaluation.error


def referee(device_referee: referee_client.RefereeClient) -> int:
    assert device_referee._process is not None
    return device_referee._process.pid


def helper(device_referee: referee_client.RefereeClient, which: str) -> int:
    """The process of the referee's own with all words of HELPERS in its command line."""
    words = HELPERS[which].split(" .* ")
    for pid in children(referee(device_referee)):
        line = command_line(pid)
        if all(word in line for word in words):
            return pid
    raise AssertionError(f"no {which}")


def kill(pid: int) -> None:
    """Returns when it is dead: reaped, or waiting to be."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not is_running(pid))


@pytest.mark.parametrize("which", ["builders", "stopwatch", "core_waker"])
def test_a_helper_that_has_died_is_started_again_before_the_next_evaluation(
    device_referee: referee_client.RefereeClient, which: str
) -> None:
    passes(device_referee, "triton")
    before, dead = referee(device_referee), helper(device_referee, which)
    kill(dead)
    passes(device_referee, "triton")
    assert helper(device_referee, which) != dead
    assert referee(device_referee) == before


def test_builders_are_started_for_a_backend_whose_kernels_they_compile() -> None:
    with referee_client.RefereeClient("cpu") as fresh:
        passes(fresh)
        with pytest.raises(AssertionError, match="no builders"):
            helper(fresh, "builders")
        passes(fresh, "triton")
        assert helper(fresh, "builders")


def test_dead_wardens_harm_no_other_process(device_referee: referee_client.RefereeClient) -> None:
    """One above the reference, which is kept, and one above the spare that is ready
    for the next candidate.
    """
    passes(device_referee)
    zygote = helper(device_referee, "zygote")
    until(lambda: len(children(zygote)) >= 2)  # the spare is started after the evaluation
    for warden in children(zygote):
        kill(warden)
    passes(device_referee)
    assert helper(device_referee, "zygote") == zygote


def test_a_zygote_that_has_died_takes_the_referee_with_it_and_no_job(
    device_referee: referee_client.RefereeClient,
) -> None:
    passes(device_referee)
    before = referee(device_referee)
    kill(helper(device_referee, "zygote"))
    with pytest.raises(referee_client.InfrastructureError) as caught:
        device_referee.run(job())
    assert (caught.value.begun, caught.value.cut_short) == (False, True)
    passes(device_referee)
    assert referee(device_referee) != before


@pytest.mark.parametrize("which", ["zygote", "referee"])
def test_a_death_during_an_evaluation_is_not_the_candidates_fault(
    device_referee: referee_client.RefereeClient, which: str
) -> None:
    passes(device_referee)
    victim = referee(device_referee) if which == "referee" else helper(device_referee, which)
    caught: list[BaseException] = []

    def run() -> None:
        try:
            device_referee.run(job(SLOW))
        except referee_client.InfrastructureError as error:
            caught.append(error)

    device_referee._begun = False
    at_it = threading.Thread(target=run)
    at_it.start()
    until(lambda: device_referee._begun)
    kill(victim)
    at_it.join()
    (error,) = caught
    assert isinstance(error, referee_client.InfrastructureError)
    assert (error.begun, error.cut_short) == (True, True), error
    passes(device_referee)
