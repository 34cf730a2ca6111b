"""ENQUEUE: KernelBench's form: a reference `Model` and a candidate `ModelNew`,
compared in one job.
"""

from __future__ import annotations

from app.domain.request import PlannedJob, Request, RequestError


class KernelBench:
    """Reference and candidate."""

    def plan(self, request: Request) -> tuple[PlannedJob, ...]:
        """One job.  An empty candidate is a candidate (and fails as one); none at
        all is a bad request.
        """
        if request.candidate is None:
            raise RequestError(
                "candidate: expected source, got None: the workflow 'kernelbench' evaluates"
                " candidates"
            )
        return (
            PlannedJob(
                candidate=request.candidate, backend=request.backend, options=request.options
            ),
        )
