"""BROWSE: bodies of the KernelGYM protocol, checked.  Unknown fields are ignored,
and null is the same as absent.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

import msgspec
from msgspec import Meta

from app.domain import freeform
from app.domain.job import REWARD_BUDGET_S, JobOptions
from app.domain.problem import ADHOC, CASES_WORKFLOW, Problem, adhoc_name
from app.domain.prompt_templates import fence
from app.domain.request import Request, RequestError, check_text
from app.domain.rollout import Rollout, as_json
from app.domain.source import source_text
from app.domain.trajectory import Run
from app.web.compat.kernelgym import cases
from app.web.converted import converted

WORKFLOW = "kernelbench"
WORKFLOWS = (WORKFLOW, CASES_WORKFLOW)
"""Workflows by the protocol's names and by Assay's (app.workflows)."""
BATCH_TASKS = 100
"""Tasks of one request, as in KernelGYM."""
CALL_TIMEOUT_S = 30.0
"""Seconds for one call, as for every other submitter; a task's own timeout is for all of it."""

USUAL_TRIALS = 100
"""Timed calls that the protocol's clients ask for."""

SPELLINGS = {
    "eager": frozenset({"eager", "torch", "pytorch"}),
    "compile": frozenset({"compile", "torch_compile", "torch-compile"}),
}
"""Assay's baselines by the names of the protocol's `reference_backend`."""

Text = Annotated[str, Meta(max_length=100_000)]
T = TypeVar("T")


class BodyError(ValueError):
    """A body with a missing or bad field: the message states the field and the expected value."""


class UnknownWorkflowError(ValueError):
    """No workflow of that name is served."""


class EvaluationRequest(msgspec.Struct, kw_only=True, frozen=True):
    """One candidate to be evaluated.  Fields that say how to measure (warm-up, profiling, reference
    cache) are taken and have no effect: the referee always measures the same way.  Timed trials
    beyond the usual 100 buy time in which the interval becomes narrower.  Nor has run_correctness:
    only verified candidates are timed.  Correctness trials may be more than Assay's five.

    Workflow or toolkit `kernel_simple` stands for cases in place of a reference
    (app.web.compat.kernelgym.cases).

    Profiles are the driver's on a GPU, because coverage rewards count the library's kernels, too.
    """

    task_id: Annotated[str, Meta(min_length=1, max_length=100)]
    reference_code: Text | None = None
    kernel_code: Text
    toolkit: str = "kernelbench"
    backend_adapter: str = "kernelbench"
    backend: Literal["cuda", "triton"] = "triton"
    num_correct_trials: Annotated[int, Meta(ge=1, le=20)] = 5
    num_perf_trials: Annotated[int, Meta(ge=1, le=1000)] = USUAL_TRIALS
    num_warmup: Annotated[int, Meta(ge=0, le=100)] = 3
    timeout: Annotated[int, Meta(ge=10, le=3600)] = 300
    priority: Literal["low", "normal", "high"] = "normal"
    device_preference: str | None = None
    force_refresh: bool = False
    entry_point: str = "Model"
    reference_backend: str | None = None
    uuid: str | None = None
    use_reference_cache: bool = False
    is_valid: bool = False
    measure_performance: bool | None = None
    run_correctness: bool | None = None
    run_performance: bool | None = None
    cases: Any = None
    """Inline; read where they count, as every other workflow ignores them."""
    cases_code: Text | None = None
    workflow: str = WORKFLOW
    resources: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        for name in ("task_id", "entry_point", "uuid", "device_preference"):
            check_text(name, getattr(self, name) or "")
        self._check_problem()
        if len(self.kernel_code.strip()) < 10:
            raise ValueError("kernel_code: expected at least 10 characters")
        if self.toolkit not in WORKFLOWS:
            raise ValueError(
                f"toolkit: expected {' or '.join(map(repr, WORKFLOWS))}, got {self.toolkit!r}"
            )
        if self.backend_adapter != "kernelbench":
            raise ValueError(
                f"backend_adapter: expected 'kernelbench', got {self.backend_adapter!r}"
            )
        gpus = (self.resources or {}).get("gpus", 1)
        if gpus != 1:
            raise ValueError(f"resources.gpus: expected 1, got {gpus!r}")

    @property
    def by_cases(self) -> bool:
        """True if it has cases in place of a reference.  There, the toolkit decides; a request that
        names only the workflow means the same.
        """
        return CASES_WORKFLOW in (self.workflow.lower(), self.toolkit)

    @property
    def served(self) -> str:
        """The workflow's name, however it was written."""
        return CASES_WORKFLOW if self.by_cases else WORKFLOW

    @property
    def kernel_class(self) -> str:
        """Name that the candidate must define.  `entry_point` is the reference's class;
        with cases, which have none, it is the candidate's own, where the schema's
        default stands for `ModelNew`.
        """
        return (
            self.entry_point
            if self.by_cases and self.entry_point != "Model"
            else f"{self.entry_point}New"
        )

    @property
    def measured(self) -> bool:
        """True if it is to be timed."""
        return self.run_performance is not False and self.measure_performance is not False

    @property
    def _budget_s(self) -> float:
        """Budget for timing: as long as for any trainer's reward, and longer where more
        trials are asked for than usual.
        """
        return (
            REWARD_BUDGET_S * max(1.0, self.num_perf_trials / USUAL_TRIALS)
            if self.measured
            else 0.0
        )

    @property
    def asked(self) -> dict[str, Any]:
        """Fields that the answer repeats."""
        names = (
            "backend",
            "num_correct_trials",
            "num_perf_trials",
            "timeout",
            "priority",
            "device_preference",
        )
        others = ("force_refresh", "workflow", "reference_backend", "uuid", "entry_point")
        asked = {name: getattr(self, name) for name in (*names, *others)}
        return {**asked, **self._asked_of_cases()} if self.by_cases else asked

    def request(self, device_class: str, device: str | None) -> Request:
        """The task as a request to the service.  Raises RequestError."""
        values: dict[str, Any] = {"timing_budget_s": self._budget_s}
        values["correctness_calls"] = max(JobOptions.correctness_calls, self.num_correct_trials)
        if self.measured and not self.by_cases and self.reference_backend in SPELLINGS["compile"]:
            values["baselines"] = ("compile",)
        if device_class != "cpu":
            values["profile"] = "full"
        try:
            options = JobOptions(
                deadline_s=float(self.timeout),
                call_timeout_s=min(float(self.timeout), CALL_TIMEOUT_S),
                **values,
            )
        except ValueError as error:
            raise RequestError(str(error)) from error
        reference = source_text.encode(self.problem_source)
        entry_point = self.kernel_class.removesuffix("New")
        return Request(
            problem=Problem(
                name=self.uuid or adhoc_name(reference, entry_point),
                source_set="kernelgym" if self.uuid else ADHOC,
                reference=reference,
                entry_point=entry_point,
            ),
            candidate=source_text.encode(self.kernel_code),
            backend=self.backend,
            device_class=device_class,
            device=device,
            priority=self.priority,
            fresh=self.force_refresh,
            workflow=self.served,
            options=options,
        )

    def rollout(self, request: Request, run: Run) -> Rollout:
        """The task as a trainer's rollout.  The protocol has neither prompt nor
        answer: the code stands for both.
        """
        return Rollout(
            answer=fence(self.kernel_code),
            candidate=request.candidate or b"",
            run=run,
            problem_id=_uuid(self.uuid),
            problem=request.problem,
            backend=request.backend,
            label=self.task_id,
            claims={
                "uuid": self.uuid,
                "is_valid": self.is_valid,
                "resources": as_json(self.resources),
                **self.asked,
            },
        )

    @property
    def problem_source(self) -> str:
        """The reference, or a module with the cases.  Raises ValueError."""
        return (
            cases.source_of(self.cases, self.cases_code)
            if self.by_cases
            else self.reference_code or ""
        )

    def _check_problem(self) -> None:
        if self.by_cases:
            if not self.kernel_class.removesuffix("New") or not self.kernel_class.endswith("New"):
                raise ValueError(
                    "entry_point: expected the candidate's class, of a name that ends in New, such"
                    f" as 'ModelNew'; got {self.entry_point!r}"
                )
            cases.source_of(self.cases, self.cases_code)
        elif self.reference_code is None:
            raise ValueError(f"reference_code: required by the workflow {self.workflow!r}")
        elif len(self.reference_code.strip()) < 10:
            raise ValueError("reference_code: expected at least 10 characters")

    def _asked_of_cases(self) -> dict[str, Any]:
        inline = self.cases is not None
        return {
            "workflow": CASES_WORKFLOW,
            "cases_source": cases.INLINE if inline else cases.CODE,
            "num_cases": cases.count(self.cases) if inline else None,
            "run_performance": self.measured,
        }


def _uuid(text: str | None) -> UUID | None:
    """The id of a stored problem, as exported prompts have it; None for any other name."""
    try:
        return UUID(text or "")
    except ValueError:
        return None


class Batch(msgspec.Struct, kw_only=True, frozen=True):
    """Several tasks at once."""

    batch_id: str
    tasks: Annotated[list[EvaluationRequest], Meta(min_length=1, max_length=BATCH_TASKS)]

    def __post_init__(self) -> None:
        """Refuse a name for two tasks: the result of one would be told for both."""
        named: dict[str, EvaluationRequest] = {}
        for each in self.tasks:
            if named.setdefault(each.task_id, each) != each:
                raise ValueError(
                    f"tasks: expected task ids of their own, got {each.task_id!r} for different"
                    " tasks"
                )


class WorkflowSubmission(msgspec.Struct, kw_only=True, frozen=True):
    """A task in the general form: the payload holds the fields of an EvaluationRequest."""

    workflow: str = WORKFLOW
    payload: dict[str, Any] = {}
    task_id: str | None = None
    force_refresh: bool = False
    resources: dict[str, Any] | None = None


def read(body: bytes, kind: type[T]) -> T:
    """The body as that kind of request.  Raises BodyError and UnknownWorkflowError."""
    try:
        data = freeform.load(body)
    except RequestError as error:
        raise BodyError(str(error)) from error
    return convert(data, kind)


def convert(data: Any, kind: type[T]) -> T:
    """`read` for a decoded body."""
    data = _without_null(data)
    _check_workflows(data)
    try:
        return converted(data, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BodyError(str(error)) from error


def _without_null(data: Any) -> Any:
    """Fields without null ones; the values in inline cases stay as they are."""
    if isinstance(data, dict):
        return {
            name: value if name == "cases" else _without_null(value)
            for name, value in data.items()
            if value is not None
        }
    return [_without_null(each) for each in data] if isinstance(data, list) else data


def _check_workflows(data: Any) -> None:
    """Before anything else: another workflow has other fields."""
    if not isinstance(data, dict):
        return
    tasks = data.get("tasks")
    for each in (data, *(tasks if isinstance(tasks, list) else ())):
        if isinstance(each, dict):
            _check_workflow(each.get("workflow", WORKFLOW))


def _check_workflow(name: Any) -> None:
    if not isinstance(name, str) or name.lower() not in WORKFLOWS:
        raise UnknownWorkflowError(
            f"Registry missing {name!r}; this server has {' and '.join(map(repr, WORKFLOWS))}"
        )
