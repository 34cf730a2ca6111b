"""STORE: the evaluations and turns that a selection has to look at, in one snapshot
of the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.domain import filter_fields
from app.domain import filter_language as filters
from app.domain.dataset.selection import Source, Spec
from app.store.dataset import answers_without_code
from app.store.dataset.export_conditions import EXTRACTION, TOKENS, Condition
from app.store.evaluation import evaluation_rows
from app.store.filter import filter_sql
from app.store.postgres.database import APPLICATION, Database
from app.store.tables import attempts as attempts_table
from app.store.tables import evaluations, jobs, turns
from app.store.trajectory import attempt_lines

MOST_MATCHING = 30_000
"""Evaluations up to which a selection reads the matches of its filter by key."""

READING = "assay export"
"""Name of connections that read for long and write nothing: they do not hold back `as_of`."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A moment of the database, and the oldest transaction under way then."""

    as_of: datetime
    """Everything older than this, and nothing else."""
    xmin: str
    """Oldest transaction still running then."""


def snapshot(database: Database) -> Snapshot:
    """The state that every transaction sees that begins after this one.  `as_of` is the start of
    the oldest transaction that may still write, so that "older than `as_of`" always selects the
    same rows: `created_at` is the start of the writer's transaction.

    A transaction that has begun before may not see all rows from before `as_of`: its view is as
    old as its first statement, while the list of transactions is of now.
    """
    query = """
        SELECT least(now(), min(xact_start) FILTER (WHERE backend_xid IS NOT NULL
          OR application_name = :writing)),
               pg_snapshot_xmin(pg_current_snapshot())::text
        FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"""
    with database.snapshot() as connection:
        as_of, oldest = connection.execute(sa.text(query), {"writing": APPLICATION}).one()
    return Snapshot(as_of=as_of, xmin=oldest)


@contextmanager
def reading(database: Database) -> Iterator[sa.Connection]:
    """A snapshot of the database for a long read, which holds back the `as_of` of no other."""
    with database.snapshot() as connection:
        connection.execute(
            sa.text("SELECT set_config('application_name', :name, true)"), {"name": READING}
        )
        yield connection


@dataclass(frozen=True, kw_only=True)
class Matching:
    """Everything that a selection reads: the matches of its filter, and other turns
    of the same trajectories and samples.
    """

    evaluation_ids: list[UUID]
    trajectory_ids: list[UUID]
    matched_ids: list[UUID] | None = None
    """Evaluations that the filter itself keeps; None: all of them."""

    @property
    def evaluated(self) -> sa.ColumnElement[bool]:
        """Condition on evaluations."""
        return evaluations.c.evaluation_id == sa.any_(
            sa.literal(self.evaluation_ids, ARRAY(sa.Uuid))
        )

    @property
    def matched(self) -> sa.ColumnElement[bool]:
        """Condition on evaluations: those that the filter itself keeps."""
        if self.matched_ids is None:
            return self.evaluated
        return evaluations.c.evaluation_id == sa.any_(sa.literal(self.matched_ids, ARRAY(sa.Uuid)))

    @property
    def of_trajectories(self) -> sa.ColumnElement[bool]:
        """Condition on turns: those of the trajectories."""
        return turns.c.trajectory_id == sa.any_(sa.literal(self.trajectory_ids, ARRAY(sa.Uuid)))


def evaluated(only: Matching | None) -> sa.ColumnElement[bool]:
    """Condition on evaluations; None keeps all."""
    return sa.true() if only is None else only.evaluated


def matched(only: Matching | None) -> sa.ColumnElement[bool]:
    """Condition on evaluations that the filter itself keeps; None keeps all."""
    return sa.true() if only is None else only.matched


def matching(connection: sa.Connection, spec: Spec, as_of: datetime) -> Matching | None:
    """The attempts that a filter keeps, found by indexes; None where it keeps more
    than MOST_MATCHING evaluations or answers without code, so that reading
    everything once costs less.
    """
    expression = filters.parse(spec.where)
    if isinstance(expression, filters.Everything):
        return None
    kept = sa.select(evaluations.c.evaluation_id, turns.c.trajectory_id).select_from(
        evaluation_rows.JOINED
    )
    kept = kept.where(filter_sql.indexed(expression), evaluations.c.created_at < as_of).limit(
        MOST_MATCHING + 1
    )
    found = connection.execute(kept).all()
    codeless = answers_without_code.matching(
        filter_sql.compile(filters.without(expression, filter_fields.ON_DEVICE)), as_of
    )
    of_codeless = connection.scalars(codeless.limit(MOST_MATCHING + 1)).all()
    if max(len(found), len(of_codeless)) > MOST_MATCHING:
        return None
    trajectory_ids = attempt_lines.with_lines(
        connection,
        {*of_codeless, *(row.trajectory_id for row in found if row.trajectory_id is not None)},
    )
    beside = sa.select(evaluations.c.evaluation_id).join(
        turns, turns.c.job_id == evaluations.c.job_id
    )
    of_turns = beside.where(
        turns.c.trajectory_id == sa.any_(sa.literal(trajectory_ids, ARRAY(sa.Uuid)))
    )
    matched_ids = {row.evaluation_id for row in found}
    return Matching(
        evaluation_ids=sorted(matched_ids.union(connection.scalars(of_turns))),
        trajectory_ids=trajectory_ids,
        matched_ids=sorted(matched_ids),
    )


def to_judge(connection: sa.Connection, spec: Spec) -> Matching | None:
    """Evaluations that the filter may keep, whatever their verdicts become; other evaluations of
    the same sources, of which one that is a hack makes all hacks; and the rest of their
    trajectories and samples.  None for all: where the filter asks for verdicts alone, or the
    selection reads whole runs, for advantages or pass rates.
    """
    asked = [
        part
        for part in filter_sql.parts_of(filters.parse(spec.where))
        if not filters.names(part) & filter_fields.ON_VERDICT
    ]
    whole = spec.advantages is not None or spec.source is Source.PROBLEMS
    if whole or not any(filters.names(part) for part in asked):
        return None
    kept = sa.select(jobs.c.problem_id, jobs.c.candidate_id).select_from(evaluation_rows.JOINED)
    sources = kept.where(*map(filter_sql.indexed, asked)).distinct().subquery()
    same = sa.and_(
        jobs.c.problem_id == sources.c.problem_id, jobs.c.candidate_id == sources.c.candidate_id
    )
    of_sources = (
        sa.select(evaluations.c.evaluation_id)
        .join(jobs, jobs.c.job_id == evaluations.c.job_id)
        .join(sources, same)
    )
    return with_trajectories(connection, connection.scalars(of_sources).all())


def surviving(
    connection: sa.Connection,
    stages: Sequence[Condition],
    as_of: datetime,
    only: sa.ColumnElement[bool],
    most: int | None = None,
) -> list[UUID]:
    """Evaluations that no stage drops, of those that need no facts about texts; at
    most so many of them.

    `only`: a further condition on `evaluation_rows.JOINED`.
    """
    kept = [stage.keeps for stage in stages if stage.name not in (EXTRACTION, TOKENS)]
    query = sa.select(evaluations.c.evaluation_id).select_from(evaluation_rows.JOINED)
    return list(
        connection.scalars(query.where(evaluations.c.created_at < as_of, only, *kept).limit(most))
    )


def asked_of(problem_id: UUID) -> sa.ColumnElement[bool]:
    """Condition: the job is of that problem."""
    return jobs.c.problem_id == problem_id


def matched_but_of(only: Matching | None, problem_ids: Iterable[UUID]) -> sa.ColumnElement[bool]:
    """Condition on evaluations that the filter itself keeps, with jobs of none of these
    problems.
    """
    return sa.and_(
        matched(only), jobs.c.problem_id != sa.all_(sa.literal(list(problem_ids), ARRAY(sa.Uuid)))
    )


def with_trajectories(connection: sa.Connection, evaluation_ids: Sequence[UUID]) -> Matching:
    """These evaluations with everything else of their trajectories and samples."""
    c = attempts_table.c
    asked = c.evaluation_id == sa.any_(sa.literal(list(evaluation_ids), ARRAY(sa.Uuid)))
    trajectory_ids = attempt_lines.with_lines(
        connection,
        connection.scalars(sa.select(c.trajectory_id).where(asked, c.trajectory_id.is_not(None))),
    )
    beside = c.trajectory_id == sa.any_(sa.literal(trajectory_ids, ARRAY(sa.Uuid)))
    others = connection.scalars(
        sa.select(c.evaluation_id).where(beside, c.evaluation_id.is_not(None))
    )
    return Matching(
        evaluation_ids=sorted({*evaluation_ids, *others}), trajectory_ids=trajectory_ids
    )


def problems_of(connection: sa.Connection, evaluation_ids: Sequence[UUID]) -> set[UUID]:
    """Problems of these evaluations."""
    asked_for = jobs.join(evaluations, evaluations.c.job_id == jobs.c.job_id)
    these = evaluations.c.evaluation_id == sa.any_(sa.literal(list(evaluation_ids), ARRAY(sa.Uuid)))
    return set(
        connection.scalars(
            sa.select(jobs.c.problem_id).select_from(asked_for).where(these).distinct()
        )
    )


def of_problem(connection: sa.Connection, problem_id: UUID) -> Matching:
    """All judged attempts on a problem, and its answers without code."""
    query = sa.select(attempts_table.c.evaluation_id, attempts_table.c.trajectory_id)
    found = connection.execute(query.where(attempts_table.c.problem_id == problem_id)).all()
    return Matching(
        evaluation_ids=sorted(
            {row.evaluation_id for row in found if row.evaluation_id is not None}
        ),
        trajectory_ids=sorted(
            {row.trajectory_id for row in found if row.trajectory_id is not None}
        ),
    )
