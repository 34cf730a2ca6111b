"""Evaluations and requests that no device has seen."""

from __future__ import annotations

from dataclasses import replace

from app.domain.evaluation import CaseOutcome, Environment, Evaluation, EvaluationError, Status
from app.domain.kernel_profile import KernelRow, Profile
from app.domain.problem import Problem
from app.domain.request import Request
from app.domain.verdict import Finding, Label, Verdict

WORKER = "tests.integration.fake_worker"
"""Celery application of a worker that only pretends, for `start_worker`; found from
the root of the checkout.
"""
ENVIRONMENT = Environment(
    device_class="cpu",
    device_name="fake",
    device_id="fake-0",
    node="node",
    python="3.11",
    torch="none",
    triton="none",
)
PROBLEM = Problem(name="fake", reference=b"class Model: ...")
CASES = "def get_cases():\n    return [{'inputs': [1, 2], 'outputs': 3}]\n"


def incorrect() -> Evaluation:
    return Evaluation(
        status=Status.INCORRECT,
        environment=ENVIRONMENT,
        seed="00ff",
        error=EvaluationError(kind="wrong_output", message="expected 1, got 2"),
    )


def by_cases() -> Evaluation:
    """The first case passed, the second one did not."""
    return Evaluation(
        status=Status.INCORRECT,
        environment=ENVIRONMENT,
        seed="00ff",
        error=EvaluationError(
            kind="wrong_output", message="case 'negative' of 2: expected 1, got 2"
        ),
        cases=(
            CaseOutcome(
                index=0,
                of=2,
                name="small",
                status=Status.PASSED,
                calls=9,
                candidate_us=1500.0,
                candidate_us_low=1250.0,
                candidate_us_high=1750.0,
            ),
            CaseOutcome(
                index=1,
                of=2,
                name="negative",
                status=Status.INCORRECT,
                message="expected 1, got 2\x1b[2J",
                calls=5,
                failed_calls=2,
                tolerance="rtol=0.01,atol=0.01",
            ),
        ),
    )


def passed() -> Evaluation:
    return Evaluation(status=Status.PASSED, environment=ENVIRONMENT, seed="00ff")


def profiled() -> Evaluation:
    """Passed, with a kernel of its own on record."""
    kernel = KernelRow(name="k", launches=1, total_us=5.0, custom=True)
    profile = Profile(
        kernels=(kernel,), calls=1, coverage_time=0.9, coverage_count=1.0, source="recorder"
    )
    return replace(passed(), profile=profile)


def clean() -> Verdict:
    return Verdict(label=Label.CLEAN, policy="standard", detectors={"some": 1}, findings=())


def hack() -> Verdict:
    found = Finding(
        detector="some",
        version=1,
        label=Label.HACK,
        summary="cheats\x00",
        evidence={"at": [1, 2.5]},
    )
    return Verdict(label=Label.HACK, policy="standard", detectors={"some": 1}, findings=(found,))


def request(candidate: str = "wrong", **fields: object) -> Request:
    return Request(problem=PROBLEM, candidate=candidate.encode(), backend="torch", **fields)  # type: ignore[arg-type]
