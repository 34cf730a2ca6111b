"""STORE: the problems that a specification names."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.domain.collection.spec import Problems
from app.domain.request import MissingError, RequestError
from app.store import tables

_p = tables.problems.c


def select(connection: sa.Connection, wanted: Problems) -> list[UUID]:
    """Ids of the stored problems that meet every condition, by name.

    Raises MissingError for an id or a name that is not there."""
    if not (wanted.source_set or wanted.names or wanted.ids or wanted.level is not None):
        return []
    query = sa.select(_p.problem_id, _p.name)
    if wanted.source_set is not None:
        query = query.where(_p.source_set == wanted.source_set)
    if wanted.level is not None:
        query = query.where(_p.level == wanted.level)
    if wanted.ids:
        query = query.where(_p.problem_id.in_(_known_ids(connection, wanted.ids)))
    if wanted.names:
        query = query.where(
            sa.or_(*(_p.name.like(_pattern(name), escape="\\") for name in wanted.names))
        )
    rows = connection.execute(query.order_by(_p.name, _p.problem_id)).all()
    for name in wanted.names:
        if "*" not in name and "?" not in name and name not in {row.name for row in rows}:
            raise MissingError(f"problems.names: expected a stored problem, got {name!r}")
    return [row.problem_id for row in rows][: wanted.limit]


def _known_ids(connection: sa.Connection, texts: tuple[str, ...]) -> list[UUID]:
    try:
        wanted = [UUID(text) for text in texts]
    except ValueError as error:
        raise RequestError(f"problems.ids: expected ids of problems: {error}") from error
    known = set(
        connection.execute(sa.select(_p.problem_id).where(_p.problem_id.in_(wanted))).scalars()
    )
    for problem_id in wanted:
        if problem_id not in known:
            raise MissingError(
                f"problems.ids: expected the id of a stored problem, got {problem_id}"
            )
    return wanted


def _pattern(name: str) -> str:
    for special in ("\\", "%", "_"):
        name = name.replace(special, f"\\{special}")
    return name.replace("*", "%").replace("?", "_")


def sources(connection: sa.Connection, problem_ids: Sequence[UUID]) -> int:
    """Number of different references of these problems: one that is stored under two names, or in
    two source sets, is asked for twice.
    """
    distinct = sa.func.count(_p.reference_sha256.distinct())
    of_these = _p.problem_id == sa.any_(sa.literal(list(problem_ids), ARRAY(sa.Uuid)))
    return int(connection.execute(sa.select(distinct).where(of_these)).scalar_one())
