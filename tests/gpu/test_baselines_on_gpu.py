"""Baselines and the driver's reports on a GPU: torch.compile in the sandbox, and a
candidate's own Xid.

Needs nothing but torch and triton: `pytest -m gpu --noconftest tests/gpu/test_baselines_on_gpu.py`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from app.domain.evaluation import Evaluation, Status
from app.domain.job import BASELINES, Job, JobOptions
from tests import zoo
from tests.gpu.samples import ILLEGAL

if TYPE_CHECKING:
    from workers.referee.resources import Resources

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]

CASES = {case.name: case for case in zoo.cases()}


@pytest.fixture(scope="module")
def host() -> Iterator["Resources"]:
    from workers.referee.resources import Resources

    with Resources("gpu", "test") as started:
        started.wait_ready()
        yield started


def _evaluate(
    host: "Resources", name: str, candidate: bytes | None = None, *baselines_wanted: str
) -> Evaluation:
    from workers.referee.cancellation import Cancellation
    from workers.referee.evaluate import evaluate
    from workers.referee.timing import compiled_baselines

    case = CASES[name]
    job = Job(
        job_id=uuid4(),
        reference=case.reference,
        candidate=candidate or case.candidate,
        backend=case.backend,
        options=JobOptions(
            call_timeout_s=10, deadline_s=60, timing_budget_s=0.5, baselines=baselines_wanted
        ),
    )
    evaluation, _ = evaluate(job, host)
    return compiled_baselines.added(
        evaluation, job, host.baselines, lambda other: evaluate(other, host)[0], Cancellation()
    )


def test_a_kernel_is_compared_with_both_compiled_references(host: "Resources") -> None:
    for attempt in range(2):
        evaluation = _evaluate(host, "honest/diag_matmul_triton", None, *BASELINES)
        assert evaluation.status is Status.PASSED, evaluation.error
        assert evaluation.timing is not None
        compared = evaluation.timing.baselines
        assert [(each.name, each.error) for each in compared] == [
            (name, None) for name in BASELINES
        ]
        assert all(each.ci_low <= each.speedup <= each.ci_high for each in compared)
        if attempt:
            assert evaluation.stage_ms["baselines"] < 100  # measured once


def test_a_candidates_page_fault_is_not_the_devices(host: "Resources") -> None:
    assert (
        _evaluate(host, "honest/scaled_add_triton", ILLEGAL.encode()).status is Status.RUNTIME_ERROR
    )
    host.health.require_sound()
