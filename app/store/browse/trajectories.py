"""STORE: the list of trajectories, newest first, and the page of one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.domain import reward
from app.domain.evaluation import Evaluation
from app.domain.trajectory import Message
from app.domain.verdict import Label, is_credited
from app.store import credited, evaluation_json, evaluation_rows
from app.store.browse import paging, trajectory_orders
from app.store.browse.evaluation import NOTHING, Believed, believed
from app.store.tables import (
    attempts,
    candidates,
    evaluations,
    jobs,
    problems,
    runs,
    trajectories,
    turns,
    verdicts,
)


@dataclass(frozen=True, kw_only=True)
class Named:
    """A trajectory with the names of its problem and run."""

    trajectory_id: UUID
    label: str | None
    backend: str
    created_at: datetime
    problem_id: UUID
    problem: str
    run_id: UUID | None
    run: str | None
    model: str | None


@dataclass(frozen=True, kw_only=True)
class TrajectoryRow(Named):
    """A line of the list of trajectories."""

    turns: int = 0
    correct: int = 0
    """Correct turns, hacks excluded."""
    hacks: int = 0
    best_speedup: float | None = None
    """Best credited one."""


@dataclass(frozen=True, kw_only=True)
class TurnLine:
    """A turn in the rail: its outcome, without its texts."""

    turn_index: int
    response_bytes: int
    job_id: UUID | None
    state: str | None
    evaluation_id: UUID | None
    status: str | None
    verdict: str | None
    speedup: float | None
    """Speedup as measured, independent of the verdict."""
    speedup_ci_low: float | None
    speedup_ci_high: float | None
    candidate_us: float | None
    device_name: str | None
    baseline: str | None
    protocol: str | None
    valid: bool | None
    compiled: bool | None
    correct: bool | None
    coverage_time: float | None
    coverage_count: float | None

    @property
    def result(self) -> Mapping[str, object] | None:
        """Keys of a result that rewards read; None until the turn is judged."""
        if self.job_id is None:
            return reward.NO_CODE
        return (
            None if self.verdict is None else {name: getattr(self, name) for name in reward.NO_CODE}
        )

    @property
    def credited(self) -> float | None:
        """The speedup, unless it is a hack's."""
        return self.speedup if is_credited(correct=True, label=self.verdict) else None


@dataclass(frozen=True, kw_only=True)
class TurnPage:
    """One turn, as submitted and as measured."""

    turn_index: int
    messages: tuple[Message, ...]
    response: bytes
    candidate: bytes | None
    job_id: UUID | None
    evaluation_id: UUID | None
    baseline: str | None
    evaluation: Evaluation | None
    """None, as the two before, until its job has finished."""
    believed: Believed


@dataclass(frozen=True, kw_only=True)
class TurnText:
    """Everything that was said in one turn."""

    turn_index: int
    messages: tuple[Message, ...]
    response: bytes
    """At most TEXT_BYTES of it."""
    response_bytes: int
    """Size of the whole response."""


@dataclass(frozen=True, kw_only=True)
class TrajectoryPage(Named):
    """One trajectory with its rail; `turn` reads the texts of one turn."""

    step: int | None
    claims: dict[str, Any] | None
    """Further fields of its source, unchecked."""
    turns: tuple[TurnLine, ...]
    newer: UUID | None
    """The trajectory stored after this one, of the same run if it has one."""
    older: UUID | None


TEXT_BYTES = 256 << 10
"""Bytes of one response, and of the messages before it, in a conversation."""

_NAMED = (
    trajectories.c.trajectory_id,
    trajectories.c.label,
    trajectories.c.backend,
    trajectories.c.created_at,
    trajectories.c.problem_id,
    problems.c.name.label("problem"),
    runs.c.run_id,
    runs.c.name.label("run"),
    runs.c.model,
)
_SOURCE = trajectories.join(problems, problems.c.problem_id == trajectories.c.problem_id).outerjoin(
    runs, runs.c.run_id == trajectories.c.run_id
)


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Conditions of a list of trajectories; an empty one excludes nothing."""

    run: str = ""
    """Part of the run's name."""
    model: str = ""
    problem: str = ""
    """Part of the problem's name."""
    outcome: str = ""
    """A key of OUTCOMES."""
    run_id: UUID | None = None
    """Exactly this run, as its page and comparisons link it: `step-12` is a part of
    `step-120`, too.
    """
    problem_id: UUID | None = None


_has = sa.exists().where(attempts.c.trajectory_id == trajectories.c.trajectory_id)
_right = credited.is_credited(attempts.c.correct, attempts.c.label)
OUTCOMES: dict[str, sa.ColumnElement[bool]] = {
    "correct": _has.where(_right),
    "not_correct": sa.not_(_has.where(_right)),
    "hack": _has.where(attempts.c.label == Label.HACK),
}
"""Filter by the outcome of turns → its condition."""

SORTS = ("created_at", "best_speedup", *trajectory_orders.VALUES)


def page(
    connection: sa.Connection,
    asked: Filter = Filter(),
    *,
    sort: str = "created_at",
    descending: bool = True,
    older_than: UUID | None = None,
    newer_than: UUID | None = None,
    limit: int = 50,
) -> paging.Page[TrajectoryRow]:
    """Trajectories that meet the filter, in an order of SORTS; by best speedup,
    those that have a credited one.

    `older_than` and `newer_than` are the trajectories that the page comes after and before.  An
    order of `trajectory_orders` is for a filter that leaves at most MOST of them: see `total`.
    """
    conditions = _conditions(connection, asked)
    key: sa.ColumnElement[UUID] = trajectories.c.trajectory_id
    query = sa.select(key).where(*conditions)
    value: sa.ColumnElement[Any] = trajectory_orders.VALUES.get(sort, key)
    if sort == "best_speedup":
        value = attempts.c.speedup
        key = attempts.c.trajectory_id
        query = sa.select(key).where(credited.FASTEST, key.is_not(None), _is_best())
        if conditions:
            joined = attempts.join(
                trajectories, trajectories.c.trajectory_id == attempts.c.trajectory_id
            )
            query = query.select_from(joined).where(*conditions)
    order = paging.Order(value=value, key=key, descending=descending, nullable=False)
    return order.page(
        connection,
        query,
        lambda ids: of_ids(connection, ids),
        after=older_than,
        before=newer_than,
        limit=limit,
    )


def some_ids(connection: sa.Connection, asked: Filter, limit: int) -> list[UUID]:
    """Ids of at most that many trajectories that meet the filter, newest first."""
    key = trajectories.c.trajectory_id
    query = sa.select(key).where(*_conditions(connection, asked)).order_by(key.desc()).limit(limit)
    return list(connection.scalars(query))


def total(connection: sa.Connection, asked: Filter = Filter()) -> paging.Total:
    """Number of trajectories that meet the filter."""
    return paging.total(
        connection, sa.select(trajectories.c.trajectory_id).where(*_conditions(connection, asked))
    )


def _is_best() -> sa.ColumnElement[bool]:
    """The attempt has the highest credited speedup of its trajectory; of equal ones, the latest."""
    other = attempts.alias("other")
    better = sa.tuple_(other.c.speedup, other.c.attempt_id) > sa.tuple_(
        attempts.c.speedup, attempts.c.attempt_id
    )
    return ~sa.exists().where(
        other.c.trajectory_id == attempts.c.trajectory_id,
        other.c.speedup.is_not(None),
        credited.is_credited(other.c.correct, other.c.label),
        better,
    )


def _conditions(connection: sa.Connection, asked: Filter) -> list[sa.ColumnElement[bool]]:
    """Names are looked up first: runs and problems are few, trajectories are many."""
    exact = {trajectories.c.run_id: asked.run_id, trajectories.c.problem_id: asked.problem_id}
    conditions: list[sa.ColumnElement[bool]] = [
        column == value for column, value in exact.items() if value is not None
    ]
    if asked.run or asked.model:
        named = sa.select(runs.c.run_id)
        named = (
            named.where(runs.c.name.icontains(asked.run, autoescape=True)) if asked.run else named
        )
        named = named.where(runs.c.model == asked.model) if asked.model else named
        conditions.append(
            trajectories.c.run_id == sa.any_(sa.literal(list(connection.scalars(named)), _IDS))
        )
    if asked.problem:
        named = sa.select(problems.c.problem_id).where(
            problems.c.name.icontains(asked.problem, autoescape=True)
        )
        conditions.append(
            trajectories.c.problem_id == sa.any_(sa.literal(list(connection.scalars(named)), _IDS))
        )
    if asked.outcome:
        conditions.append(OUTCOMES[asked.outcome])
    return conditions


_IDS = ARRAY(sa.Uuid)


def read(connection: sa.Connection, trajectory_id: UUID) -> TrajectoryPage | None:
    """The page of one trajectory; None where there is none of that id."""
    query = (
        sa.select(*_NAMED, runs.c.step, trajectories.c.claims)
        .select_from(_SOURCE)
        .where(trajectories.c.trajectory_id == trajectory_id)
    )
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        return None
    head = dict(row)
    newer, older = _neighbours(connection, trajectory_id, head["run_id"])
    return TrajectoryPage(**head, turns=_turns(connection, trajectory_id), newer=newer, older=older)


def turn(connection: sa.Connection, trajectory_id: UUID, turn_index: int) -> TurnPage | None:
    """One turn with its texts and its measurement; None where there is none of that number."""
    query = (
        sa.select(
            turns.c.turn_index,
            turns.c.messages_json,
            turns.c.response,
            turns.c.job_id,
            candidates.c.source.label("candidate"),
            evaluations.c.evaluation_id,
            evaluations.c.baseline,
            evaluations.c.measurement,
        )
        .select_from(
            turns.outerjoin(jobs, jobs.c.job_id == turns.c.job_id)
            .outerjoin(candidates, candidates.c.candidate_id == jobs.c.candidate_id)
            .outerjoin(evaluations, evaluations.c.job_id == jobs.c.job_id)
        )
        .where(turns.c.trajectory_id == trajectory_id, turns.c.turn_index == turn_index)
    )
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        return None
    found = dict(row)
    messages, measurement = json.loads(found.pop("messages_json")), found.pop("measurement")
    measured = found["evaluation_id"]
    return TurnPage(
        **found,
        messages=tuple(Message(role=item["role"], content=item["content"]) for item in messages),
        evaluation=None if measurement is None else evaluation_json.decode(measurement),
        believed=NOTHING if measured is None else believed(connection, measured),
    )


def conversation(connection: sa.Connection, trajectory_id: UUID) -> list[TurnText]:
    """All turns with their texts.  Messages longer than TEXT_BYTES are replaced by a note."""
    size = sa.func.octet_length(turns.c.messages_json)
    query = (
        sa.select(
            turns.c.turn_index,
            sa.case((size <= TEXT_BYTES, turns.c.messages_json)).label("messages_json"),
            sa.func.substring(turns.c.response, 1, TEXT_BYTES).label("response"),
            sa.func.octet_length(turns.c.response).label("response_bytes"),
        )
        .where(turns.c.trajectory_id == trajectory_id)
        .order_by(turns.c.turn_index)
    )
    return [_turn_text(row) for row in connection.execute(query).mappings()]


def _turn_text(row: sa.RowMapping) -> TurnText:
    messages = [
        {
            "role": "system",
            "content": f"(messages of more than {TEXT_BYTES >> 10} KiB: see the turn)",
        }
    ]
    if row["messages_json"] is not None:
        messages = json.loads(row["messages_json"])
    return TurnText(
        turn_index=row["turn_index"],
        messages=tuple(Message(role=each["role"], content=each["content"]) for each in messages),
        response=bytes(row["response"]),
        response_bytes=row["response_bytes"],
    )


def _neighbours(
    connection: sa.Connection, trajectory_id: UUID, run_id: UUID | None
) -> tuple[UUID | None, UUID | None]:
    key = trajectories.c.trajectory_id
    near = sa.select(key).limit(1)
    if run_id is not None:
        near = near.where(trajectories.c.run_id == run_id)
    newer = connection.scalar(near.where(key > trajectory_id).order_by(key))
    return newer, connection.scalar(near.where(key < trajectory_id).order_by(key.desc()))


def of_ids(connection: sa.Connection, wanted: list[UUID]) -> list[TrajectoryRow]:
    """Lines of the list for these trajectories, in their order."""
    query = sa.select(*_NAMED).select_from(_SOURCE).where(trajectories.c.trajectory_id.in_(wanted))
    found = {row["trajectory_id"]: row for row in connection.execute(query).mappings()}
    lengths, numbers = _lengths(connection, wanted), _numbers(connection, wanted)
    return [
        TrajectoryRow(**found[each], turns=lengths.get(each, 0), **numbers.get(each, {}))
        for each in wanted
    ]


def _lengths(connection: sa.Connection, trajectory_ids: list[UUID]) -> dict[UUID, int]:
    key = turns.c.trajectory_id
    query = sa.select(key, sa.func.count()).where(key.in_(trajectory_ids)).group_by(key)
    return dict(connection.execute(query).all())


def _numbers(connection: sa.Connection, trajectory_ids: list[UUID]) -> dict[UUID, dict[str, Any]]:
    """Trajectory → correct, hacks, best_speedup, over its evaluated turns."""
    query = (
        sa.select(
            evaluation_rows.COLUMNS["trajectory_id"].label("trajectory_id"),
            sa.func.count().filter(evaluation_rows.COLUMNS["correct"]).label("correct"),
            sa.func.count().filter(evaluation_rows.COLUMNS["verdict"] == Label.HACK).label("hacks"),
            sa.func.max(evaluation_rows.COLUMNS["speedup"]).label("best_speedup"),
        )
        .select_from(evaluation_rows.JOINED)
        .where(evaluation_rows.COLUMNS["trajectory_id"].in_(trajectory_ids))
        .group_by(evaluation_rows.COLUMNS["trajectory_id"])
    )
    found = [dict(row) for row in connection.execute(query).mappings()]
    return {row.pop("trajectory_id"): row for row in found}


_LINES = sa.select(
    turns.c.turn_index,
    sa.func.octet_length(turns.c.response).label("response_bytes"),
    turns.c.job_id,
    jobs.c.state,
    evaluations.c.evaluation_id,
    evaluations.c.status,
    evaluations.c.speedup,
    evaluations.c.speedup_ci_low,
    evaluations.c.speedup_ci_high,
    evaluations.c.candidate_us,
    evaluations.c.device_name,
    evaluations.c.baseline,
    evaluations.c.protocol,
    *(
        evaluations.c[name]
        for name in ("valid", "compiled", "correct", "coverage_time", "coverage_count")
    ),
    evaluation_rows.LABEL.label("verdict"),
).select_from(
    turns.outerjoin(jobs, jobs.c.job_id == turns.c.job_id)
    .outerjoin(evaluations, evaluations.c.job_id == jobs.c.job_id)
    .outerjoin(
        verdicts,
        sa.and_(verdicts.c.evaluation_id == evaluations.c.evaluation_id, verdicts.c.is_current),
    )
)


def _turns(connection: sa.Connection, trajectory_id: UUID) -> tuple[TurnLine, ...]:
    query = _LINES.where(turns.c.trajectory_id == trajectory_id).order_by(turns.c.turn_index)
    return tuple(TurnLine(**row) for row in connection.execute(query).mappings())
