"""Evaluations and requests in KernelGYM's words."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

from hypothesis import strategies as st

from app.domain import result
from app.domain.evaluation import Environment, Evaluation, EvaluationError, Status
from app.domain.job import JobState
from app.domain.kernel_profile import KernelRow, Profile
from app.domain.output_checks import Correctness, OutputCheck, Trial
from app.domain.verdict import Label, Verdict
from app.web.compat.kernelgym import requests
from app.web.compat.kernelgym.requests import EvaluationRequest
from tests.timings import timing

REFERENCE = "class Model: ...\n"


KERNEL = "class ModelNew: ...\n"


ASKED = {"backend": "triton", "num_correct_trials": 5, "num_perf_trials": 100}


ON_H200 = Environment(
    device_class="h200",
    device_name="H200",
    device_id="d",
    node="n",
    python="3",
    torch="2",
    triton="3",
)


def evaluated(
    status: Status = Status.PASSED,
    *,
    label: Label = Label.CLEAN,
    speedup: float = 2.0,
    kernels: tuple[KernelRow, ...] = (),
    state: JobState = JobState.FINISHED,
    log: str = "",
) -> result.Result:
    passed = status is Status.PASSED
    found = timing(
        reference_us=1000 * speedup,
        candidate_us=1000,
        speedup=speedup,
        ci_low=speedup,
        ci_high=speedup,
    )
    total = sum(row.total_us for row in kernels)
    launches = sum(row.launches for row in kernels)
    custom_us = sum(row.total_us for row in kernels if row.custom)
    custom = sum(row.launches for row in kernels if row.custom)
    profile = Profile(
        kernels=kernels,
        calls=1,
        coverage_time=custom_us / total if total else None,
        coverage_count=custom / launches if launches else None,
        source="recorder",
    )
    evaluation = Evaluation(
        status=status,
        environment=ON_H200,
        seed="00",
        error=None if passed else EvaluationError(kind="some_kind", message="what came", log=log),
        timing=found if passed else None,
        profile=profile,
        correctness=correctness(ok=passed) if status in {Status.PASSED, Status.INCORRECT} else None,
        stage_ms={"total": 1500.0},
    )
    verdict = Verdict(label=label, policy="standard", detectors={}, findings=())
    return result.build(
        job_id=uuid4(), state=state, evaluation=evaluation, verdict=verdict, url="http://here/1"
    )


def correctness(*, ok: bool) -> Correctness:
    check = OutputCheck(
        index=0,
        dtype="float32",
        shape=(1,),
        ok=ok,
        rel_l2=0.25,
        rel_l2_limit=0.1,
        max_norm=None,
        max_norm_limit=1,
        nonfinite_mismatches=0,
        unwritten=0,
        stale_call=None,
    )
    trial = Trial(call=0, seed="00", ok=ok, outputs=(check,))
    return Correctness(calls=5, failed_calls=0 if ok else 2, trials=(trial,), mode="train")


def unfinished(state: JobState, error: dict[str, str] | None = None) -> result.Result:
    return result.build(job_id=uuid4(), state=state, evaluation=None, verdict=None, error=error)


def body(**fields: Any) -> bytes:
    return json.dumps(
        {"task_id": "t", "reference_code": REFERENCE, "kernel_code": KERNEL, **fields}
    ).encode()


def read(**fields: Any) -> EvaluationRequest:
    return requests.read(body(**fields), EvaluationRequest)


CASES_CODE = "def get_cases(): return [{'inputs': [1], 'outputs': 2}]\n"


CASE = {
    "inputs": [[1.5, -2.0]],
    "outputs": [3, None],
    "name": "\"'''\\ é \n}",
    "rtol": 0.1,
    "atol": 0,
}


def by_cases(**fields: Any) -> EvaluationRequest:
    return read(
        **{"reference_code": None, "workflow": "kernel_simple", "entry_point": "ModelNew", **fields}
    )


def cases_of(wanted: EvaluationRequest) -> Any:
    """Result of the problem's get_cases()."""
    scope: dict[str, Any] = {}
    exec(wanted.request("cpu", None).problem.reference, scope)
    return scope["get_cases"]()


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    st.lists,
    max_leaves=8,
)
