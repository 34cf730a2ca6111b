"""The device-time speedup in a result, on the command line, in a sweep and in the
form of a submission.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any
from uuid import uuid4

import pytest

from app.cli import result_text
from app.domain import problem_check, result, reward
from app.domain.evaluation import Evaluation
from app.domain.job import JobOptions, JobState
from app.domain.other_timings import DeviceTiming
from app.domain.problem import Problem
from app.domain.verdict import Label, Subject
from app.judge import judge
from app.store.evaluation import evaluation_json
from app.store.evaluation.evaluations import columns
from app.web import submission_form
from tests.unit.measurements import benchmark

MEASURED = DeviceTiming(
    reference_us=50.0,
    candidate_us=20.0,
    speedup=2.5,
    ci_low=2.4,
    ci_high=2.6,
    groups=6,
    calls_per_side=300,
)
NOT_MEASURED = DeviceTiming(
    error="the candidate could not be captured and replayed: RuntimeError: \x1b[31mwaits"
)


def built(evaluation: Evaluation, label: Label | None = None) -> result.Result:
    verdict = judge(Subject(evaluation=evaluation, backend="triton", candidate=b"", reference=b""))
    verdict = verdict if label is None else replace(verdict, label=label)
    return result.build(
        job_id=uuid4(), state=JobState.FINISHED, evaluation=evaluation, verdict=verdict
    )


def told(found: result.Result) -> tuple[Any, Any, Any]:
    return found["device_speedup"], found["device_speedup_ci"], found["device_speedup_error"]


@pytest.mark.parametrize(
    ("device", "label", "expected"),
    [
        (MEASURED, None, (2.5, [2.4, 2.6], None)),
        (MEASURED, Label.HACK, (None, None, None)),
        (NOT_MEASURED, None, (None, None, NOT_MEASURED.error)),
        (None, None, (None, None, None)),
    ],
)
def test_a_result_has_the_value_or_the_reason(
    device: DeviceTiming | None, label: Label | None, expected: tuple[Any, Any, Any]
) -> None:
    assert told(built(benchmark(device=device), label)) == expected


def test_no_reward_depends_on_it() -> None:
    without, high = (
        built(benchmark(device=each)) for each in (None, replace(MEASURED, speedup=1000.0))
    )
    assert without["reward"] == high["reward"]
    assert reward.every(without) == reward.every(high)
    assert without["speedup"] == high["speedup"]


def test_a_job_that_has_not_ended_has_the_keys() -> None:
    found = result.build(job_id=uuid4(), state=JobState.QUEUED, evaluation=None, verdict=None)
    assert told(found) == (None, None, None)


def test_it_is_stored_and_read_again_and_older_evaluations_have_none() -> None:
    evaluation = benchmark(device=MEASURED)
    stored = json.loads(json.dumps(evaluation_json.encode(evaluation)))
    assert evaluation_json.decode(stored) == evaluation
    row = columns(evaluation)
    assert [row[f"device_speedup{end}"] for end in ("", "_ci_low", "_ci_high")] == [2.5, 2.4, 2.6]
    del stored["timing"]["device"]
    older = evaluation_json.decode(stored)
    assert older.timing is not None
    assert older.timing.device is None
    assert columns(older)["device_speedup"] is None


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (MEASURED, "GPU time   2.50× [2.40, 2.60] without the host's launching (CUDA graphs)"),
        (
            NOT_MEASURED,
            (
                "GPU time   not measured: the candidate could not be captured and replayed:"
                " RuntimeError: "
            ),
        ),
        (None, None),
    ],
)
def test_the_command_line_says_it(device: DeviceTiming | None, expected: str | None) -> None:
    shown = result_text.details(built(benchmark(device=device))).plain
    assert (expected in shown) if expected else ("GPU time" not in shown)
    assert "\x1b" not in shown


def test_a_sweep_may_ask_for_it_and_keeps_it() -> None:
    assert problem_check.options(0.5, device_time=True).device_time
    assert not problem_check.options(0.5).device_time
    rows = []
    for device in (MEASURED, NOT_MEASURED, NOT_MEASURED, None):
        evaluation = benchmark(device=device)
        verdict = judge(
            Subject(evaluation=evaluation, backend="triton", candidate=b"", reference=b"")
        )
        row = problem_check.row(
            Problem(name="1_x", reference=b"", level=1), evaluation, verdict, 1.0
        )
        assert row.device == device
        assert problem_check.read(json.loads(json.dumps(asdict(row)))) == row
        rows.append(row)
    assert "device 2.500" in problem_check.line(rows[0])
    said = problem_check.summary(rows, 10.0)
    assert said["device_timed"] == 1
    assert said["not_device_timed"] == {NOT_MEASURED.error: 2}


def test_a_problem_by_cases_has_none() -> None:
    with pytest.raises(ValueError, match="no reference that could be timed; got device_time"):
        JobOptions(cases=True, device_time=True)


@pytest.mark.parametrize(("sent", "expected"), [({"device_time": "yes"}, True), ({}, None)])
def test_the_form_may_ask_for_it(sent: dict[str, str], expected: bool | None) -> None:
    body = submission_form.body({"candidate": "x = 1", "reference": "y = 2", **sent})
    assert getattr(body.options, "device_time", None) is expected
