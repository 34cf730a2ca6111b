"""STORE: a collection's progress, spending and results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.domain import metrics, turn_metrics
from app.domain.collection.budgets import as_mapping
from app.domain.collection.states import CollectionState, NodeState
from app.domain.filter_language import Compare
from app.domain.metric_samples import MetricSample, Operator
from app.store import tables
from app.store.collection.lifecycle import Collection
from app.store.figures import metric_inputs

THRESHOLDS = (1.0, 1.5, 2.0)
"""Speedups p of fast_p."""

_k = tables.model_calls.c
_n = tables.nodes.c


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Counts of a collection, cheap enough to ask every second."""

    collection_id: UUID
    name: str
    state: CollectionState
    reason: str
    problems: int
    rollouts: int
    ends: Mapping[str, int]
    """Stop reason → rollouts."""
    budgets_reached: Mapping[str, int]
    """Budget, as `collection: tokens` → rollouts that it ended."""
    attempts: Mapping[str, int]
    """State → attempts decided so far."""
    spent: Mapping[str, float]
    reserved: Mapping[str, float]
    caps: Mapping[str, float | None]
    created_at: datetime
    deadline_at: datetime | None
    finished_at: datetime | None
    waits_until: datetime | None
    """Time of the next call, where nothing else is on its way: an endpoint has asked to wait, or
    is away.
    """
    waits_for: str | None
    """Endpoint that is waited for, with the error of the last call."""

    @property
    def over(self) -> bool:
        """True if nothing will be added."""
        return self.state in (CollectionState.FINISHED, CollectionState.STOPPED)

    @property
    def stopped(self) -> int:
        """Rollouts that have ended."""
        return sum(self.ends.values())


@dataclass(frozen=True, kw_only=True)
class Spending:
    """Cost of the calls of one endpoint."""

    endpoint: str
    calls: int
    answered: int
    failed: int
    lost: int
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    usd: float
    """Cost of the calls of known cost, in US dollars."""
    unknown_cost: int
    """Answered calls without one."""
    first_token_ms: float | None
    """Median."""
    errors: Mapping[str, int]
    last_error: str | None
    """Message of the last failed call."""


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Quality of the answers, by the rules of every report (app.domain.metrics)."""

    answers: int
    correct: int
    """Correct answers, hacks excluded."""
    hacks: int
    without_code: int
    problems: int
    """Problems with at least one judged answer."""
    solved: int
    """Problems with a correct answer."""
    fast_p: Mapping[str, float | None]
    """Share of answers; threshold → value."""
    fast_problems: Mapping[str, float | None]
    """Share of problems by their best answer."""
    solved_by_turn: tuple[int, ...]
    """Samples (app.store.trajectory.attempt_lines) with a correct answer at that turn or before."""


def progress(connection: sa.Connection, collection: Collection) -> Progress:
    """The counts as they are now."""
    rollouts = connection.execute(_ROLLOUTS, {"collection_id": collection.collection_id}).all()
    states = connection.execute(_ATTEMPTS, {"collection_id": collection.collection_id}).all()
    waits_until = _waits_until(collection.state, states)
    return Progress(
        collection_id=collection.collection_id,
        name=collection.spec.name,
        state=collection.state,
        reason=collection.reason,
        problems=connection.execute(
            _PROBLEMS, {"collection_id": collection.collection_id}
        ).scalar_one(),
        rollouts=sum(row.rows_ for row in rollouts),
        ends=_counted(
            (row.stop_reason, row.rows_) for row in rollouts if row.stop_reason is not None
        ),
        budgets_reached=_counted(
            (row.detail, row.rows_) for row in rollouts if row.detail is not None
        ),
        attempts={row.state: row.rows_ for row in states},
        spent=as_mapping(collection.spent),
        reserved=as_mapping(collection.reserved),
        caps=as_mapping(collection.spec.budgets.collection),
        created_at=collection.created_at,
        deadline_at=collection.deadline_at,
        finished_at=collection.finished_at,
        waits_until=waits_until,
        waits_for=None if waits_until is None else _waits_for(connection, collection),
    )


def _waits_until(state: CollectionState, states: Sequence[sa.Row[Any]]) -> datetime | None:
    """See Progress.  `states`: rows of the attempts by state."""
    first_due = {row.state: row.first_due for row in states}
    if state is not CollectionState.RUNNING or first_due.keys() & {
        NodeState.CALLING,
        NodeState.EVALUATING,
    }:
        return None
    return first_due.get(NodeState.READY)


def _waits_for(connection: sa.Connection, collection: Collection) -> str | None:
    row = connection.execute(_NEXT_AGAIN, {"collection_id": collection.collection_id}).one_or_none()
    return None if row is None else f"endpoint {row.endpoint}: {row.error_message}"


def spending(connection: sa.Connection, collection_id: UUID) -> list[Spending]:
    """Cost by endpoint, the greatest first."""
    errors: dict[str, dict[str, int]] = {}
    for row in connection.execute(_ERRORS, {"collection_id": collection_id}):
        errors.setdefault(row.endpoint, {})[row.error_kind] = row.rows_
    found = connection.execute(_SPENDING, {"collection_id": collection_id})
    return [Spending(**{**_numbers(row), "errors": errors.get(row.endpoint, {})}) for row in found]


def quality(connection: sa.Connection, collection: Collection) -> Quality:
    """Figures over all judged answers of the collection's run."""
    found = metric_inputs.attempted(
        connection, Compare(field="run", operator="=", value=collection.spec.name)
    )
    judged = [each.outcome for each in found]
    best = [metrics.best(group) for group in metrics.by_problem(judged).values()]
    hacks = metrics.hack_rates(Counter((each.passed, each.label) for each in found))
    turns: dict[str, list[MetricSample]] = {}
    for each in found:
        turns.setdefault(each.line, []).append(each.outcome)
    longest = max((len(each) for each in turns.values()), default=0)
    return Quality(
        answers=len(found),
        correct=sum(each.correct for each in judged),
        hacks=hacks.of_attempts.count,
        without_code=sum(each.label is None for each in found),
        problems=len(best),
        solved=sum(each.correct for each in best),
        fast_p=_fast(judged),
        fast_problems=_fast(best),
        solved_by_turn=tuple(
            sum(each.correct for each in found_best)
            for found_best in turn_metrics.running_best(list(turns.values()), longest)
        ),
    )


def _counted(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for name, count in pairs:
        found[name] += count
    return dict(found)


def _fast(judged: list[MetricSample]) -> dict[str, float | None]:
    shares = dict(
        zip(THRESHOLDS, metrics.fast_ps(judged, THRESHOLDS, operator=Operator.MORE), strict=True)
    )
    return {f"{p:g}": share.value for p, share in shares.items()}


def _numbers(row: sa.Row[Any]) -> dict[str, Any]:
    values = dict(row._mapping)
    values["usd"] = float(values["usd"])
    return values


_ROLLOUTS = sa.text("""
SELECT stop_reason, CASE WHEN stop_reason IN ('budget', 'max_tokens') THEN nullif(stop_detail, '')
  END AS detail,
  count(*) AS rows_
FROM collection_rollouts WHERE collection_id = :collection_id GROUP BY 1, 2
""")
_PROBLEMS = sa.text(
    "SELECT count(DISTINCT problem_id) FROM collection_rollouts WHERE collection_id ="
    " :collection_id"
)
_ATTEMPTS = sa.text("""
SELECT state, count(*) AS rows_, nullif(greatest(min(due_at), now() + interval '1 s'),
  now() + interval '1 s')
  AS first_due
FROM nodes WHERE collection_id = :collection_id GROUP BY 1
""")
"""`first_due` is null where an attempt is due within a second."""
_NEXT_AGAIN = sa.text("""
SELECT k.endpoint, k.error_message FROM nodes n
  JOIN model_calls k ON k.node_id = n.node_id AND k.claim = n.claims
WHERE n.collection_id = :collection_id AND n.state = 'ready' AND k.error_message IS NOT NULL
ORDER BY n.due_at LIMIT 1
""")
_SPENDING = sa.text("""
SELECT k.endpoint, count(*) AS calls,
  count(*) FILTER (WHERE k.state = 'answered') AS answered,
    count(*) FILTER (WHERE k.state = 'failed') AS failed,
  count(*) FILTER (WHERE k.state = 'lost') AS lost,
  coalesce(sum(k.input_tokens), 0)::bigint AS input_tokens,
  coalesce(sum(k.cached_input_tokens), 0)::bigint AS cached_input_tokens,
  coalesce(sum(k.output_tokens), 0)::bigint AS output_tokens,
  coalesce(sum(k.reasoning_tokens), 0)::bigint AS reasoning_tokens,
  coalesce(sum(k.cost_usd), 0) AS usd,
  count(*) FILTER (WHERE k.state = 'answered' AND k.cost_usd IS NULL) AS unknown_cost,
  percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch
    FROM k.first_token_at - k.sent_at) * 1000)
    AS first_token_ms,
  (array_agg(k.error_message ORDER BY k.last_at DESC NULLS LAST) FILTER (WHERE k.error_message
    IS NOT NULL))[1]
    AS last_error
FROM model_calls k JOIN nodes n USING (node_id) WHERE n.collection_id = :collection_id
GROUP BY k.endpoint ORDER BY usd DESC, calls DESC, k.endpoint
""")
_ERRORS = sa.text("""
SELECT k.endpoint, k.error_kind, count(*) AS rows_ FROM model_calls k JOIN nodes n USING (node_id)
WHERE n.collection_id = :collection_id AND k.error_kind IS NOT NULL GROUP BY 1, 2 ORDER BY 3 DESC, 2
""")
