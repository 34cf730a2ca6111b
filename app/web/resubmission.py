"""BROWSE: a stored job as a request, to have its candidate evaluated again."""

from __future__ import annotations

from app.domain.job import JobOptions
from app.domain.problem import Problem
from app.domain.request import Request
from app.store.browse.job import JobPage


def request_of(job: JobPage) -> Request:
    """The same candidate, problem, device and options as another job, with new seeds."""
    problem = Problem(
        name=job.problem,
        reference=job.reference,
        source_set=job.source_set,
        level=job.level,
        entry_point=job.entry_point,
    )
    return Request(
        problem=problem,
        candidate=job.candidate,
        backend=job.backend,
        device_class=job.device_class,
        device=job.device,
        run=job.run or None,
        options=JobOptions(**job.options),
        fresh=True,
    )
