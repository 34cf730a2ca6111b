"""Requests in KernelGYM's words: reading, and refusals by their place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from app import workflows
from app.domain.job import REWARD_BUDGET_S
from app.web.compat.kernelgym import requests
from app.web.compat.kernelgym.requests import EvaluationRequest
from tests.unit.kernelgym_words import CASE, CASES_CODE, KERNEL, anything, by_cases, cases_of, read


@pytest.mark.parametrize(("asked", "calls"), [(None, 5), (1, 5), (5, 5), (12, 12)])
def test_correctness_trials_are_honoured_and_never_fewer_than_ours(
    asked: int | None, calls: int
) -> None:
    assert read(num_correct_trials=asked).request("cpu", None).options.correctness_calls == calls


def test_null_and_unknown_fields_are_as_good_as_absent() -> None:
    assert (
        read(
            is_valid=None, verbose_errors=None, backend=None, detect_decoy_kernel=True, whatever=[1]
        )
        == read()
    )
    assert read(num_perf_trials="10").num_perf_trials == 10


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"task_id": ""}, "task_id"),
        ({"task_id": "x" * 101}, "task_id"),
        ({"task_id": "a\x00b"}, "task_id: expected text without NUL"),
        ({"reference_code": None}, "reference_code: required"),
        ({"kernel_code": " " * 30}, "kernel_code: expected at least 10 characters"),
        ({"kernel_code": "x" * 100_001}, "kernel_code"),
        ({"backend": "tilelang"}, "backend"),
        ({"num_correct_trials": 0}, "num_correct_trials"),
        ({"timeout": 9}, "timeout"),
        ({"timeout": 3601}, "timeout"),
        ({"priority": "urgent"}, "priority"),
        ({"toolkit": "x"}, "toolkit: expected 'kernelbench' or 'kernel_simple', got 'x'"),
        ({"backend_adapter": "x"}, "backend_adapter: expected 'kernelbench', got 'x'"),
        ({"resources": {"gpus": 2}}, "gpus: expected 1, got 2"),
        ({"resources": {"gpus": 0}}, "gpus: expected 1, got 0"),
    ],
)
def test_bad_bodies_say_where(fields: dict[str, Any], expected: str) -> None:
    with pytest.raises(requests.BodyError, match=expected):
        read(**fields)


def test_a_batch_has_no_name_for_two_tasks() -> None:
    """The result of one would be told for both; the same task twice is one."""

    def batch(*kernels: str) -> bytes:
        tasks = [
            {"task_id": "a", "reference_code": "class Model: ...", "kernel_code": each}
            for each in kernels
        ]
        return json.dumps({"batch_id": "b", "tasks": tasks}).encode()

    assert len(requests.read(batch(KERNEL, KERNEL), requests.Batch).tasks) == 2
    with pytest.raises(
        requests.BodyError, match="task ids of their own, got 'a' for different tasks"
    ):
        requests.read(batch(KERNEL, KERNEL + "# other"), requests.Batch)


def test_what_is_no_request_at_all_is_refused() -> None:
    for text in (b"", b"[]", b"{", b"\xff", b'{"task_id": 5}'):
        with pytest.raises(requests.BodyError):
            requests.read(text, EvaluationRequest)
    with pytest.raises(requests.BodyError, match="tasks"):
        requests.read(b'{"batch_id": "b", "tasks": []}', requests.Batch)
    with pytest.raises(
        requests.UnknownWorkflowError,
        match="Registry missing 'mine'; this server has 'kernelbench' and 'kernel_simple'",
    ):
        read(workflow="mine")
    with pytest.raises(requests.UnknownWorkflowError):
        requests.read(b'{"batch_id": "b", "tasks": [{"workflow": "x"}]}', requests.Batch)
    assert read(workflow="KernelBench")


@pytest.mark.parametrize(
    "fields",
    [{"workflow": "kernel_simple"}, {"workflow": "Kernel_Simple"}, {"toolkit": "kernel_simple"}],
)
def test_cases_stand_in_place_of_a_reference(fields: dict[str, Any]) -> None:
    wanted = read(reference_code=None, cases_code=CASES_CODE, **fields)
    request = wanted.request("h200", None)
    assert (wanted.served, request.workflow) == ("kernel_simple", "kernel_simple")
    assert (request.problem.reference, request.problem.entry_point) == (
        CASES_CODE.encode(),
        "Model",
    )
    assert request.options.profile == "full"
    (planned,) = workflows.plan(request)
    assert planned.options.cases
    assert (wanted.asked["workflow"], wanted.asked["cases_source"]) == (
        "kernel_simple",
        "cases_code",
    )


def test_inline_cases_become_a_source_that_they_cannot_leave() -> None:
    assert cases_of(by_cases(cases=[CASE])) == [CASE]
    assert cases_of(by_cases(cases=CASE)) == [CASE]  # one is a list of one
    assert cases_of(by_cases(cases=[{"input": 5, "output": {"a": None}}])) == [
        {"inputs": [5], "outputs": {"a": None}}
    ]
    assert by_cases(cases=[CASE, CASE]).asked["num_cases"] == 2
    assert by_cases(cases=[CASE], cases_code="").asked["cases_source"] == "inline"


@given(anything)
def test_every_value_of_json_arrives_as_it_is(value: Any) -> None:
    found = cases_of(by_cases(cases={"inputs": [value], "outputs": 0, "name": None}))
    assert found == [{"inputs": [value], "outputs": 0}]


@pytest.mark.parametrize(
    ("asked", "ours"),
    [("Model", "Model"), ("ModelNew", "Model"), ("FastAddNew", "FastAdd"), (None, "Model")],
)
def test_with_cases_the_entry_point_is_the_candidates_own(asked: str | None, ours: str) -> None:
    wanted = by_cases(cases=CASE, entry_point=asked)
    assert wanted.request("cpu", None).problem.entry_point == ours
    assert wanted.kernel_class == f"{ours}New"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, r"got neither: a candidate that brings its own tests proves nothing"),
        (
            {"kernel_code": CASES_CODE + KERNEL},
            r"got neither: a candidate that brings its own tests",
        ),
        ({"cases": []}, r"cases: expected an object or a list of at least one, got a list of 0"),
        ({"cases": "all"}, r"cases: expected an object or a list of at least one, got text"),
        ({"cases": [CASE], "cases_code": CASES_CODE}, r"expected one of them, got both"),
        (
            {"cases": [[1, 2]]},
            r"cases\[0\]: expected an object with inputs and outputs, got a list of 2: without",
        ),
        (
            {"cases": [CASE, {"inputs": [1]}]},
            r"cases\[1\]: expected outputs, found inputs: without outputs there is",
        ),
        (
            {"cases": {"inputs": [1], "expected": 2}},
            r"cases\[0\]: expected outputs, found expected, inputs: without",
        ),
        ({"cases": {"inputs": [1], "outputs": None}}, r"cases\[0\]: expected outputs"),
        ({"cases": {"outputs": [1]}}, r"cases\[0\]: expected inputs, found outputs"),
        ({"cases": CASE | {"name": 5}}, r"cases\[0\].name: expected text, got a number"),
        (
            {"cases": CASE | {"rtol": "0.1"}},
            r'cases\[0\].rtol: expected a number from 0 on, got "0.1"',
        ),
        ({"cases": CASE | {"atol": -1}}, r"cases\[0\].atol: expected a number from 0 on, got -1"),
        (
            {"cases": CASE | {"atol": True}},
            r"cases\[0\].atol: expected a number from 0 on, got true",
        ),
        (
            {"cases_code": "def get_inputs(): return [1]"},
            r"found get_inputs\(\) alone: without outputs there is nothing",
        ),
        ({"cases_code": "def cases(): return [1]"}, r"expected a get_cases\(\) .* found none"),
        ({"cases": CASE, "entry_point": "Fast"}, r"of a name that ends in New.*got 'Fast'"),
        ({"cases": CASE, "entry_point": "New"}, r"of a name that ends in New.*got 'New'"),
        ({"cases": CASE, "kernel_code": "short"}, r"kernel_code: expected at least 10 characters"),
        (
            {"cases": CASE, "toolkit": "mine"},
            r"toolkit: expected 'kernelbench' or 'kernel_simple', got 'mine'",
        ),
    ],
)
def test_bad_cases_say_where(fields: dict[str, Any], expected: str) -> None:
    with pytest.raises(requests.BodyError, match=expected):
        by_cases(**fields)


@pytest.mark.parametrize("depth", [900, 100_000])
def test_what_is_nested_too_deep_is_a_bad_body(depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    for field in (b'"uuid"', b'"whatever"', b'"payload"'):
        with pytest.raises(requests.BodyError, match="inside each other"):
            requests.read(b'{"task_id": "t", ' + field + b": " + deep + b"}", EvaluationRequest)


def test_a_kernelgym_request_becomes_a_request_of_assay() -> None:
    request = read(
        uuid="kb_1_3", priority="high", timeout=20, backend="cuda", entry_point="Net"
    ).request("h200", None)
    assert (request.problem.name, request.problem.entry_point, request.backend) == (
        "kb_1_3",
        "Net",
        "cuda",
    )
    assert (request.options.deadline_s, request.options.call_timeout_s) == (20.0, 20.0)
    assert (request.device_class, request.priority, request.fresh) == ("h200", "high", False)
    assert read(force_refresh=True).request("cpu", None).fresh
    assert read(run_performance=False).request("cpu", None).options.timing_budget_s == 0.0
    budgets = [
        read(num_perf_trials=trials).request("cpu", None).options.timing_budget_s
        for trials in (10, 100, 1000)
    ]
    assert budgets == [REWARD_BUDGET_S, REWARD_BUDGET_S, 10 * REWARD_BUDGET_S]
