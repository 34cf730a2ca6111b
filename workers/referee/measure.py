"""EVALUATE: the referee's entry point, for problems with a model and problems by cases."""

from __future__ import annotations

from app.domain.evaluation import Evaluation
from app.domain.evidence import Traces
from app.domain.job import Job
from workers.referee.cancellation import Cancellation
from workers.referee.evaluate import evaluate
from workers.referee.evaluate_cases import evaluate_cases
from workers.referee.resources import Resources


def measure(
    job: Job, resources: Resources, cancellation: Cancellation | None = None
) -> tuple[Evaluation, Traces]:
    """The evaluation and its traces.  Raises only for faults of the referee, as `evaluate` does."""
    return (evaluate_cases if job.options.cases else evaluate)(job, resources, cancellation)
