"""Evaluators of one GPU, several at a time, and the candidates that they evaluate."""

import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any
from uuid import uuid4

import torch

from app.domain.evaluation import Evaluation, EvaluationError, Status
from app.domain.job import Job, JobOptions
from app.domain.verdict import Label, Subject
from app.judge import judge
from tests import zoo
from workers.referee.measure import measure
from workers.referee.resources import Resources

SMALL = (
    "row_softmax",
    "layer_norm",
    "scaled_add",
    "rms_norm",
    "swiglu_half",
    "linear_gelu",
    "moments",
    "transposed_scale",
)
"""Problems with a small honest Triton kernel."""


BUDGET_S = 0.08
"""For timing, of the device to itself: six groups, mostly."""


# One evaluation
# --------------------------------------------------------------------------------------------------
def job(spec: dict[str, Any]) -> Job:
    options = JobOptions(
        timing_budget_s=spec.get("budget", BUDGET_S),
        call_timeout_s=spec.get("timeout", 15.0),
        deadline_s=max(60.0, 2 * spec.get("timeout", 15.0)),
        profile=spec.get("profile", "launches"),
        protocol=spec.get("protocol", "assay"),
        cases=spec.get("cases", False),
        device_time=spec.get("device_time", False),
        variants=spec.get("variants", True),
    )
    reference, candidate = (
        spec["reference"].encode(),
        spec["candidate"].encode("utf-8", "surrogateescape"),
    )
    return Job(
        job_id=uuid4(),
        reference=reference,
        candidate=candidate,
        backend=spec["backend"],
        options=options,
    )


def _row(
    spec: dict[str, Any], evaluated: Job, evaluation: Evaluation, seconds: float
) -> dict[str, Any]:
    verdict = judge(
        Subject(
            evaluation=evaluation,
            backend=spec["backend"],
            candidate=evaluated.candidate,
            reference=evaluated.reference,
        )
    )
    timing = evaluation.timing
    return {
        "name": spec["name"],
        "seconds": seconds,
        "status": str(evaluation.status),
        "label": str(verdict.label),
        "found": sorted({finding.detector for finding in verdict.findings}),
        "accused_by": sorted(
            {each.detector for each in verdict.findings if each.label != Label.CLEAN}
        ),
        "error": (
            f"{evaluation.error.kind}: {evaluation.error.message[:200]}"
            if evaluation.error
            else None
        ),
        "timing": asdict(timing) if timing else None,
        "coverage": evaluation.profile.coverage_time if evaluation.profile else None,
        "device_us": evaluation.profile.device_us if evaluation.profile else None,
        "profile": evaluation.profile.source if evaluation.profile else None,
        "profiler_error": evaluation.profile.profiler_error if evaluation.profile else None,
        "kernels": (
            [asdict(kernel) for kernel in evaluation.profile.kernels[:8]]
            if evaluation.profile
            else []
        ),
        "ablation": asdict(evaluation.ablation) if evaluation.ablation else None,
        "calls": evaluation.correctness.calls if evaluation.correctness else 0,
        "stage_ms": evaluation.stage_ms,
    }


class Fleet:
    """The referee of a device with some evaluations in flight, each in a thread of
    its own, as in a worker.
    """

    def __init__(
        self, device_class: str, slots: int, *, steady: bool = False, kept_bytes: int = 0
    ) -> None:
        torch.set_num_threads(1)
        self.slots = slots
        self.host = Resources(
            device_class, "bench", slots=slots, steady=steady, kept_bytes=kept_bytes
        )
        self.environment = asdict(self.host.wait_ready())

    def run(self, specs: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], float]:
        """Rows in the order of the specs, and seconds from the first to the last."""
        began = time.perf_counter()
        rows = list(self.each(specs))
        return rows, time.perf_counter() - began

    def each(self, specs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Rows in the order of the specs, as they come."""
        with ThreadPoolExecutor(self.slots) as pool:
            yield from pool.map(self._one, specs)

    def _one(self, spec: dict[str, Any]) -> dict[str, Any]:
        began = time.perf_counter()
        asked = job(spec)
        evaluation = self.evaluated(asked)
        return _row(spec, asked, evaluation, time.perf_counter() - began)

    def evaluated(self, job: Job) -> Evaluation:
        """The evaluation; a fault of the referee gives one, too: `invalid`, of kind `our_fault`."""
        try:
            found, _ = measure(job, self.host)
            self.host.recycle(
                job.options.memory_bytes
            )  # on the CPU; a GPU's processes are buried meanwhile
            return found
        except Exception as error:  # noqa: BLE001 (the others of a figure go on)
            traceback.print_exc()
            assert self.host.environment is not None
            fault = EvaluationError(
                kind="our_fault", message=f"{type(error).__name__}: {error}", log=""
            )
            return Evaluation(
                status=Status.INVALID, error=fault, environment=self.host.environment, seed=""
            )

    def close(self) -> None:
        self.host.close()


# Candidates
# --------------------------------------------------------------------------------------------------
def spec_of(case: zoo.Case, **changes: Any) -> dict[str, Any]:
    candidate = case.candidate.decode("utf-8", "surrogateescape")
    return {
        "name": case.name,
        "reference": case.reference.decode(),
        "candidate": candidate,
        "backend": case.backend,
        "cases": case.is_by_cases,
        **changes,
    }


def small(count: int) -> list[dict[str, Any]]:
    """Different sources: each is compiled afresh, because no process sees another's cache."""
    cases = {case.name: case for case in zoo.cases()}
    chosen = [cases[f"honest/{name}_triton"] for name in SMALL]
    specs = []
    for index in range(count):
        spec = spec_of(chosen[index % len(chosen)])
        specs.append({**spec, "candidate": f"{spec['candidate']}\n# variant {index}\n"})
    return specs
