"""Each process of ours may die at any moment: it is started again before the next attempt, and nobody is blamed."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path
from uuid import uuid4

import pytest

from app.domain.evaluation import Status
from app.domain.job import Job, JobOptions
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
    "wakeful": "workers.referee.host.cpu_idle",
}


def job(candidate: bytes = HONEST) -> Job:
    options = JobOptions(call_timeout_s=90, timing_budget_s=0.05, deadline_s=90)
    return Job(job_id=uuid4(), reference=REFERENCE, candidate=candidate, backend="torch", options=options)


def passes(isolator: referee_client.Isolator) -> None:
    evaluation = isolator.run(job()).evaluation
    assert evaluation.status is Status.PASSED, evaluation.error


def referee(isolator: referee_client.Isolator) -> int:
    assert isolator._process is not None
    return isolator._process.pid


def helper(isolator: referee_client.Isolator, which: str) -> int:
    """The process of the referee's own whose command line has all words of HELPERS."""
    words = HELPERS[which].split(" .* ")
    direct = Path(f"/proc/{referee(isolator)}/task/{referee(isolator)}/children").read_text().split()
    for pid in map(int, direct):
        line = Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ")
        if all(word in line for word in words):
            return pid
    raise AssertionError(f"no {which}")


def kill(pid: int) -> None:
    """Returns when it is dead: reaped, or waiting to be."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    stat = Path(f"/proc/{pid}/stat")
    until(lambda: not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.mark.parametrize("which", ["builders", "stopwatch", "wakeful"])
def test_a_helper_that_has_died_is_started_again_before_the_next_evaluation(
    isolator: referee_client.Isolator, which: str
) -> None:
    passes(isolator)
    before, dead = referee(isolator), helper(isolator, which)
    kill(dead)
    passes(isolator)
    assert helper(isolator, which) != dead
    assert referee(isolator) == before


def test_dead_wardens_harm_no_other_process(isolator: referee_client.Isolator) -> None:
    """One above the reference, which is kept, and one above the spare that is ready for the next candidate."""
    passes(isolator)
    zygote = helper(isolator, "zygote")
    children = Path(f"/proc/{zygote}/task/{zygote}/children")
    until(lambda: len(children.read_text().split()) >= 2)  # the spare is started after the evaluation
    for warden in map(int, children.read_text().split()):
        kill(warden)
    passes(isolator)
    assert helper(isolator, "zygote") == zygote


def test_a_zygote_that_has_died_takes_the_referee_with_it_and_no_job(isolator: referee_client.Isolator) -> None:
    passes(isolator)
    before = referee(isolator)
    kill(helper(isolator, "zygote"))
    with pytest.raises(referee_client.InfrastructureError) as caught:
        isolator.run(job())
    assert (caught.value.begun, caught.value.cut_short) == (False, True)
    passes(isolator)
    assert referee(isolator) != before


@pytest.mark.parametrize("which", ["zygote", "referee"])
def test_a_death_during_an_evaluation_is_not_the_candidates_fault(
    isolator: referee_client.Isolator, which: str
) -> None:
    passes(isolator)
    victim = referee(isolator) if which == "referee" else helper(isolator, which)
    caught: list[BaseException] = []

    def run() -> None:
        try:
            isolator.run(job(SLOW))
        except referee_client.InfrastructureError as error:
            caught.append(error)

    isolator._begun = False
    at_it = threading.Thread(target=run)
    at_it.start()
    until(lambda: isolator._begun)
    kill(victim)
    at_it.join()
    (error,) = caught
    assert isinstance(error, referee_client.InfrastructureError)
    assert (error.begun, error.cut_short) == (True, True), error
    passes(isolator)
