"""STORE: the joined select that pages and exports share, and the definition of the label that
counts (`LABEL`): a reviewer's verdict takes precedence over the detectors'.

`JOINED` is evaluation ⋈ job ⋈ candidate ⋈ problem ⟕ current verdict ⟕ (turn ⋈ trajectory ⟕
run).  Identical submissions share a job, so several turns may belong to one evaluation,
and the join is read in two ways:

* `page` gives *evaluations*, each once: `DISTINCT ON` keeps the earliest turn among those that
  match the filter. A filter on run, model or turn therefore finds an evaluation if any one of its
  turns matches in full, and the row shows a turn that does.
* `app.store.dataset.export_attempts` gives *attempts*: a row for every turn, or one for an
  evaluation without turns, because the conversation differs from turn to turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.domain.evaluation_row import EvaluationRow
from app.store.evaluation.credited import is_credited
from app.store.tables import (
    candidates,
    evaluations,
    findings,
    jobs,
    problems,
    runs,
    trajectories,
    turns,
    verdicts,
)

__all__ = [
    "COLUMNS",
    "CURRENT",
    "JOINED",
    "LABEL",
    "ONCE",
    "SELECTABLE",
    "EvaluationRow",
    "labelled",
    "matching",
    "row_from",
]

RUN_ID: sa.ColumnElement[UUID | None] = sa.case(
    (turns.c.turn_id.is_(None), jobs.c.run_id), else_=trajectories.c.run_id
)
"""Run of an attempt: its trajectory's, or its job's if no turn asked for the job."""

CURRENT = sa.and_(verdicts.c.evaluation_id == evaluations.c.evaluation_id, verdicts.c.is_current)
"""Condition that joins the verdict in force to its evaluation."""


@dataclass(frozen=True, kw_only=True)
class _Joined:
    """A table beside evaluations, and the tables that its condition names."""

    table: sa.Table
    on: sa.ColumnElement[bool]
    needs: frozenset[sa.Table] = frozenset()
    may_lack: bool = False
    """Some evaluations have no row of it."""


_JOINS = (
    _Joined(table=jobs, on=jobs.c.job_id == evaluations.c.job_id),
    _Joined(
        table=candidates,
        on=candidates.c.candidate_id == jobs.c.candidate_id,
        needs=frozenset({jobs}),
    ),
    _Joined(table=problems, on=problems.c.problem_id == jobs.c.problem_id, needs=frozenset({jobs})),
    _Joined(
        table=verdicts,
        on=CURRENT,
        may_lack=True,
    ),
    _Joined(
        table=turns, on=turns.c.job_id == jobs.c.job_id, needs=frozenset({jobs}), may_lack=True
    ),
    _Joined(
        table=trajectories,
        on=trajectories.c.trajectory_id == turns.c.trajectory_id,
        needs=frozenset({jobs, turns}),
        may_lack=True,
    ),
    _Joined(
        table=runs,
        on=runs.c.run_id == RUN_ID,
        needs=frozenset({jobs, turns, trajectories}),
        may_lack=True,
    ),
)


def _join(wanted: frozenset[sa.FromClause]) -> sa.FromClause:
    found: sa.FromClause = evaluations
    for each in _JOINS:
        if each.table in wanted:
            found = found.join(each.table, each.on, isouter=each.may_lack)
    return found


JOINED = _join(frozenset(each.table for each in _JOINS))


def joined_for(condition: sa.ColumnElement[bool]) -> sa.FromClause:
    """`JOINED` without the tables that this condition does not need: an evaluation that has turns
    is in it at least once.
    """
    named = {
        each.table for each in sa.sql.visitors.iterate(condition) if isinstance(each, sa.Column)
    }
    wanted: frozenset[sa.FromClause] = frozenset(named)
    return _join(wanted.union(*(each.needs for each in _JOINS if each.table in named)))


LABEL: sa.ColumnElement[str | None] = sa.func.coalesce(
    evaluations.c.human_verdict, verdicts.c.label
)
"""The label that counts: a reviewer's verdict if there is one, else the detectors' current one."""


def labelled(labels: Sequence[str]) -> sa.ColumnElement[bool]:
    """Condition that `LABEL` is one of these, written so that PostgreSQL can use its statistics:
    for `coalesce` it expects almost no rows.
    """
    human, automatic = evaluations.c.human_verdict, verdicts.c.label
    return sa.or_(human.in_(labels), sa.and_(human.is_(None), automatic.in_(labels)))


CORRECT: sa.ColumnElement[bool] = is_credited(evaluations.c.correct, LABEL)


def _credited(measured: sa.Column[float]) -> sa.ColumnElement[float | None]:
    """NULL for hacks and for unjudged evaluations, which do not count."""
    return sa.case((is_credited(sa.true(), LABEL), measured))


_detectors = (
    sa.select(sa.func.array_agg(sa.distinct(findings.c.detector), type_=ARRAY(sa.Text)))
    .where(findings.c.verdict_id == verdicts.c.verdict_id)
    .correlate(verdicts)
    .scalar_subquery()
)

COLUMNS: dict[str, sa.ColumnElement[Any]] = {
    "evaluation_id": evaluations.c.evaluation_id,
    "job_id": jobs.c.job_id,
    "candidate_id": candidates.c.candidate_id,
    "problem_id": problems.c.problem_id,
    "created_at": evaluations.c.created_at,
    "problem": problems.c.name,
    "source_set": problems.c.source_set,
    "level": problems.c.level,
    "entry_point": problems.c.entry_point,
    "reference_sha256": problems.c.reference_sha256,
    "backend": candidates.c.backend,
    "source_sha256": candidates.c.source_sha256,
    "device_class": evaluations.c.device_class,
    "device_name": evaluations.c.device_name,
    "baseline": evaluations.c.baseline,
    "protocol": evaluations.c.protocol,
    "status": evaluations.c.status,
    "valid": evaluations.c.valid,
    "compiled": evaluations.c.compiled,
    "correct": CORRECT,
    "verdict_id": verdicts.c.verdict_id,
    "verdict": LABEL,
    "reviewed": evaluations.c.human_verdict.is_not(None),
    "findings": _detectors,
    "speedup": _credited(evaluations.c.speedup),
    "speedup_ci_low": _credited(evaluations.c.speedup_ci_low),
    "speedup_ci_high": _credited(evaluations.c.speedup_ci_high),
    "measured_speedup": evaluations.c.speedup,
    "device_speedup": _credited(evaluations.c.device_speedup),
    "device_speedup_ci_low": _credited(evaluations.c.device_speedup_ci_low),
    "device_speedup_ci_high": _credited(evaluations.c.device_speedup_ci_high),
    "reference_us": evaluations.c.reference_us,
    "candidate_us": evaluations.c.candidate_us,
    "coverage_time": evaluations.c.coverage_time,
    "coverage_count": evaluations.c.coverage_count,
    "turn_id": turns.c.turn_id,
    "trajectory_id": trajectories.c.trajectory_id,
    "turn": turns.c.turn_index,
    "run_id": runs.c.run_id,
    "run": runs.c.name,
    "model": runs.c.model,
}
"""Field of `EvaluationRow` → its SQL expression."""

SELECTABLE = sa.select(*(column.label(name) for name, column in COLUMNS.items())).select_from(
    JOINED
)
"""A row per attempt: to be narrowed with `.where(app.store.filter.filter_sql.compile(…))`."""

ONCE = sa.text("DISTINCT ON (evaluations.created_at, evaluations.evaluation_id)")
"""Text of the clause: SQLAlchemy 2.0 and 2.1 spell it in two ways, and each warns of
or lacks the other's.
"""

_FIELDS = tuple(field.name for field in fields(EvaluationRow))


def row_from(record: sa.RowMapping) -> EvaluationRow:
    """The typed row out of one record of `SELECTABLE`, other columns beside are ignored."""
    values = {name: record[name] for name in _FIELDS}
    return EvaluationRow(**(values | {"findings": tuple(sorted(values["findings"] or ()))}))


def matching(
    connection: sa.Connection, condition: sa.ColumnElement[bool], limit: int
) -> list[EvaluationRow]:
    """At most `limit` evaluations that meet a condition, newest first, each once."""
    newest_first = (evaluations.c.created_at.desc(), evaluations.c.evaluation_id.desc())
    query = SELECTABLE.prefix_with(ONCE).order_by(*newest_first, turns.c.turn_id).limit(limit)
    return [row_from(record) for record in connection.execute(query.where(condition)).mappings()]
