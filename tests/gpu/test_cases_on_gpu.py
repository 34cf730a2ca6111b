"""Problems by cases on a GPU: shapes one after another, and a time that has nothing
to be compared with.
"""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from app.domain.evaluation import Evaluation, Status
from app.domain.job import Job, JobOptions

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]

PROBLEM = b"""
import torch

def get_cases():
    for n in (256, 4096):
        x = torch.randn(16384, n)
        yield {"name": f"columns: {n}", "inputs": [x], "outputs": torch.softmax(x, dim=-1),
               "rtol": 1e-4, "atol": 1e-6}
"""
CANDIDATE = b"""
import torch
import triton
import triton.language as tl

@triton.jit
def softmax(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    power = tl.exp(value - tl.max(value, axis=0))
    tl.store(y + row * n + at, power / tl.sum(power, axis=0), mask=at < n)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        softmax[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
"""
WITH_MODEL = b"""
import torch
class Model(torch.nn.Module):
    def forward(self, x): return torch.softmax(x, dim=-1)
def get_inputs(): return [torch.randn(16384, 4096)]
def get_init_inputs(): return []
"""


@pytest.fixture(scope="module")
def host() -> Iterator[Any]:
    from workers.referee.resources import Resources

    with Resources("gpu", "test") as started:
        started.wait_ready()
        yield started


def run(host: Any, candidate: bytes, *, by_cases: bool = True) -> Evaluation:
    from workers.referee.evaluate import evaluate
    from workers.referee.evaluate_cases import evaluate_cases

    options = JobOptions(call_timeout_s=10, deadline_s=60, timing_budget_s=0.2, cases=by_cases)
    problem = PROBLEM if by_cases else WITH_MODEL
    job = Job(
        job_id=uuid4(), reference=problem, candidate=candidate, backend="triton", options=options
    )
    return (evaluate_cases if by_cases else evaluate)(job, host)[0]


def test_each_case_passes_and_its_time_is_the_one_that_a_benchmark_finds(host: Any) -> None:
    found = run(host, CANDIDATE)
    assert found.status is Status.PASSED, found.error
    assert [case.name for case in found.cases] == ["columns: 256", "columns: 4096"]
    benchmark = run(host, CANDIDATE, by_cases=False)
    assert benchmark.timing is not None
    large = found.cases[
        1
    ]  # 512 MB: most of a short call is launching, which may take twice as long for a while
    assert large.candidate_us is not None
    assert large.candidate_us == pytest.approx(benchmark.timing.candidate_us, rel=0.1)


def test_a_wrong_case_is_named(host: Any) -> None:
    found = run(
        host, CANDIDATE.replace(b"return y", b"return y if x.shape[1] == 256 else y * 1.01")
    )
    assert found.status is Status.INCORRECT
    assert [case.status for case in found.cases] == [Status.PASSED, Status.INCORRECT]
