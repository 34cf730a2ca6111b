"""STORE: facts about texts that exports need and that are computed once: missing
ones, and storing those found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from app.store.evaluation import evaluation_rows
from app.store.tables import (
    candidate_features,
    candidates,
    evaluations,
    jobs,
    problem_features,
    problems,
    turn_features,
    turns,
    verdicts,
)


class ProblemText(NamedTuple):
    """A problem without keys."""

    problem_id: UUID
    reference: bytes
    entry_point: str


class CandidateText(NamedTuple):
    """A candidate without a fingerprint."""

    candidate_id: UUID
    source: bytes


class TurnText(NamedTuple):
    """A turn not yet checked: does its answer show the evaluated source?"""

    turn_id: UUID
    response: bytes
    source: bytes
    entry_point: str
    opening_json: str
    """Messages before the trajectory's first answer, JSON."""


def problems_without(connection: sa.Connection, version: int, limit: int) -> list[ProblemText]:
    """Problems with keys that are missing or of another version."""
    known = _known(
        problem_features, problem_features.c.problem_id == problems.c.problem_id, version
    )
    query = (
        sa.select(problems.c.problem_id, problems.c.reference, problems.c.entry_point)
        .where(~known)
        .limit(limit)
    )
    return [ProblemText(*row) for row in connection.execute(query)]


def candidates_left(connection: sa.Connection, version: int, only: sa.ColumnElement[bool]) -> int:
    """Number of candidates, right at least once, without a fingerprint of that version."""
    known = _known(
        candidate_features, candidate_features.c.candidate_id == jobs.c.candidate_id, version
    )
    evaluated = jobs.join(evaluations, evaluations.c.job_id == jobs.c.job_id)
    query = sa.select(sa.func.count(jobs.c.candidate_id.distinct())).select_from(evaluated)
    return int(connection.execute(query.where(evaluations.c.correct, ~known, only)).scalar_one())


def candidates_without(
    connection: sa.Connection,
    version: int,
    only: sa.ColumnElement[bool],
    after: UUID | None,
    limit: int,
) -> tuple[list[CandidateText], UUID | None]:
    """Candidates that were right at least once and have no fingerprint of that
    version, by id, after one.

    Where there are none this still walks over all: ask `candidates_left` first.
    `only`: a condition on evaluations.
    """
    evaluated = jobs.join(evaluations, evaluations.c.job_id == jobs.c.job_id)
    right = candidates.c.candidate_id.in_(
        sa.select(jobs.c.candidate_id).select_from(evaluated).where(evaluations.c.correct, only)
    )
    known = _known(
        candidate_features, candidate_features.c.candidate_id == candidates.c.candidate_id, version
    )
    query = sa.select(candidates.c.candidate_id, candidates.c.source).where(~known, right)
    return _page(connection, query, candidates.c.candidate_id, CandidateText, after, limit)


def turns_left(
    connection: sa.Connection, version: int, only: sa.ColumnElement[bool], *, failures: bool
) -> int:
    """Number of turns that `turns_without` would give in all."""
    evaluated = turns.join(evaluations, evaluations.c.job_id == turns.c.job_id)
    query = (
        sa.select(sa.func.count()).select_from(evaluated).where(_unchecked(version, failures), only)
    )
    return int(connection.execute(query).scalar_one())


def turns_without(
    connection: sa.Connection,
    version: int,
    only: sa.ColumnElement[bool],
    after: UUID | None,
    limit: int,
    *,
    failures: bool,
) -> tuple[list[TurnText], UUID | None]:
    """Turns that were evaluated and of which no check of that version is known;
    without `failures`, only right ones.

    Where there are none this still walks over all: ask `turns_left` first.
    """
    opening = turns.alias("opening")
    query = (
        sa.select(
            turns.c.turn_id,
            turns.c.response,
            candidates.c.source,
            problems.c.entry_point,
            opening.c.messages_json,
        )
        .select_from(
            turns.join(jobs, jobs.c.job_id == turns.c.job_id)
            .join(
                opening,
                sa.and_(
                    opening.c.trajectory_id == turns.c.trajectory_id, opening.c.turn_index == 0
                ),
            )
            .join(evaluations, evaluations.c.job_id == jobs.c.job_id)
            .join(candidates, candidates.c.candidate_id == jobs.c.candidate_id)
            .join(problems, problems.c.problem_id == jobs.c.problem_id)
        )
        .where(_unchecked(version, failures), only)
    )
    return _page(connection, query, turns.c.turn_id, TurnText, after, limit)


def stale_verdicts(
    connection: sa.Connection,
    policy: str,
    detectors: dict[str, int],
    only: sa.ColumnElement[bool],
    after: UUID | None,
    limit: int,
) -> tuple[list[tuple[UUID]], UUID | None]:
    """Evaluations with a current verdict of another policy or of other detectors, or
    without one.
    """
    fresh = sa.and_(
        verdicts.c.policy == policy,
        verdicts.c.detectors == sa.cast(detectors, verdicts.c.detectors.type),
    )
    query = (
        sa.select(evaluations.c.evaluation_id)
        .select_from(evaluations.outerjoin(verdicts, evaluation_rows.CURRENT))
        .where(evaluations.c.valid, sa.not_(sa.func.coalesce(fresh, sa.false())), only)
    )
    return _page(connection, query, evaluations.c.evaluation_id, tuple_of, after, limit)


def tuple_of(*values: Any) -> tuple[Any, ...]:
    """The record as a tuple."""
    return values


def put(connection: sa.Connection, table: sa.Table, found: Sequence[dict[str, Any]]) -> None:
    """Store facts, newer versions over older ones."""
    if not found:
        return
    key = next(iter(table.primary_key))
    ordered = sorted(
        found, key=lambda row: row[key.name]
    )  # so that two exports wait for each other
    statement = insert(table)
    others = {name: statement.excluded[name] for name in found[0] if name != key.name}
    connection.execute(statement.on_conflict_do_update(index_elements=[key], set_=others), ordered)


def _known(table: sa.Table, same: sa.ColumnElement[bool], version: int) -> sa.ColumnElement[bool]:
    return (
        sa.select(sa.literal(1)).select_from(table).where(same, table.c.version == version).exists()
    )


def _unchecked(version: int, failures: bool) -> sa.ColumnElement[bool]:
    known = _known(turn_features, turn_features.c.turn_id == turns.c.turn_id, version)
    return sa.and_(~known, evaluations.c.valid if failures else evaluations.c.correct)


def _page(
    connection: sa.Connection,
    query: sa.Select[Any],
    key: sa.Column[UUID],
    kind: Any,
    after: UUID | None,
    limit: int,
) -> tuple[list[Any], UUID | None]:
    if after is not None:
        query = query.where(key > after)
    found = [kind(*row) for row in connection.execute(query.order_by(key).limit(limit))]
    return found, found[-1][0] if len(found) == limit else None
