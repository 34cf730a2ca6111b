"""ENQUEUE: what a request is planned into.  A workflow is one file here and one line below, or an entry point of
the group `assay.workflows` in another package."""

from __future__ import annotations

from functools import cache
from typing import Protocol

from app import plugins
from app.domain.request import PlannedJob, Request
from app.workflows.kernel_simple import KernelSimple
from app.workflows.kernelbench import KernelBench


class Workflow(Protocol):
    """How a kind of problem is evaluated."""

    def plan(self, request: Request) -> tuple[PlannedJob, ...]:
        """The jobs that answer the request; the first one's result is the answer.  Raises RequestError."""
        ...


BUILTIN: dict[str, Workflow] = {
    "kernelbench": KernelBench(),
    "kernel_simple": KernelSimple(),
}


@cache
def known() -> dict[str, Workflow]:
    """Every workflow, by name."""
    return plugins.extend("workflows", BUILTIN)


def plan(request: Request) -> tuple[PlannedJob, ...]:
    """What the request's workflow makes of it.  Raises UnknownPluginError and RequestError."""
    return plugins.find("workflows", known(), request.workflow).plan(request)
