"""One evaluation as a flat row, for pages and datasets.

A new column takes a field of `EvaluationRow`, its SQL expression in
`app.store.evaluation.evaluation_rows.COLUMNS` and, to be written into datasets, a field of
`app.domain.dataset.example_facts.EvaluationFacts`.  Everything between follows from these.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, kw_only=True)
class EvaluationRow:
    """An evaluation with its job, candidate, problem and current verdict, and the
    turn that asked for it, if any.
    """

    evaluation_id: UUID
    job_id: UUID
    candidate_id: UUID
    problem_id: UUID
    created_at: datetime
    """Time when the evaluation was stored."""

    problem: str
    source_set: str
    level: int | None
    entry_point: str
    reference_sha256: str
    backend: str
    source_sha256: str

    device_class: str
    device_name: str
    baseline: str
    protocol: str
    status: str
    valid: bool
    compiled: bool
    correct: bool

    verdict_id: UUID | None
    """None, like `verdict`, if the evaluation has not been judged."""
    verdict: str | None
    """A reviewer's label if there is one, else the detectors'."""
    reviewed: bool = False
    """True if `verdict` is a reviewer's."""
    findings: tuple[str, ...]
    """Names of the detectors with a finding, each once."""

    speedup: float | None
    """Credited speedup: None for a hack and for an unjudged evaluation."""
    speedup_ci_low: float | None
    speedup_ci_high: float | None
    measured_speedup: float | None
    """Speedup as measured, whatever the verdict."""
    device_speedup: float | None
    """Speedup by the device's own time, where it was measured: None for a hack and
    for an unjudged evaluation.
    """
    device_speedup_ci_low: float | None
    device_speedup_ci_high: float | None
    reference_us: float | None
    candidate_us: float | None
    coverage_time: float | None
    coverage_count: float | None

    turn_id: UUID | None
    """None, like the five fields below, if the candidate was submitted without a
    trajectory (or run).
    """
    trajectory_id: UUID | None
    turn: int | None
    run_id: UUID | None
    run: str | None
    model: str | None
