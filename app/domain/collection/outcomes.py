"""COLLECT: outcome of an attempt, from the result of its evaluation or from the end of its call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.domain import reward
from app.domain.collection.call import CallError, End, ErrorKind
from app.domain.collection.stop_reasons import StopReason
from app.domain.collection.tree import AttemptResult
from app.domain.trajectory import NO_CODE

_FAULTS = {
    ErrorKind.CONTEXT_OVERFLOW: StopReason.CONTEXT_OVERFLOW,
    ErrorKind.CONTENT_POLICY: StopReason.CONTENT_FILTER,
}

CAMPAIGN = frozenset({ErrorKind.UNAUTHORISED, ErrorKind.QUOTA, ErrorKind.NOT_FOUND})
"""Errors that every other call of the endpoint would meet, too: the collection is paused."""


def judged(
    result: Mapping[str, Any], *, end: End, scored_by: str, tokens: int, cost_usd: float
) -> AttemptResult:
    """Outcome of an evaluated answer.  A result that says nothing about the
    candidate is a fault of the evaluator.
    """
    if not result["valid"]:
        return AttemptResult(
            fault=StopReason.EVALUATOR_ERROR, end=end, tokens=tokens, cost_usd=cost_usd
        )
    interval, profile = result["speedup_ci"], result["profile"]
    return AttemptResult(
        end=end,
        status=result["status"],
        correct=bool(result["correct"]),
        label=result["verdict"],
        speedup=result["speedup"],
        ci_low=interval[0] if interval else None,
        coverage=result["coverage_time"],
        reward=reward.score(scored_by, result),
        kernels=(
            len({row["name"] for row in profile["kernels"] if row["custom"]}) if profile else None
        ),
        tokens=tokens,
        cost_usd=cost_usd,
    )


def without_code(*, end: End, scored_by: str, tokens: int, cost_usd: float) -> AttemptResult:
    """Outcome of an answer without a candidate: the model's failure, with the reward
    of a failure.
    """
    return AttemptResult(
        end=end,
        status=NO_CODE,
        reward=reward.score(scored_by, reward.WITHOUT_CODE),
        tokens=tokens,
        cost_usd=cost_usd,
    )


def failed(error: CallError, *, tokens: int, cost_usd: float) -> AttemptResult:
    """Outcome of an attempt after its call has failed for good."""
    fault = _FAULTS.get(error.kind, StopReason.ENDPOINT_ERROR)
    return AttemptResult(fault=fault, end=End.ERROR, tokens=tokens, cost_usd=cost_usd)
