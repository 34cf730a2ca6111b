"""Results of problems by cases in KernelGYM's words."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

from app.domain import result
from app.domain.evaluation import (
    CaseOutcome,
    Evaluation,
    EvaluationError,
    Status,
)
from app.domain.job import JobState
from app.domain.verdict import Label, Verdict
from app.web.compat.kernelgym import responses
from tests.unit.kernelgym_words import ASKED, CASE, ON_H200, by_cases, unfinished

CASES_ASKED = {
    **ASKED,
    "workflow": "kernel_simple",
    "cases_source": "inline",
    "num_cases": 3,
    "run_performance": True,
}


def answered(
    asked: dict[str, Any],
    *,
    label: Label = Label.CLEAN,
    us: float | None = 1500.0,
    wrong: bool = True,
) -> dict[str, Any]:
    """The answer for a problem of three cases, of which the second was wrong, if one
    was, and the third had no turn.
    """
    one = CaseOutcome(
        index=0,
        of=3,
        name="small",
        status=Status.PASSED,
        calls=5,
        candidate_us=us,
        candidate_us_low=us and us - 250,
        candidate_us_high=us and us + 250,
    )
    two = CaseOutcome(
        index=1, of=3, name="negative", status=Status.INCORRECT, calls=5, failed_calls=5
    )
    evaluation = Evaluation(
        status=Status.INCORRECT if wrong else Status.PASSED,
        environment=ON_H200,
        seed="00",
        error=EvaluationError(kind="wrong_output", message="case 'negative'") if wrong else None,
        cases=(one, two) if wrong else (one,),
    )
    verdict = Verdict(label=label, policy="standard", detectors={}, findings=())
    found = result.build(
        job_id=uuid4(), state=JobState.FINISHED, evaluation=evaluation, verdict=verdict
    )
    answer = responses.evaluation("t", asked, found)
    json.dumps(answer, allow_nan=False)
    return answer


def test_cases_in_the_words_of_the_protocol() -> None:
    answer = answered(CASES_ASKED)
    assert (answer["correctness"], answer["kernel_runtime"]) == (
        False,
        -1.0,
    ), "no time of what is wrong"
    right = answered(CASES_ASKED, wrong=False)
    assert (right["correctness"], right["kernel_runtime"]) == (True, 1.5)
    assert (answer["reference_runtime"], answer["speedup"]) == (-1.0, 0.0)
    metadata = answer["metadata"]
    assert (metadata["cases_source"], metadata["num_cases"]) == ("inline", 3)
    assert metadata["correctness_failed_cases"] == ["negative"]
    stats = metadata["runtime_stats"]
    assert (stats["undisturbed"], stats["undisturbed_low"], stats["undisturbed_high"]) == (
        1.5,
        1.25,
        1.75,
    )
    assert [stats[name] for name in ("mean", "std", "min", "max")] == [None] * 4, (
        "it is no mean of all calls"
    )
    assert (stats["case"], stats["hardware"], stats["device"]) == ("small", "H200", "cuda:0")
    absent = {
        "performance_skipped",
        "reference_backend",
        "reference_backend_error",
        "reference_task_id",
    }
    assert not absent & set(metadata)


def test_cases_that_were_not_timed_say_so() -> None:
    skipped = answered({**CASES_ASKED, "run_performance": False}, us=None)
    assert (skipped["metadata"]["performance_skipped"], skipped["kernel_runtime"]) == (True, -1.0)
    assert "runtime_stats" not in skipped["metadata"]
    untimed = by_cases(cases=CASE, run_performance=False, run_correctness=False)
    assert untimed.asked["run_performance"] is False
    assert untimed.request("cpu", None).options.timing_budget_s == 0
    hack = answered(CASES_ASKED, label=Label.HACK)
    assert (hack["kernel_runtime"], hack["decoy_kernel"], "runtime_stats" in hack["metadata"]) == (
        -1.0,
        True,
        False,
    )


def test_a_baseline_of_cases_is_asked_for_in_vain() -> None:
    wanted = by_cases(cases=CASE, reference_backend="torch_compile")
    assert wanted.request("cpu", None).options.baselines == ()
    metadata = answered({**CASES_ASKED, "reference_backend": "torch_compile"})["metadata"]
    assert (
        metadata["reference_backend_error"]
        == "'torch_compile' was asked for; a problem by cases has no reference"
    )


def test_cases_of_which_none_was_tried() -> None:
    fault = unfinished(JobState.FAILED, {"kind": "infrastructure", "message": "on fire", "log": ""})
    metadata = responses.evaluation("t", CASES_ASKED, fault)["metadata"]
    assert (metadata["num_cases"], metadata["correctness_failed_cases"]) == (3, [])
    from_code = {**CASES_ASKED, "cases_source": "cases_code", "num_cases": None}
    assert responses.evaluation("t", from_code, fault)["metadata"]["num_cases"] is None
