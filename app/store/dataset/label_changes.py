"""STORE: labels that changed between the moment that a dataset shows and its recording: while it
was made, or before an old dataset was made again.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.store.dataset import stale_exports
from app.store.dataset.export_attempts import as_it_was
from app.store.evaluation.evaluation_rows import CURRENT, LABEL
from app.store.tables import evaluations, reviews, verdicts

_AT_ONCE = 5_000
"""Evaluations of one statement."""


def mark(connection: sa.Connection, export_id: UUID, as_of: datetime) -> None:
    """Note every changed label that a recorded dataset rests on: it is stale from the beginning.

    No label changes between this and the end of the transaction that records the dataset.
    """
    stale_exports.hold_labels(connection)
    for before in _labels(connection, as_of):
        after = _after(connection, list(before))
        for evaluation_id, label in before.items():
            labels = {"before": label, "after": after.get(evaluation_id)}
            if labels["before"] != labels["after"]:
                why = f"after {as_of.isoformat()}, the moment of the dataset"
                stale_exports.changed(connection, evaluation_id, **labels, why=why, only=export_id)


def labels_at(connection: sa.Connection, as_of: datetime) -> dict[UUID, str | None]:
    """Label at a moment of each evaluation from before it that was judged or reviewed since; None
    without a verdict then.
    """
    return {key: label for some in _labels(connection, as_of) for key, label in some.items()}


def any_since(connection: sa.Connection, as_of: datetime) -> bool:
    """True if a verdict or a review from after the moment is of an evaluation from before it."""
    return connection.execute(_reconsidered(as_of).limit(1)).first() is not None


def _reconsidered(as_of: datetime) -> sa.Select[UUID]:
    """Evaluations from before the moment with a review or a verdict from after it."""
    newer = sa.union(
        sa.select(reviews.c.evaluation_id).where(reviews.c.created_at >= as_of),
        sa.select(verdicts.c.evaluation_id).where(verdicts.c.created_at >= as_of),
    ).subquery()
    known = sa.select(evaluations.c.evaluation_id).join(
        newer, newer.c.evaluation_id == evaluations.c.evaluation_id
    )
    return known.where(evaluations.c.created_at < as_of)


def _labels(connection: sa.Connection, as_of: datetime) -> Iterator[dict[UUID, str | None]]:
    """The labels of `labels_at`, some at a time."""
    changed = list(connection.scalars(_reconsidered(as_of)))
    for start in range(0, len(changed), _AT_ONCE):
        yield _before(connection, changed[start : start + _AT_ONCE], as_of)


def _before(
    connection: sa.Connection, evaluation_ids: list[UUID], as_of: datetime
) -> dict[UUID, str | None]:
    query = sa.text(f"""{as_it_was(as_of)}
        SELECT measured.evaluation_id, coalesce(measured.human_verdict, judged.label)
        FROM evaluations AS measured LEFT JOIN verdicts AS judged
            ON judged.evaluation_id = measured.evaluation_id AND judged.evaluation_id = ANY(:ids)
        WHERE measured.evaluation_id = ANY(:ids)""")  # noqa: S608 (a moment, and names of our own)
    bound = query.bindparams(sa.bindparam("ids", evaluation_ids, ARRAY(sa.Uuid)))
    return dict(map(tuple, connection.execute(bound)))


def _after(connection: sa.Connection, evaluation_ids: list[UUID]) -> dict[UUID, str | None]:
    query = sa.select(evaluations.c.evaluation_id, LABEL).select_from(
        evaluations.outerjoin(verdicts, CURRENT)
    )
    ids = sa.literal(evaluation_ids, ARRAY(sa.Uuid))
    found = connection.execute(query.where(evaluations.c.evaluation_id == sa.any_(ids)))
    return dict(map(tuple, found))
