"""STORE: review queues: filters of the evaluations that wait for a person, with a
name and reviewers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from app.domain import ids
from app.domain.user import User
from app.store.tables import (
    attempts,
    review_items,
    review_queue_reviewers,
    review_queues,
    runs,
    users,
)
from app.store.user import audit

MOST_CHARACTERS = 80
"""Characters of a name."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """Filter of the waiting evaluations; an empty condition excludes nothing."""

    verdict: str = ""
    """Label that counts now."""
    detector: str = ""
    """Detector with a finding in the current verdict."""
    run: str = ""
    """Exact name of a run with an attempt that has the evaluation."""


EVERYTHING = Conditions()


COUNTED = 500
"""Waiting items that are counted at most."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Items that meet some conditions."""

    done: int
    """Items that have all the opinions they want."""
    waiting: int
    """The others, up to COUNTED."""
    is_exact: bool
    """False: more wait, which were not counted."""

    @property
    def total(self) -> int:
        """All items that were counted."""
        return self.done + self.waiting


@dataclass(frozen=True, kw_only=True)
class ReviewQueue:
    """A queue with a name."""

    review_queue_id: UUID
    name: str
    conditions: Conditions
    reviewers: tuple[str, ...]
    """Names of the users it is assigned to; empty: everybody."""
    progress: Progress


def add(
    connection: sa.Connection,
    user: User,
    *,
    name: str,
    conditions: Conditions,
    reviewers: Sequence[UUID],
) -> UUID:
    """A new queue, assigned to users.  ValueError where the name is empty or taken,
    or a user does not exist.
    """
    if not name.strip() or len(name) > MOST_CHARACTERS:
        raise ValueError(f"name: expected 1 to {MOST_CHARACTERS} characters, got {name!r}")
    chosen = list(dict.fromkeys(reviewers))
    known = set(connection.scalars(sa.select(users.c.user_id).where(users.c.user_id.in_(chosen))))
    if missing := [each for each in chosen if each not in known]:
        raise ValueError(f"reviewers: expected users, got {missing[0]}")
    review_queue_id = ids.new_id()
    row = {
        "review_queue_id": review_queue_id,
        "name": name.strip(),
        "user_id": user.user_id,
        **vars(conditions),
    }
    new = (
        insert(review_queues)
        .values(row)
        .on_conflict_do_nothing()
        .returning(review_queues.c.review_queue_id)
    )
    if connection.scalar(new) is None:
        raise ValueError(f"name: expected one that no queue has, got {name!r}")
    for each in chosen:
        row = {"review_queue_id": review_queue_id, "user_id": each}
        connection.execute(sa.insert(review_queue_reviewers).values(row))
    told = {"reviewers": [str(each) for each in chosen], **vars(conditions)}
    audit.record(connection, user, "review_queue.add", f"review queue {name.strip()}", told)
    return review_queue_id


def remove(connection: sa.Connection, user: User, review_queue_id: UUID) -> bool:
    """Remove a queue; its items go on waiting.  False where there is none of that id."""
    gone = sa.delete(review_queues).where(review_queues.c.review_queue_id == review_queue_id)
    name = connection.scalar(gone.returning(review_queues.c.name))
    if name is not None:
        audit.record(connection, user, "review_queue.remove", f"review queue {name}")
    return name is not None


def listed(connection: sa.Connection) -> list[ReviewQueue]:
    """Every queue by name, with its reviewers and progress."""
    assigned = (
        sa.select(
            review_queue_reviewers.c.review_queue_id, sa.func.array_agg(users.c.name).label("names")
        )
        .join(users, users.c.user_id == review_queue_reviewers.c.user_id)
        .group_by(review_queue_reviewers.c.review_queue_id)
        .subquery()
    )
    query = (
        sa.select(review_queues, assigned.c.names)
        .outerjoin(assigned, assigned.c.review_queue_id == review_queues.c.review_queue_id)
        .order_by(review_queues.c.name)
    )
    found = []
    for row in connection.execute(query):
        conditions = Conditions(verdict=row.verdict, detector=row.detector, run=row.run)
        found.append(
            ReviewQueue(
                review_queue_id=row.review_queue_id,
                name=row.name,
                conditions=conditions,
                reviewers=tuple(sorted(row.names or ())),
                progress=progress(connection, conditions),
            )
        )
    return found


def progress(connection: sa.Connection, conditions: Conditions) -> Progress:
    """Progress of the items that meet the conditions."""
    met = sa.select(sa.literal(1)).select_from(review_items).where(*matching(conditions))
    is_done = review_items.c.opinions >= review_items.c.opinions_wanted
    finished, open_items = (
        met.where(is_done).subquery(),
        met.where(~is_done).limit(COUNTED + 1).subquery(),
    )
    done, waiting = (
        int(connection.execute(sa.select(sa.func.count()).select_from(each)).scalar_one())
        for each in (finished, open_items)
    )
    return Progress(done=done, waiting=min(waiting, COUNTED), is_exact=waiting <= COUNTED)


def matching(conditions: Conditions) -> list[sa.ColumnElement[bool]]:
    """Conditions as expressions over `review_items`, each over the fewest tables: an order of
    importance looks into others at random places.
    """
    item = review_items.c.evaluation_id
    held: list[sa.ColumnElement[bool]] = []
    if conditions.verdict:
        held.append(review_items.c.label == conditions.verdict)
    if conditions.detector:
        held.append(review_items.c.detectors.contains([conditions.detector]))
    if conditions.run:
        named = attempts.join(runs, runs.c.run_id == attempts.c.run_id)
        of_run = sa.select(attempts.c.evaluation_id).select_from(named)
        held.append(item.in_(of_run.where(runs.c.name == conditions.run)))
    return held
