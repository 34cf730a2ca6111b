"""Problems of gigabytes on a GPU: expected outputs made when verifying, calls
streamed, problems that do not fit.

Needs nothing but torch and triton: `pytest -m gpu --noconftest tests/gpu/test_large_on_gpu.py`.
"""

import time
from collections.abc import Iterator
from uuid import uuid4

import pytest

from app.domain.evaluation import Evaluation, Status
from app.domain.job import Job, JobOptions
from app.domain.problem_check import identity

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]

REFERENCE = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return {body}
def get_inputs(): return [torch.rand({shape})]
def get_init_inputs(): return []
"""
REFUSED_S = 20.0
"""Seconds within which a problem that is larger than any device is refused."""


@pytest.fixture(scope="module")
def host() -> Iterator[object]:
    from workers.referee.resources import Resources

    with Resources("gpu", "test", slots=8) as started:
        started.wait_ready()
        yield started


def _evaluated(host: object, body: str, shape: str, candidate: str | None = None) -> Evaluation:
    from workers.referee.evaluate import evaluate

    reference = REFERENCE.format(body=body, shape=shape).encode()
    source = identity(reference) if candidate is None else candidate.encode()
    job = Job(
        job_id=uuid4(),
        reference=reference,
        candidate=source,
        backend="torch",
        options=JobOptions(
            timing_budget_s=0.08, call_timeout_s=30, deadline_s=120, policy="anything-correct"
        ),
    )
    return evaluate(job, host)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("torch.softmax(x, 1)", "4096, 4096"),
        ("torch.relu(x)", "4096, 131072"),
        ("x / torch.norm(x)", "4096, 131072"),
        ("torch.sum(x, 1)", "8192, 262144"),
    ],
)
def test_a_large_reference_against_itself_passes_as_fast_as_itself(
    host: object, body: str, shape: str
) -> None:
    found = _evaluated(host, body, shape)
    assert found.status is Status.PASSED, found.error
    assert found.timing is not None
    assert found.timing.ci_low <= 1.0 <= found.timing.ci_high
    assert found.timing.speedup == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("body", ["x * 1.001", "x.half().float()", "torch.relu(x - 0.001)"])
def test_a_wrong_answer_of_gigabytes_is_found(host: object, body: str) -> None:
    candidate = REFERENCE.format(body=body, shape="1").replace("class Model(", "class ModelNew(")
    found = _evaluated(host, "torch.relu(x)", "4096, 131072", candidate)
    assert found.status is Status.INCORRECT, found


def test_a_problem_larger_than_the_device_is_refused_within_seconds(host: object) -> None:
    began = time.monotonic()
    found = _evaluated(host, "torch.relu(x)", "1 << 20, 1 << 20")
    assert (found.status, found.error and found.error.kind) == (Status.INVALID, "problem_too_large")
    assert time.monotonic() - began < REFUSED_S
    assert _evaluated(host, "torch.relu(x)", "256, 1024").status is Status.PASSED
