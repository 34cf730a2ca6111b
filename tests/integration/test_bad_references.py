"""References that never answer, take memory without end, or give out their inputs: each ends by
itself, soon, and the next problem is evaluated.  On the CPU device, in this process.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import pytest

from app.domain import problem_check
from app.domain.evaluation import Evaluation, Status
from app.domain.job import Job
from workers.referee import admission, evaluate
from workers.referee.measure import measure
from workers.referee.resources import Resources
from workers.referee.session import setup

TIMEOUT_S = 2.0
"""For a reference without end."""
USUAL_S = 40.0
"""Less than a reference usually has, and far more than any of this takes."""
MODEL = """
import numpy, torch
class Model(torch.nn.Module):
    def forward(self, x, y):
        {forward}
def get_inputs():
    {inputs}
"""
INPUTS = "return [torch.randn(16, 24), torch.randn(16, 24)]"
ENDLESS = "while True: pass"
HOARDING = "kept = []\n        while True: kept.append(numpy.empty(1 << 28))"


def reference(forward: str = "return x + y", inputs: str = INPUTS) -> bytes:
    return MODEL.format(forward=forward, inputs=inputs).encode()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resources]:
    with Resources("cpu", "test", lock_folder=tmp_path_factory.mktemp("leases")) as started:
        started.wait_ready()
        yield started


def against_itself(host: Resources, source: bytes, timing_budget_s: float = 0.0) -> Evaluation:
    options = replace(problem_check.options(timing_budget_s), call_timeout_s=20.0)
    job = Job(
        job_id=uuid4(),
        reference=source,
        candidate=problem_check.identity(source),
        backend=problem_check.BACKEND,
        options=options,
    )
    found, _ = measure(job, host)
    host.candidates.recycle(options.memory_bytes)
    return found


def impatiently(host: Resources, source: bytes) -> Evaluation:
    """With little time for the reference: only where it has no end, because a busy
    machine is slow.
    """
    with pytest.MonkeyPatch.context() as patch:
        for module in (admission, evaluate, setup):
            patch.setattr(module, "REFERENCE_TIMEOUT_S", TIMEOUT_S)
        return against_itself(host, source)


@pytest.mark.parametrize(
    "source",
    [reference(ENDLESS), b"while True: pass\n" + reference()],
    ids=["a call", "its import"],
)
def test_a_reference_without_end_ends_and_the_next_problem_is_evaluated(
    host: Resources, source: bytes
) -> None:
    began = time.monotonic()
    found = impatiently(host, source)
    assert time.monotonic() - began < USUAL_S
    assert (found.status, found.error and found.error.kind) == (Status.INVALID, "reference_failed")
    assert found.error is not None
    assert "no answer within" in found.error.message
    assert against_itself(host, reference()).status is Status.PASSED


def test_a_reference_that_takes_memory_without_end_is_told(host: Resources) -> None:
    found = against_itself(host, reference(HOARDING))
    assert (found.status, found.error and found.error.kind) == (Status.INVALID, "reference_failed")
    assert found.error is not None
    assert "memory" in found.error.message.lower()
    assert against_itself(host, reference()).status is Status.PASSED


def test_candidates_of_a_problem_without_end_do_not_wait_for_it_again(host: Resources) -> None:
    source = reference(ENDLESS) + b"# another\n"
    impatiently(host, source)
    began = time.monotonic()
    again = against_itself(host, source)
    assert time.monotonic() - began < USUAL_S
    assert again.error is not None
    assert "no answer in time" in again.error.message


@pytest.mark.parametrize("forward", ["return x.t()", "return x, x[:, ::2], y.view(-1), x[:0]"])
def test_views_of_the_inputs_are_outputs_like_any_other(host: Resources, forward: str) -> None:
    found = against_itself(host, reference(forward), timing_budget_s=0.02)
    assert found.status is Status.PASSED, found.error
    assert found.correctness is not None
    assert found.correctness.failed_calls == 0


@pytest.mark.parametrize(
    "forward", ["return x[:0]", "return x[:0], {'y': y[:, :0]}", "return None"]
)
def test_an_answer_without_elements_proves_nothing(host: Resources, forward: str) -> None:
    found = against_itself(host, reference(forward))
    assert (found.status, found.error and found.error.kind) == (Status.INVALID, "reference_failed")
    assert found.error is not None
    assert "no elements" in found.error.message
