"""ENQUEUE: a problem against itself: the candidate is the reference.  The result says whether the
problem can be evaluated on a device, and is stored as the problem's check, not as an attempt of
anybody's (app/store/trajectory/checks.py).
"""

from __future__ import annotations

from dataclasses import replace

from app.domain import problem_check
from app.domain.request import PlannedJob, Request, RequestError


class ProblemCheck:
    """No candidate but the reference."""

    def plan(self, request: Request) -> tuple[PlannedJob, ...]:
        """One job."""
        if request.candidate is not None:
            raise RequestError(
                "candidate: expected none, got source: the workflow 'problem_check' takes the"
                " reference"
            )
        if request.problem.is_by_cases:
            raise RequestError(
                "reference: expected a model, got cases alone, which cannot be their own candidate"
            )
        candidate = problem_check.identity(request.problem.reference, request.problem.entry_point)
        options = replace(request.options, check=True)
        return (PlannedJob(candidate=candidate, backend=problem_check.BACKEND, options=options),)
