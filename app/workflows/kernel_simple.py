"""ENQUEUE: KernelGYM's second form: a candidate on its own, and cases with their
answers; no model to compare it with.

The problem is a module that defines `get_cases()`: a list, or anything that can be
iterated over, of

    {"inputs": [tensors and numbers], or {name: …}, "outputs": the expected outputs of ModelNew,
     "name": …, "rtol": …, "atol": …}

where the last three may be left out, and, where ModelNew takes arguments, `get_init_inputs()`.  It
is called anew, under a fresh secret seed, for every call of the candidate: the candidate has never
seen its random draws.  Cases that are always the same prove little, and a candidate that passes
only such ones is a suspect.

The cases are the problem's, never the candidate's: a candidate could bring easy ones.
"""

from __future__ import annotations

from dataclasses import replace

from app.domain.problem import CASES_FUNCTION
from app.domain.request import PlannedJob, Request, RequestError


class KernelSimple:
    """A candidate on its own."""

    def plan(self, request: Request) -> tuple[PlannedJob, ...]:
        """One job for all cases."""
        if request.candidate is None:
            raise RequestError(
                "candidate: expected source, got None: the workflow 'kernel_simple' evaluates"
                " candidates"
            )
        if CASES_FUNCTION not in request.problem.reference:
            raise RequestError(
                "reference: the workflow 'kernel_simple' expects a module that defines get_cases()"
            )
        try:
            options = replace(request.options, cases=True)
        except ValueError as error:
            raise RequestError(str(error)) from error
        return (PlannedJob(candidate=request.candidate, backend=request.backend, options=options),)
