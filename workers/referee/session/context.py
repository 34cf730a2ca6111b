"""EVALUATE: objects shared by all steps of one evaluation once both sides can be called."""

from __future__ import annotations

import os
from dataclasses import dataclass

from app.domain.job import Job
from workers.protocol import problem_spec
from workers.referee.cancellation import Cancellation
from workers.referee.comparison.correctness import DEFAULT_RULE, Rule
from workers.referee.processes.process_session import Session
from workers.referee.resources import Resources
from workers.referee.session.call_runner import CallRunner
from workers.referee.session.deadline import Deadline


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

    def further_calls(
        self,
        session: Session,
        deadline: Deadline,
        rule: Rule = DEFAULT_RULE,
        quickest_s: float | None = None,
    ) -> CallRunner:
        """A runner of calls of this session that are recorded on their own, on inputs under a seed
        of their own.  `rule`, `quickest_s`: see CallRunner.
        """
        return CallRunner(
            self.runner.reference,
            session,
            self.spec,
            os.urandom(32),
            deadline,
            self.resources.device_lock,
            rule,
            quickest_s,
        )
