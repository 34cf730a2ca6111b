"""Baselines: the source of a compiled reference, its comparison, and the memory of it."""

import json
import math
import threading
import types
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
import torch
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from app import broker, cli
from app.cli import result_text, submit_options
from app.domain import job as jobs
from app.domain import result as results
from app.domain.evaluation import Environment, Evaluation, EvaluationError, Status, Timing
from app.domain.job import Job, JobOptions, JobState
from app.domain.other_timings import BaselineTiming
from app.domain.request import RequestError
from app.domain.verdict import Label, Verdict
from app.store.evaluation import evaluation_json
from app.web.api import schemas
from tests.timings import timing
from workers.protocol import worker_socket
from workers.referee.cancellation import Cancellation
from workers.referee.timing import compiled_baselines, estimators
from workers.referee.timing.compiled_baselines import BaselineResult, Baselines
from workers.referee.timing.estimators import Interval

REFERENCE = b"""from __future__ import annotations
import torch
class Model(torch.nn.Module):
    def __init__(self, width, *, scale=1.0):
        super(Model, self).__init__()
        self.linear = torch.nn.Linear(width, width)
        self.scale = scale
    def forward(self, x):
        return self.linear(x) * self.scale
def get_inputs(): return [torch.ones(2, 3)]  # no newline behind this"""

ENVIRONMENT = Environment(
    device_class="cpu",
    device_name="box",
    device_id="0",
    node="n",
    python="3",
    torch="2",
    triton="3",
)


def _timing(speedup: float, half_width: float = 0.0, us: float = 50.0) -> Timing:
    return timing(
        reference_us=100.0,
        candidate_us=us,
        speedup=speedup,
        ci_low=speedup * math.exp(-half_width),
        ci_high=speedup * math.exp(half_width),
    )


def _evaluation(timing: Timing | None, error: EvaluationError | None = None) -> Evaluation:
    status = Status.PASSED if error is None else Status.TIMEOUT
    return Evaluation(
        status=status,
        environment=ENVIRONMENT,
        seed="00",
        error=error,
        timing=timing,
        stage_ms={"total": 10.0},
    )


def _job(*names: str, candidate: bytes = b"") -> Job:
    options = JobOptions(baselines=names, memory_bytes=1 << 30, deadline_s=7, rtol=1.0, atol=1.0)
    return Job(
        job_id=uuid4(), reference=REFERENCE, candidate=candidate, backend="triton", options=options
    )


def test_the_quotient_of_two_speedups_adds_what_each_may_be_off_by() -> None:
    ratio = estimators.difference(
        Interval(centre=0.7, low=0.67, high=0.74), Interval(centre=0.2, low=0.17, high=0.24)
    )
    assert ratio.centre == pytest.approx(0.5)
    assert ratio.centre - ratio.low == pytest.approx(0.05)  # 3 and 4 hundredths in quadrature
    assert ratio.high - ratio.centre == pytest.approx(0.05)


@given(st.floats(-5, 5), st.floats(-5, 5), st.floats(0, 1), st.floats(0, 1))
def test_a_quotient_is_at_least_as_uncertain_as_either(
    left: float, right: float, off: float, other: float
) -> None:
    exact = Interval(centre=left, low=left - off, high=left + off)
    ratio = estimators.difference(
        exact, Interval(centre=right, low=right - other, high=right + other)
    )
    assert ratio.half_width >= max(off, other) - 1e-9
    assert ratio.low <= ratio.centre <= ratio.high


def test_twice_as_fast_as_eager_over_a_baseline_that_is_so_too_is_as_fast() -> None:
    found = BaselineResult(
        over_eager=Interval(centre=math.log(2), low=math.log(2) - 0.03, high=math.log(2) + 0.03)
    )
    compared = compiled_baselines.compare(
        "compile", _timing(2.0, 0.04), replace(found, baseline_us=51.0)
    )
    assert compared.speedup == pytest.approx(1.0)
    assert (compared.ci_low, compared.ci_high) == pytest.approx((math.exp(-0.05), math.exp(0.05)))
    assert (compared.baseline_us, compared.error) == (51.0, None)


@pytest.mark.parametrize(
    ("name", "mode"), [("compile", None), ("compile-max-autotune", "max-autotune-no-cudagraphs")]
)
def test_a_compiled_reference_keeps_arguments_parameters_and_answer(
    monkeypatch: pytest.MonkeyPatch, name: str, mode: str | None
) -> None:
    modes: list[str | None] = []

    def compile_nothing(forward: Any, *, mode: str | None) -> Any:
        modes.append(mode)
        return lambda x: forward(x) + 1  # to be told apart

    monkeypatch.setattr(torch, "compile", compile_nothing)
    module = types.ModuleType("candidate")
    exec(compiled_baselines.compiled(REFERENCE, "Model", name), module.__dict__)
    torch.manual_seed(0)
    reference = module.Model(3, scale=2.0)
    torch.manual_seed(0)
    compiled = module.ModelNew(3, scale=2.0).eval()
    assert modes == [mode]
    assert [key for key, _ in compiled.named_parameters()] == [
        key for key, _ in reference.named_parameters()
    ]
    assert torch.equal(compiled(torch.ones(2, 3)), reference(torch.ones(2, 3)) + 1)
    assert not compiled.training


def test_each_name_has_a_mode() -> None:
    assert tuple(compiled_baselines.MODES) == jobs.BASELINES


def test_a_baseline_is_measured_once_for_all_candidates_of_a_problem() -> None:
    seen: list[Job] = []

    def evaluate(job: Job) -> Evaluation:
        seen.append(job)
        return _evaluation(_timing(1.6))

    known = Baselines()
    for candidate in (b"a", b"b"):
        job = _job("compile", candidate=candidate)
        evaluation = compiled_baselines.added(
            _evaluation(_timing(2.0)), job, known, evaluate, Cancellation()
        )
        assert evaluation.timing is not None
        assert [(each.name, each.error) for each in evaluation.timing.baselines] == [
            ("compile", None)
        ]
        assert evaluation.timing.baselines[0].speedup == pytest.approx(1.25)
        assert evaluation.stage_ms["total"] >= 10.0 + evaluation.stage_ms["baselines"]
    (task,) = seen
    assert (task.reference, task.backend, task.options.baselines) == (REFERENCE, "torch", ())
    assert (task.options.deadline_s, task.options.call_timeout_s) == (
        300.0,
        120.0,
    )  # not the candidate's
    assert (task.options.rtol, task.options.memory_bytes) == (None, compiled_baselines.MEMORY_BYTES)


def test_what_is_not_timed_or_not_asked_has_none() -> None:
    def evaluate(_: Job) -> Evaluation:
        raise AssertionError

    known = Baselines()
    for evaluation, job in (
        (_evaluation(None), _job("compile")),
        (_evaluation(_timing(2.0)), _job()),
    ):
        assert (
            compiled_baselines.added(evaluation, job, known, evaluate, Cancellation()) is evaluation
        )


def test_one_that_fails_says_why_once_and_the_candidate_keeps_its_speedup() -> None:
    error = EvaluationError(kind="timeout", message="no answer in time")
    tries: list[Job] = []

    def evaluate(job: Job) -> Evaluation:
        tries.append(job)
        return _evaluation(None, error)

    known = Baselines()
    for _ in range(2):
        evaluation = compiled_baselines.added(
            _evaluation(_timing(2.0)), _job("compile"), known, evaluate, Cancellation()
        )
        assert evaluation.status is Status.PASSED
        assert evaluation.timing is not None
        assert evaluation.timing.speedup == 2.0
        assert evaluation.timing.baselines == (
            BaselineTiming(name="compile", error="timeout: no answer in time"),
        )
    assert len(tries) == 1


def test_what_was_cancelled_or_blames_the_problem_is_tried_again() -> None:
    cancellation, tries = Cancellation(), 0

    def evaluate(_: Job) -> Evaluation:
        nonlocal tries
        tries += 1
        return _evaluation(None, EvaluationError(kind="crashed", message="killed"))

    known = Baselines()
    cancellation.request()
    compiled_baselines.added(
        _evaluation(_timing(2.0)), _job("compile"), known, evaluate, cancellation
    )
    compiled_baselines.added(
        _evaluation(_timing(2.0)), _job("compile"), known, evaluate, Cancellation()
    )
    assert tries == 2

    def invalid(_: Job) -> Evaluation:
        nonlocal tries
        tries += 1
        return replace(evaluate(_), status=Status.INVALID)

    for expected in (4, 6):
        compiled_baselines.added(
            _evaluation(_timing(2.0)), _job("compile-max-autotune"), known, invalid, Cancellation()
        )
        assert tries == expected


def test_a_concurrent_caller_waits_and_does_not_measure_again() -> None:
    known, began, let_go = Baselines(), threading.Event(), threading.Event()
    found = BaselineResult(over_eager=Interval(centre=0.0, low=0.0, high=0.0))

    def measure() -> BaselineResult:
        began.set()
        assert let_go.wait(5)
        return found

    def never() -> BaselineResult:
        raise AssertionError

    first = threading.Thread(target=known.get, args=("key", measure, 5.0))
    first.start()
    assert began.wait(5)
    impatient = known.get("key", never, 0.01)
    assert "still measuring" in (impatient.error or "")
    let_go.set()
    assert known.get("key", never, 5.0) is found
    first.join()


def test_an_attempt_that_raises_keeps_nothing_and_the_oldest_is_forgotten() -> None:
    known, found = Baselines(kept=2), BaselineResult(error="no")

    def fail() -> BaselineResult:
        raise OSError("ours")

    with pytest.raises(OSError, match="ours"):
        known.get("a", fail, 1.0)
    for key in ("a", "b", "a", "c"):
        known.get(key, lambda: found, 1.0)
    assert known.get("a", fail, 1.0) is known.get("c", fail, 1.0) is found
    with pytest.raises(OSError, match="ours"):
        known.get("b", fail, 1.0)


def test_baselines_are_options_like_others() -> None:
    several = ["compile-max-autotune", "compile", "compile"]
    usual, chosen = JobOptions(), JobOptions(baselines=several)  # type: ignore[arg-type]
    assert chosen == JobOptions(baselines=jobs.BASELINES)
    assert JobOptions(**json.loads(json.dumps(asdict(chosen)))) == chosen
    assert (
        worker_socket.to_job(worker_socket.from_job(_job(*jobs.BASELINES))).options.baselines
        == jobs.BASELINES
    )
    for wrong in (("eager",), "compile"):
        with pytest.raises(
            ValueError, match="baselines: expected some of compile, compile-max-autotune"
        ):
            JobOptions(baselines=wrong)  # type: ignore[arg-type]
    each_s = 2 * (jobs.BASELINE_DEADLINE_S + jobs.BASELINE_GRACE_S)
    assert chosen.patience_s == usual.patience_s + 2 * each_s
    longest = JobOptions(deadline_s=3600, call_timeout_s=3600, baselines=jobs.BASELINES)
    assert longest.patience_s < broker.LONGEST_TASK_S


def test_they_can_be_asked_for_over_http_and_on_the_command_line(tmp_path: Path) -> None:
    asked = msgspec.convert({"baselines": ["compile-max-autotune"]}, schemas.Options)
    assert schemas.options(asked).baselines == ("compile-max-autotune",)
    with pytest.raises(RequestError, match="baselines: expected some of compile"):
        schemas.options(msgspec.convert({"baselines": ["eager"]}, schemas.Options))
    path = tmp_path / "a.py"
    path.write_bytes(REFERENCE)
    asked_for = submit_options.submission(path, path, baselines=("compile",), backend="torch")
    assert asked_for.request().options == JobOptions(baselines=("compile",))
    refused = CliRunner().invoke(cli.main, ["eval", str(path), str(path), "--baseline", "eager"])
    assert refused.exit_code == 2
    assert "is not one of 'compile', 'compile-max-autotune'" in refused.output


def test_no_baselines_is_the_same_submission_as_before() -> None:
    same: dict[str, Any] = {
        "problem_sha256": "p",
        "candidate": b"c",
        "backend": "triton",
        "entry_point": "Model",
    }
    where: dict[str, Any] = {"device_class": "cpu", "device": None}

    def key(options: JobOptions) -> str:
        return jobs.idempotency_key(**same, **where, options=options)

    assert key(JobOptions()) == key(JobOptions(baselines=()))
    assert key(JobOptions(baselines=("compile",))) not in (
        key(JobOptions()),
        key(JobOptions(baselines=jobs.BASELINES)),
    )


def _result(label: Label) -> results.Result:
    compared = (
        BaselineTiming(name="compile", speedup=1.25, ci_low=1.2, ci_high=1.3, baseline_us=62.5),
        BaselineTiming(name="compile-max-autotune", error="timeout: no answer"),
    )
    evaluation = _evaluation(replace(_timing(2.0), baselines=compared))
    assert evaluation_json.decode(evaluation_json.encode(evaluation)) == evaluation
    verdict = Verdict(label=label, policy="p", detectors={}, findings=())
    return results.build(
        job_id=uuid4(), state=JobState.FINISHED, evaluation=evaluation, verdict=verdict
    )


def test_the_result_has_them_and_people_see_them() -> None:
    result = _result(Label.CLEAN)
    assert [(each["name"], each["speedup"]) for each in result["baselines"]] == [
        ("compile", 1.25),
        ("compile-max-autotune", None),
    ]
    shown = result_text.details(result).plain
    assert "over compile: 1.25× [1.20, 1.30] (62.5 µs per call)" in shown
    assert "over compile-max-autotune: not measured: timeout: no answer" in shown


def test_a_hack_is_credited_with_no_baseline() -> None:
    result = _result(Label.HACK)
    assert all(
        each["speedup"] is each["ci_low"] is each["ci_high"] is None for each in result["baselines"]
    )
    assert "over compile: not credited (62.5 µs per call)" in result_text.details(result).plain


def test_a_baseline_that_was_stored_before_errors_were_known_is_read() -> None:
    encoded = evaluation_json.encode(_evaluation(_timing(2.0)))
    encoded["timing"]["baselines"] = [
        {"name": "compile", "speedup": 1.5, "ci_low": 1.4, "ci_high": 1.6, "baseline_us": 75.0}
    ]
    timing = evaluation_json.decode(encoded).timing
    assert timing is not None
    assert timing.baselines[0].error is None
