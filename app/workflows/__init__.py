"""ENQUEUE: workflows plan a request into jobs.  A workflow is one file here and one line below, or
an entry point of the group `assay.workflows` in another package.
"""

from __future__ import annotations

from functools import cache
from typing import Protocol

from app import plugins
from app.domain.problem import CASES_WORKFLOW
from app.domain.request import PlannedJob, Request, RequestError
from app.workflows.kernel_simple import KernelSimple
from app.workflows.kernelbench import KernelBench
from app.workflows.problem_check import ProblemCheck


class Workflow(Protocol):
    """Rules for evaluating a kind of problem."""

    def plan(self, request: Request) -> tuple[PlannedJob, ...]:
        """The jobs that answer the request; the first one's result is the answer.
        Raises RequestError.
        """
        ...


CHECK = "problem_check"
BUILTIN: dict[str, Workflow] = {
    "kernelbench": KernelBench(),
    CASES_WORKFLOW: KernelSimple(),
    CHECK: ProblemCheck(),
}


@cache
def known() -> dict[str, Workflow]:
    """Every workflow, by name."""
    return plugins.extend("workflows", BUILTIN)


def plan(request: Request) -> tuple[PlannedJob, ...]:
    """Plan a request by its workflow.  Raises UnknownPluginError and RequestError.

    Labels of trainers, imports and datasets name a problem and no workflow: one that gives cases
    and no model is planned as such by default.
    """
    if request.options.check:
        raise RequestError(f"options.check: expected false: the workflow {CHECK!r} sets it")
    usual = request.workflow == Request.workflow
    name = CASES_WORKFLOW if usual and request.problem.is_by_cases else request.workflow
    return plugins.find("workflows", known(), name).plan(request)
