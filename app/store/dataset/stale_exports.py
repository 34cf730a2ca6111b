"""STORE: datasets with rows that rest on a verdict changed since they were made.

`export_changes` holds, for each dataset, the evaluations with another label than at its time.  A
dataset is stale while it has such a row: a label that comes back, by an undone review or by
judging again, takes its row away.
"""

from __future__ import annotations

from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from app.domain.verdict import Label
from app.store.tables import evaluations, export_changes, export_rows, exports, jobs

_c = export_changes.c

LABELS_LOCK = 0x4C41424C
"""Advisory lock of labels: 'LABL'.  A transaction that notes a changed label shares it, one that
records a dataset has it alone: of the two, the later one sees what the earlier one has stored.
"""


def hold_labels(connection: sa.Connection) -> None:
    """Wait for transactions that note changed labels, and let none go on before this one ends."""
    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LABELS_LOCK)))


def resting_on(
    connection: sa.Connection, evaluation_id: UUID, *, before: str | None, after: str | None
) -> list[UUID]:
    """Datasets that a change of the detectors' label would make stale, oldest first;
    none after a person's review.
    """
    if _is_reviewed(connection, evaluation_id):
        return []
    query = sa.select(exports.c.export_id).where(
        _touched(evaluation_id, before, after), exports.c.stale_at.is_(None)
    )
    return list(connection.scalars(query.order_by(exports.c.export_id)))


def mark(
    connection: sa.Connection,
    evaluation_id: UUID,
    *,
    before: str | None,
    after: str | None,
    why: str,
) -> list[UUID]:
    """Note that the detectors' label changed, where no person's outlasts it;
    datasets that became stale.
    """
    if _is_reviewed(connection, evaluation_id):
        return []
    return changed(connection, evaluation_id, before=before, after=after, why=why)


def changed(
    connection: sa.Connection,
    evaluation_id: UUID,
    *,
    before: str | None,
    after: str | None,
    why: str,
    only: UUID | None = None,
) -> list[UUID]:
    """Note that the label that counts changed; datasets that became stale by it, oldest first.

    Those with all labels as they were become fresh.  `only` narrows the change to one dataset.
    Changes of one dataset take turns, so that one of them does not make it fresh while another
    makes it stale.
    """
    connection.execute(sa.select(sa.func.pg_advisory_xact_lock_shared(LABELS_LOCK)))
    query = sa.select(exports.c.export_id).where(_touched(evaluation_id, before, after))
    if only is not None:
        query = query.where(exports.c.export_id == only)
    locked = query.order_by(exports.c.export_id).with_for_update(key_share=True)
    touched = list(connection.scalars(locked))
    reason = f"evaluation {evaluation_id}: {before or 'not judged'} → {after or 'not judged'} {why}"
    for export_id in touched:
        new = insert(export_changes).values(
            export_id=export_id,
            evaluation_id=evaluation_id,
            label_then=before,
            label_now=after,
            reason=reason,
        )
        again = {"label_now": new.excluded.label_now, "reason": new.excluded.reason}
        connection.execute(
            new.on_conflict_do_update(index_elements=["export_id", "evaluation_id"], set_=again)
        )
    back = sa.delete(export_changes).where(
        _c.evaluation_id == evaluation_id, _c.label_then.is_not_distinct_from(_c.label_now)
    )
    freshened = list(connection.scalars(back.returning(_c.export_id)))
    return _settled(connection, touched, freshened)


def _settled(connection: sa.Connection, touched: list[UUID], freshened: list[UUID]) -> list[UUID]:
    """Bring `exports` into line with the changes; the datasets that became stale.

    A dataset that was stale before changes were noted, and has none, stays stale
    unless one was taken back.
    """
    first = (
        sa.select(_c.export_id, _c.created_at, _c.reason)
        .prefix_with(sa.text("DISTINCT ON (export_id)"))
        .where(_c.export_id.in_(touched))
        .order_by(_c.export_id, _c.created_at, _c.evaluation_id)
        .subquery()
    )
    marked = sa.update(exports).where(
        exports.c.export_id == first.c.export_id, exports.c.stale_at.is_(None)
    )
    values = {"stale_at": first.c.created_at, "stale_reason": first.c.reason}
    became = sorted(connection.scalars(marked.values(values).returning(exports.c.export_id)))
    left = sa.exists().where(_c.export_id == exports.c.export_id)
    fresh = sa.update(exports).where(exports.c.export_id.in_(freshened), ~left)
    connection.execute(fresh.values(stale_at=None, stale_reason=None))
    return became


def _touched(evaluation_id: UUID, before: str | None, after: str | None) -> sa.ColumnElement[bool]:
    """Condition: the dataset rests on the evaluation; or, where one of the labels is a
    hack, on another evaluation of the same source, because `app.store.dataset.export_conditions`
    leaves out the sources of hacks; or an earlier change of it is noted.
    """
    same = (
        _of_source(evaluation_id)
        if Label.HACK in (before, after)
        else sa.select(sa.literal(evaluation_id))
    )
    resting = sa.select(export_rows.c.export_id).where(export_rows.c.evaluation_id.in_(same))
    noted = sa.select(_c.export_id).where(_c.evaluation_id == evaluation_id)
    return exports.c.export_id.in_(resting.union(noted))


def _of_source(evaluation_id: UUID) -> sa.Select[tuple[UUID]]:
    """Evaluations of the same source on the same problem, itself included."""
    own, asked = jobs.alias("own"), jobs.alias("asked")
    one = sa.select(own.c.problem_id, own.c.candidate_id).join(
        evaluations, evaluations.c.job_id == own.c.job_id
    )
    same = one.where(evaluations.c.evaluation_id == evaluation_id).subquery("same")
    solves = sa.and_(
        asked.c.problem_id == same.c.problem_id, asked.c.candidate_id == same.c.candidate_id
    )
    measured = evaluations.alias("measured")
    found = sa.select(measured.c.evaluation_id).join(asked, asked.c.job_id == measured.c.job_id)
    return found.join(same, solves)


def _is_reviewed(connection: sa.Connection, evaluation_id: UUID) -> bool:
    query = sa.select(evaluations.c.human_verdict).where(
        evaluations.c.evaluation_id == evaluation_id
    )
    return connection.scalar(query) is not None
