"""STORE: things found by id, by the end of an id as pages show it, by name, or by
the hash of a source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app.store.tables import (
    candidates,
    collections,
    evaluations,
    export_jobs,
    exports,
    jobs,
    problems,
    runs,
    tags,
    trajectories,
)
from app.store.tables.base import SHORT_ID, short_id

LEAST_HEX = 6
"""Shortest beginning of an id or hash that is looked up: shorter ones fit too much."""
LEAST_HASH = 8
"""Shortest beginning of a source's SHA-256 that is looked up."""
_HEX = re.compile(r"[0-9a-f]+")


@dataclass(frozen=True, kw_only=True)
class Hit:
    """Something found."""

    kind: str
    """`evaluation`, `job`, `trajectory`, `problem`, `run`, `model`, `candidate`, `dataset`,
    `export job`, `collection` or `tag`.
    """
    identifier: str
    """UUID; the name of a model or tag.  For a candidate: the id of its latest
    evaluation, else of its latest job.
    """
    title: str
    detail: str
    by_id: bool
    """True if the text is the id or the short id or the hash, not part of a name."""


_problem = problems.c.name
_of_job = jobs.join(problems, problems.c.problem_id == jobs.c.problem_id)
_none = sa.literal("")


def _titled(
    title: sa.ColumnElement[Any], detail: sa.ColumnElement[Any], source: sa.FromClause
) -> sa.Select[Any]:
    return sa.select(
        title.label("title"), sa.func.coalesce(detail, _none).label("detail")
    ).select_from(source)


_BY_ID: dict[str, tuple[sa.Column[UUID], sa.Select[Any]]] = {
    "evaluation": (
        evaluations.c.evaluation_id,
        _titled(
            _problem,
            evaluations.c.status,
            _of_job.join(evaluations, evaluations.c.job_id == jobs.c.job_id),
        ),
    ),
    "job": (jobs.c.job_id, _titled(_problem, jobs.c.state, _of_job)),
    "trajectory": (
        trajectories.c.trajectory_id,
        _titled(
            sa.func.coalesce(trajectories.c.label, _problem),
            runs.c.name,
            trajectories.join(
                problems, problems.c.problem_id == trajectories.c.problem_id
            ).outerjoin(runs, runs.c.run_id == trajectories.c.run_id),
        ),
    ),
    "problem": (problems.c.problem_id, _titled(_problem, problems.c.source_set, problems)),
    "run": (runs.c.run_id, _titled(runs.c.name, runs.c.model, runs)),
    "dataset": (
        exports.c.export_id,
        _titled(sa.func.coalesce(exports.c.name, _none), exports.c.format, exports),
    ),
    "export job": (export_jobs.c.export_job_id, _titled(_none, export_jobs.c.state, export_jobs)),
    "collection": (
        collections.c.collection_id,
        _titled(
            runs.c.name,
            collections.c.state,
            collections.join(runs, runs.c.run_id == collections.c.run_id),
        ),
    ),
}
"""Kind → its id, and the select of its title and detail."""

_BY_NAME: dict[str, tuple[sa.Column[str | None], bool]] = {
    "run": (runs.c.name, False),
    "problem": (problems.c.name, False),
    "trajectory": (trajectories.c.label, True),
    "dataset": (exports.c.name, False),
}
"""Kind → its name, and whether it is found by the beginning only: there may be
millions, and an index has that.
"""


def find(connection: sa.Connection, text: str, *, limit: int = 8) -> list[Hit]:
    """At most `limit` hits of each kind: by id first, then by name; blank text finds nothing."""
    text = text.strip()
    if not text:
        return []
    found = [
        *_with_id(connection, text.lower(), limit),
        *_with_hash(connection, text.lower(), limit),
    ]
    return [
        *found,
        *_with_name(connection, text, limit, {(hit.kind, hit.identifier) for hit in found}),
    ]


def _with_id(connection: sa.Connection, text: str, limit: int) -> list[Hit]:
    digits = text.replace("-", "")
    if not _HEX.fullmatch(digits) or not LEAST_HEX <= len(digits) <= 32:
        return []
    return [
        Hit(kind=kind, identifier=str(row.id), title=row.title, detail=row.detail, by_id=True)
        for kind, (key, select) in _BY_ID.items()
        for keys in _keys(key, digits, limit)
        for row in connection.execute(
            select.add_columns(key.label("id")).where(
                key == sa.any_(sa.func.array(keys.scalar_subquery()))
            )
        )
    ]


def _keys(key: sa.Column[UUID], digits: str, limit: int) -> list[sa.Select[Any]]:
    """Ids with these last SHORT_ID digits, and ids that begin so.

    They are found before anything is joined, and the former before they are ordered: the planner
    then takes the index of the condition.
    """
    begins = key.between(UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f")))
    found = [sa.select(key).where(begins).order_by(key.desc()).limit(limit)]
    if len(digits) == SHORT_ID:
        ends = sa.select(key).where(short_id(key) == digits).cte("ends").prefix_with("MATERIALIZED")
        found.insert(0, sa.select(ends.c[0]).order_by(ends.c[0].desc()).limit(limit))
    return found


def _with_hash(connection: sa.Connection, text: str, limit: int) -> list[Hit]:
    """Candidates by the first digits of their source's SHA-256."""
    if not _HEX.fullmatch(text) or not LEAST_HASH <= len(text) <= 64:
        return []
    key = candidates.c.source_sha256
    job = (
        sa.select(jobs.c.job_id)
        .where(jobs.c.candidate_id == candidates.c.candidate_id)
        .order_by(jobs.c.created_at.desc())
        .limit(1)
        .correlate(candidates)
        .scalar_subquery()
    )
    wanted = (
        sa.select(key, candidates.c.backend, job.label("job_id"))
        .where(key >= text, key < text + "g")
        .order_by(key)
        .limit(limit)
        .subquery()
    )
    query = sa.select(wanted, problems.c.name, evaluations.c.evaluation_id).select_from(
        wanted.join(jobs, jobs.c.job_id == wanted.c.job_id)
        .join(problems, problems.c.problem_id == jobs.c.problem_id)
        .outerjoin(evaluations, evaluations.c.job_id == jobs.c.job_id)
    )
    return [
        Hit(
            kind="candidate" if row.evaluation_id else "job",
            identifier=str(row.evaluation_id or row.job_id),
            title=row.name,
            detail=f"{row.backend} source {row.source_sha256[:12]}",
            by_id=True,
        )
        for row in connection.execute(query)
    ]


def _with_name(
    connection: sa.Connection, text: str, limit: int, known: set[tuple[str, str]]
) -> list[Hit]:
    found = []
    for kind, (name, beginning) in _BY_NAME.items():
        key, select = _BY_ID[kind]
        condition = (
            name.startswith(text, autoescape=True)
            if beginning
            else name.icontains(text, autoescape=True)
        )
        query = (
            select.add_columns(key.label("id"))
            .where(condition)
            .order_by(sa.func.length(name), key.desc())
        )
        if beginning:
            query = select.add_columns(key.label("id")).where(condition).order_by(name)
        found += [
            Hit(kind=kind, identifier=str(row.id), title=row.title, detail=row.detail, by_id=False)
            for row in connection.execute(query.limit(limit))
            if (kind, str(row.id)) not in known
        ]
    for kind, column in (("model", runs.c.model), ("tag", tags.c.tag)):
        named = (
            sa.select(column)
            .where(column.icontains(text, autoescape=True))
            .distinct()
            .order_by(column)
        )
        found += [
            Hit(kind=kind, identifier=each, title=each, detail="", by_id=False)
            for each in connection.scalars(named.limit(limit))
        ]
    return found
