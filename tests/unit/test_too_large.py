"""A problem larger than its device, as every reader of an evaluation sees it: named,
and never scored.
"""

from __future__ import annotations

from uuid import uuid4

import pytest

from app.cli import result_text, submit_options
from app.domain import policy, problem_check, result, reward
from app.domain.evaluation import Environment, Evaluation, Status
from app.domain.job import JobState
from app.domain.problem import Problem
from app.domain.verdict import Label, Subject
from app.judge import judge
from app.web import jinja_filters
from app.web.compat.kernelgym import responses

pytest.importorskip("torch")

from workers.referee.session.fault_attribution import too_large

FAULT = too_large("it needs 96,000,000,000 bytes or more", 79_000_000_000)
EVALUATION = Evaluation(
    status=FAULT.status,
    error=FAULT.error,
    seed="00",
    environment=Environment(
        device_class="h100",
        device_name="H100",
        device_id="d",
        node="n",
        python="3",
        torch="2",
        triton="3",
    ),
)
SUBJECT = Subject(evaluation=EVALUATION, backend="triton", candidate=b"", reference=b"")
SAID = result.build(
    job_id=uuid4(),
    state=JobState.FINISHED,
    evaluation=EVALUATION,
    verdict=judge(SUBJECT),
    url="http://here/1",
)


def test_it_is_invalid_and_says_what_it_needs_and_what_there_is() -> None:
    assert (EVALUATION.status, EVALUATION.valid) == (Status.INVALID, False)
    assert EVALUATION.error is not None
    assert EVALUATION.error.kind == problem_check.TOO_LARGE == "problem_too_large"
    assert "96,000,000,000" in EVALUATION.error.message
    assert "79,000,000,000" in EVALUATION.error.message


@pytest.mark.parametrize("name", policy.POLICIES)
def test_no_policy_accuses_it(name: str) -> None:
    verdict = judge(SUBJECT, policy.POLICIES[name])
    assert (verdict.label, verdict.findings) == (Label.CLEAN, ())


def test_no_reward_counts_it() -> None:
    assert SAID["score"] is None
    assert reward.every(SAID) == {}
    assert {SAID[name] for name in ("speedup", "speedup_ci", "reference_us", "candidate_us")} == {
        None
    }
    assert (SAID["valid"], SAID["compiled"], SAID["correct"]) == (False, False, False)


def test_kernelgyms_clients_are_told_of_a_fault_without_numbers() -> None:
    answer = responses.evaluation("t", {}, SAID)
    assert (answer["status"], answer["error_code"]) == ("failed", responses.SYSTEM_ERROR)
    assert "96,000,000,000" in answer["error_message"]
    assert (answer["kernel_runtime"], answer["reference_runtime"], answer["speedup"]) == (
        -1.0,
        -1.0,
        0.0,
    )
    assert answer["metadata"]["valid"] is False


def test_command_line_pages_and_sweeps_name_it() -> None:
    assert "problem_too_large: the problem does not fit on this device" in result_text.found(SAID)
    assert submit_options.exit_code(SAID) == 1
    assert jinja_filters.words("problem_too_large") == "problem too large"
    problem = Problem(name="23_Softmax", reference=b"", level=1)
    row = problem_check.row(problem, EVALUATION, judge(SUBJECT, problem_check.POLICY), 0.5)
    assert (row.outcome, row.is_ours) == ("invalid", False)
