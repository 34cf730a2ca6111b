"""EVALUATE: objects shared by all steps of one evaluation once both sides can be called."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.job import Job
from workers.protocol import problem_spec
from workers.referee.cancellation import Cancellation
from workers.referee.resources import Resources
from workers.referee.session.call_runner import CallRunner


@dataclass(frozen=True, kw_only=True)
class EvaluationContext:
    """The job, the device's resources, the problem's specification, and the runner of calls."""

    job: Job
    resources: Resources
    spec: problem_spec.ProblemSpec
    """Specification of the problem's inputs and outputs."""
    runner: CallRunner
    seed: bytes
    """The master seed, 32 bytes."""
    cancellation: Cancellation
