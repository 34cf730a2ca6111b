"""STORE: answers without code as attempts of an export: they failed, and no evaluation says so.

A turn without a job has no evaluation, device or verdict.  The filter is applied to the turn
without the comparisons of devices; everything else that an evaluation would have is absent, but
that it is valid, judged and wrong.  It counts among the evaluations of the device class that its
trajectory or run was measured on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.sql import visitors
from sqlalchemy.types import NullType

from app.domain.trajectory import NO_CODE
from app.store.tables import attempts as attempts_table
from app.store.tables import (
    candidate_features,
    candidates,
    evaluations,
    jobs,
    problem_features,
    problems,
    runs,
    trajectories,
    turn_features,
    turns,
    verdicts,
)

_ABSENT = {evaluations, jobs, candidates, verdicts, candidate_features, turn_features}


def attempts(
    columns: Mapping[str, sa.ColumnElement[Any]],
    keeps: Sequence[sa.ColumnElement[bool]],
    said: sa.Subquery,
    family: sa.ColumnElement[str],
    features: sa.ColumnElement[bool],
    *,
    passed: int,
    as_of: datetime,
) -> sa.Select[Any]:
    """A row for every answer without code older than `as_of`, with the columns of
    evaluated attempts.

    `columns`: name → a column of evaluated attempts, for its type; `keeps`: each stage's
    decision on such an answer; `said`: turns with `opening` and `said_bytes`; `features`: which
    problem features belong to a problem.
    """
    dropped = [
        (sa.not_(sa.func.coalesce(_absent(kept, said), sa.false())), place)
        for place, kept in enumerate(keeps)
        if not isinstance(kept, sa.True_)
    ]
    known: dict[str, sa.ColumnElement[Any]] = {
        "turn_id": said.c.turn_id,
        "trajectory_id": trajectories.c.trajectory_id,
        "turn": said.c.turn_index,
        "run_id": trajectories.c.run_id,
        "backend": trajectories.c.backend,
        "status": sa.literal(NO_CODE),
        "compiled": sa.false(),
        "correct": sa.false(),
        "reviewed": sa.false(),
        "problem_id": problems.c.problem_id,
        "sample": trajectories.c.label,
        "family": family,
        "created_at": said.c.created_at,
        "prompt": said.c.opening,
        "stage": sa.case(*dropped, else_=passed) if dropped else sa.literal(passed),
        "teachable": sa.false(),
        "believed": sa.true(),
    }
    shown = (known[name] if name in known else _null(column) for name, column in columns.items())
    source = (
        said.join(trajectories, trajectories.c.trajectory_id == said.c.trajectory_id)
        .join(problems, problems.c.problem_id == trajectories.c.problem_id)
        .outerjoin(problem_features, features)
        .outerjoin(runs, runs.c.run_id == trajectories.c.run_id)
    )
    query = sa.select(
        *(value.label(name) for name, value in zip(columns, shown, strict=True))
    ).select_from(source)
    return query.where(said.c.job_id.is_(None), said.c.created_at < as_of)


def matching(kept: sa.ColumnElement[bool], as_of: datetime) -> sa.Select[UUID]:
    """Trajectories with an answer without code that a filter keeps."""
    source = (
        turns.join(trajectories, trajectories.c.trajectory_id == turns.c.trajectory_id)
        .join(problems, problems.c.problem_id == trajectories.c.problem_id)
        .outerjoin(runs, runs.c.run_id == trajectories.c.run_id)
    )
    codeless = turns.c.job_id.is_(None), turns.c.created_at < as_of, _absent(kept, turns)
    return sa.select(turns.c.trajectory_id).select_from(source).where(*codeless)


def measured_on(device: str, as_of: datetime) -> sa.ColumnElement[bool]:
    """Condition on an answer without code: it belongs to the evaluations of a device class.

    It is of the class that most evaluations of its own trajectory have, else of that of its run;
    where neither has any, it is of every class.
    """
    own, usual = _usual_of_trajectory(as_of), _usual_of_runs(as_of)
    of_run = (
        sa.select(usual.c.device_class)
        .where(usual.c.run_id == trajectories.c.run_id)
        .scalar_subquery()
    )
    return sa.func.coalesce(own, of_run, device) == device


def _usual_of_trajectory(as_of: datetime) -> sa.ScalarSelect[str]:
    own, measured = turns.alias("own_turns"), evaluations.alias("own_evaluations")
    query = sa.select(measured.c.device_class).join(own, own.c.job_id == measured.c.job_id)
    query = query.where(
        own.c.trajectory_id == trajectories.c.trajectory_id, measured.c.created_at < as_of
    )
    counted = query.group_by(measured.c.device_class).order_by(
        sa.func.count().desc(), measured.c.device_class
    )
    return counted.limit(1).correlate(trajectories).scalar_subquery()


def _usual_of_runs(as_of: datetime) -> sa.Subquery:
    """Run and its most frequent device class."""
    of_run, measured = attempts_table.alias("run_attempts"), evaluations.alias("run_evaluations")
    query = sa.select(of_run.c.run_id, measured.c.device_class)
    query = query.join(measured, measured.c.evaluation_id == of_run.c.evaluation_id)
    query = query.where(of_run.c.run_id.is_not(None), measured.c.created_at < as_of)
    counted = query.group_by(of_run.c.run_id, measured.c.device_class)
    first = counted.prefix_with(sa.text("DISTINCT ON (run_attempts.run_id)"))
    order = (of_run.c.run_id, sa.func.count().desc(), measured.c.device_class)
    return first.order_by(*order).subquery("usual_of_runs")


def _null(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """NULL of a column's type, as far as SQLAlchemy knows it."""
    return sa.null() if isinstance(column.type, NullType) else sa.cast(sa.null(), column.type)


def _absent(
    expression: sa.ColumnElement[bool], said: sa.Subquery | sa.Table
) -> sa.ColumnElement[bool]:
    """The condition for a turn without an evaluation."""
    constants: dict[sa.Column[Any], sa.ColumnElement[Any]] = {
        evaluations.c.valid: sa.true(),
        evaluations.c.compiled: sa.false(),
        evaluations.c.correct: sa.false(),
        evaluations.c.created_at: said.c.created_at,
        candidates.c.backend: trajectories.c.backend,
    }

    def replaced(element: Any, **_: Any) -> Any:
        if isinstance(element, sa.Subquery):
            return said if element.name == said.name else element
        if not isinstance(element, sa.Column):
            return None
        if element in constants:
            return constants[element]
        if element.table is turns:
            return said.c[element.key]
        return sa.cast(sa.null(), element.type) if element.table in _ABSENT else None

    return visitors.replacement_traverse(expression, {}, replaced)
