"""BROWSE: bodies of the KernelGYM protocol, checked.  Unknown fields are ignored, and null is the same as absent."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from app.domain import ids, source
from app.domain.job import JobOptions
from app.domain.problem import Problem
from app.domain.request import Request, RequestError

WORKFLOW = "kernelbench"
CASES_WORKFLOW = "kernel_simple"
CASES_REFUSED = (
    f"workflow {CASES_WORKFLOW!r} is not served: fixed cases, which the candidate may even bring itself, say nothing "
    "of inputs that it has not seen, and leave no reference to time it against; "
    f"expected {WORKFLOW!r} with a reference_code whose get_inputs() and Model make fresh inputs and their answers"
)
BATCH_TASKS = 100
CALL_TIMEOUT_S = 30.0
"""For one call, as for every other submitter; a task's own timeout is for all of it."""

SPELLINGS = {
    "eager": frozenset({"eager", "torch", "pytorch"}),
    "compile": frozenset({"compile", "torch_compile", "torch-compile"}),
}
"""How the protocol's clients write a baseline of ours in `reference_backend`."""

Text = Annotated[str, Meta(max_length=100_000)]
T = TypeVar("T")


class BodyError(ValueError):
    """A body that does not say what it must: the message says where and what was expected."""


class UnknownWorkflowError(ValueError):
    """No workflow of that name is served."""


class EvaluationRequest(msgspec.Struct, kw_only=True, frozen=True):
    """One candidate to be evaluated.  Fields that say how to measure (numbers of trials, warm-up, profiling, reference
    cache) are taken and have no effect: the referee measures until the interval is narrow, and always the same way.

    Profiles are the driver's on a GPU, because coverage rewards count the library's kernels, too."""

    task_id: Annotated[str, Meta(min_length=1, max_length=100)]
    reference_code: Text | None = None
    kernel_code: Text
    toolkit: str = "kernelbench"
    backend_adapter: str = "kernelbench"
    backend: Literal["cuda", "triton"] = "triton"
    num_correct_trials: Annotated[int, Meta(ge=1, le=20)] = 5
    num_perf_trials: Annotated[int, Meta(ge=1, le=1000)] = 100
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
    run_performance: bool | None = None
    workflow: str = WORKFLOW
    resources: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        for name in ("task_id", "entry_point", "uuid", "device_preference"):
            text = getattr(self, name) or ""
            if source.printable(text) != text:
                raise ValueError(f"{name}: expected text without NUL and lone surrogates")
        if self.reference_code is None:
            raise ValueError(f"reference_code: required by the workflow {self.workflow!r}")
        for name in ("reference_code", "kernel_code"):
            if len(getattr(self, name).strip()) < 10:
                raise ValueError(f"{name}: expected at least 10 characters")
        for name in ("toolkit", "backend_adapter"):
            if getattr(self, name) != "kernelbench":
                raise ValueError(f"{name}: expected 'kernelbench', got {getattr(self, name)!r}")
        gpus = (self.resources or {}).get("gpus", 1)
        if gpus != 1:
            raise ValueError(f"resources.gpus: expected 1, got {gpus!r}")

    @property
    def asked(self) -> dict[str, Any]:
        """What the answer repeats."""
        names = ("backend", "num_correct_trials", "num_perf_trials", "timeout", "priority", "device_preference")
        others = ("force_refresh", "workflow", "reference_backend", "uuid", "entry_point")
        return {name: getattr(self, name) for name in (*names, *others)}

    def request(self, device_class: str, device: str | None) -> Request:
        """The same for the service.  Raises RequestError."""
        measured = self.run_performance is not False and self.measure_performance is not False
        values: dict[str, Any] = {} if measured else {"timing_budget_s": 0.0}
        if measured and self.reference_backend in SPELLINGS["compile"]:
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
        reference = source.encode(self.reference_code or "")
        return Request(
            problem=Problem(
                name=self.uuid or ids.sha256(reference)[:12],
                source_set="kernelgym" if self.uuid else "adhoc",
                reference=reference,
                entry_point=self.entry_point,
            ),
            candidate=source.encode(self.kernel_code),
            backend=self.backend,
            device_class=device_class,
            device=device,
            priority=self.priority,
            fresh=self.force_refresh,
            options=options,
        )


class Batch(msgspec.Struct, kw_only=True, frozen=True):
    """Several tasks at once."""

    batch_id: str
    tasks: Annotated[list[EvaluationRequest], Meta(min_length=1, max_length=BATCH_TASKS)]


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
        return convert(msgspec.json.decode(body), kind)
    except msgspec.DecodeError as error:
        raise BodyError(f"expected a JSON object: {error}") from error


def convert(data: Any, kind: type[T]) -> T:
    """The same for what is decoded already."""
    data = _without_null(data)
    _check_workflows(data)
    try:
        return msgspec.convert(data, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BodyError(str(error)) from error


def _without_null(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _without_null(value) for name, value in data.items() if value is not None}
    return [_without_null(each) for each in data] if isinstance(data, list) else data


def _check_workflows(data: Any) -> None:
    """Before anything else: another workflow has other fields."""
    if not isinstance(data, dict):
        return
    tasks = data.get("tasks")
    for each in (data, *(tasks if isinstance(tasks, list) else ())):
        if isinstance(each, dict):
            _check_workflow(each.get("workflow", WORKFLOW), each.get("toolkit"))


def _check_workflow(name: Any, toolkit: Any) -> None:
    asked = name.lower() if isinstance(name, str) else name
    if CASES_WORKFLOW in (asked, toolkit):
        raise UnknownWorkflowError(CASES_REFUSED)
    if asked != WORKFLOW:
        raise UnknownWorkflowError(f"Registry missing {name!r}; this server has {WORKFLOW!r}")
