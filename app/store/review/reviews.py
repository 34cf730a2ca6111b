"""STORE: people's reviews of evaluations.  Reviews are only added; the newest
decisive one not taken back counts.

The label that counts lies beside the measurement (`evaluations.human_verdict`), kept in the same
transaction, so that lists, exports and roll-ups see one label
(`app.store.evaluation.evaluation_rows.LABEL`). The queue fills itself by triggers (migrations).

Locks are taken in one order, so that no two writers wait for each other: an evaluation, items of
the queue by their ids, datasets (`app.store.dataset.stale_exports`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from app.domain import ids
from app.domain.review import DECISIVE, LOCK_S, MIN_REASON, VERDICTS, Opinion
from app.domain.user import User
from app.store.dataset import stale_exports
from app.store.postgres import jsonb
from app.store.review import review_queues
from app.store.review.review_queues import EVERYTHING, Conditions
from app.store.tables import evaluations, preferences, review_items, reviews, verdicts
from app.store.user import audit

_i = review_items.c
_r = reviews.c

SKIPPED = 0.5
"""A skipped item's score is multiplied by this: it comes back, later."""


class ReviewError(ValueError):
    """A review that cannot be taken: the message holds the expected and the given value."""


class LockedError(ReviewError):
    """The item is locked by another reviewer."""


@dataclass(frozen=True, kw_only=True)
class GivenReview:
    """A review as given by a person."""

    label: Opinion
    reason: str
    hack_type: str | None = None
    second_opinion: bool = False
    """True asks for a review by a second person, without sight of this one."""


def add(connection: sa.Connection, user: User, evaluation_id: UUID, said: GivenReview) -> UUID:
    """Store a review, let it count, mark the datasets that it touches, and note it; its id.

    Raises ReviewError without a reason or for `withdrawn`, LockedError where another
    user holds the item.
    """
    _check(said)
    before = _label(connection, evaluation_id)
    _require_free(connection, user, evaluation_id)
    verdict = VERDICTS.get(said.label)
    review_id = ids.new_id()
    connection.execute(
        sa.insert(reviews).values(
            review_id=review_id,
            evaluation_id=evaluation_id,
            user_id=user.user_id,
            label=said.label,
            verdict=verdict,
            hack_type=said.hack_type,
            reason=jsonb.plain(said.reason.strip()),
            verdict_id=_current_verdict(evaluation_id),
        )
    )
    _count(
        connection, evaluation_id, wants_more=said.second_opinion or said.label is Opinion.UNSURE
    )
    _settle(connection, user, evaluation_id, before, f"review: {said.label}")
    audit.record(
        connection,
        user,
        "review.add",
        f"evaluation {evaluation_id}",
        {
            "review_id": str(review_id),
            "label": str(said.label),
            "reason": said.reason,
            "before": before,
        },
    )
    return review_id


def undo(connection: sa.Connection, user: User, review_id: UUID) -> UUID:
    """Take one's own review back by adding one that says so; the evaluation that it was of.

    Raises ReviewError where it is another user's, is one that takes back, or was
    taken back already.
    """
    found = connection.execute(sa.select(reviews).where(_r.review_id == review_id)).one_or_none()
    if found is None or found.label == Opinion.WITHDRAWN or found.user_id != user.user_id:
        raise ReviewError(f"expected a review of your own, got {review_id}")
    before = _label(connection, found.evaluation_id)
    new = insert(reviews).values(
        review_id=ids.new_id(),
        evaluation_id=found.evaluation_id,
        user_id=user.user_id,
        label=Opinion.WITHDRAWN,
        reason="taken back",
        withdraws=review_id,
    )
    if (
        connection.scalar(
            new.on_conflict_do_nothing(index_elements=["withdraws"]).returning(_r.review_id)
        )
        is None
    ):
        raise ReviewError(f"review {review_id} was taken back before")
    reopened = sa.update(review_items).where(_i.evaluation_id == found.evaluation_id)
    connection.execute(reopened.values(opinions=sa.func.greatest(0, _i.opinions - 1)))
    _settle(connection, user, found.evaluation_id, before, "review taken back")
    audit.record(
        connection,
        user,
        "review.undo",
        f"evaluation {found.evaluation_id}",
        {"review_id": str(review_id)},
    )
    evaluation_id: UUID = found.evaluation_id
    return evaluation_id


def queue(connection: sa.Connection, user: User, evaluation_ids: Sequence[UUID]) -> int:
    """Queue these for review; the number that was not waiting already.  Items
    decided before are asked again.
    """
    known = sa.select(
        evaluations.c.evaluation_id,
        sa.func.coalesce(evaluations.c.speedup, 0.0),
        sa.literal(1.0),
        sa.func.review_score(evaluations.c.speedup, "suspect", sa.false()),
        sa.literal(user.user_id, sa.Uuid),
    ).where(evaluations.c.evaluation_id.in_(evaluation_ids))
    known = known.order_by(evaluations.c.evaluation_id)
    new = insert(review_items).from_select(
        ["evaluation_id", "fast", "suspicious", "score", "queued_by"], known
    )
    again = new.on_conflict_do_update(
        index_elements=["evaluation_id"],
        set_={"opinions_wanted": _i.opinions + 1, "queued_by": new.excluded.queued_by},
        where=_i.opinions >= _i.opinions_wanted,
    )
    added = len(connection.execute(again.returning(_i.evaluation_id)).all())
    audit.record(
        connection, user, "review.queue", f"{added} evaluations", {"asked": len(evaluation_ids)}
    )
    return added


def take(connection: sa.Connection, user: User, conditions: Conditions = EVERYTHING) -> UUID | None:
    """The most important open item that meets the conditions, that no other user holds and this
    user has not judged, locked for them; any other is let go of.
    """
    _let_go(connection, user)
    mine = (
        sa.exists()
        .where(_r.evaluation_id == _i.evaluation_id, _by(user), _r.label != Opinion.WITHDRAWN)
        .where(~_withdrawn(_r.review_id))
    )
    query = (
        sa.select(_i.evaluation_id)
        .where(_open(), _free(user), ~mine, *review_queues.matching(conditions))
        .order_by(_i.score.desc(), _i.evaluation_id)
        .limit(1)
        .with_for_update(skip_locked=True, key_share=True)
    )
    found: UUID | None = connection.scalar(query)
    if found is not None:
        _hold(connection, user, found)
    return found


def lock(connection: sa.Connection, user: User, evaluation_id: UUID) -> None:
    """Hold an item for LOCK_S, and let go of any other.  Raises LockedError where
    another user holds it.  In a transaction that has locked no dataset.
    """
    _let_go(connection, user, beside=evaluation_id)
    _require_free(connection, user, evaluation_id)
    _hold(connection, user, evaluation_id)


def skip(connection: sa.Connection, user: User, evaluation_id: UUID) -> None:
    """Let go of an item; it comes again, later."""
    held = sa.update(review_items).where(
        _i.evaluation_id == evaluation_id, _i.locked_by == user.name
    )
    connection.execute(held.values(locked_by=None, locked_until=None, score=_i.score * SKIPPED))


def prefer(
    connection: sa.Connection, user: User, *, chosen: UUID, rejected: UUID, reason: str
) -> UUID:
    """Note that one candidate is preferred over another of the same problem: a pair
    for preference training.
    """
    if len(reason.strip()) < MIN_REASON:
        raise ReviewError(
            f"reason: expected at least {MIN_REASON} characters, got {reason.strip()!r}"
        )
    preference_id = ids.new_id()
    row = {
        "preference_id": preference_id,
        "user_id": user.user_id,
        "reason": jsonb.plain(reason.strip()),
    }
    connection.execute(
        sa.insert(preferences).values(
            chosen_evaluation_id=chosen, rejected_evaluation_id=rejected, **row
        )
    )
    audit.record(
        connection,
        user,
        "preference.add",
        f"evaluation {chosen}",
        {"over": str(rejected), "reason": reason},
    )
    return preference_id


def _check(said: GivenReview) -> None:
    if said.label is Opinion.WITHDRAWN:
        raise ReviewError(
            f"label: expected one of {', '.join((*DECISIVE, Opinion.UNSURE))}, got withdrawn"
        )
    if len(said.reason.strip()) < MIN_REASON:
        raise ReviewError(
            f"reason: expected at least {MIN_REASON} characters, got {said.reason.strip()!r}"
        )
    if said.hack_type is not None and said.label not in (Opinion.HACK, Opinion.LEAK):
        raise ReviewError(f"hack type: expected none with {said.label}, got {said.hack_type!r}")


def _let_go(connection: sa.Connection, user: User, beside: UUID | None = None) -> None:
    """Let go of the items that the user holds.  They and the item `beside` them, which the user is
    to hold next, are locked by their ids.
    """
    held = sa.or_(_i.locked_by == user.name, _i.evaluation_id == beside)
    these = sa.select(_i.evaluation_id).where(held)
    locked = these.order_by(_i.evaluation_id).with_for_update(key_share=True)
    others = [each for each in connection.scalars(locked) if each != beside]
    gone = sa.update(review_items).where(_i.evaluation_id.in_(others))
    connection.execute(gone.values(locked_by=None, locked_until=None))


def _hold(connection: sa.Connection, user: User, evaluation_id: UUID) -> None:
    until = sa.func.now() + sa.text(f"interval '{LOCK_S} seconds'")
    held = sa.update(review_items).where(_i.evaluation_id == evaluation_id)
    connection.execute(held.values(locked_by=user.name, locked_until=until))


def _require_free(connection: sa.Connection, user: User, evaluation_id: UUID) -> None:
    held = (
        sa.select(_i.locked_by)
        .where(_i.evaluation_id == evaluation_id)
        .with_for_update(key_share=True)
    )
    connection.execute(held)
    other = connection.scalar(
        sa.select(_i.locked_by).where(_i.evaluation_id == evaluation_id, ~_free(user))
    )
    if other is not None:
        raise LockedError(f"{other} looks at this evaluation now; locks end after {LOCK_S} s")


def _free(user: User) -> sa.ColumnElement[bool]:
    return sa.or_(
        _i.locked_by.is_(None), _i.locked_by == user.name, _i.locked_until < sa.func.now()
    )


def _open() -> sa.ColumnElement[bool]:
    return _i.opinions < _i.opinions_wanted


def _by(user: User) -> sa.ColumnElement[bool]:
    return _r.user_id.is_(None) if user.user_id is None else _r.user_id == user.user_id


def _withdrawn(review_id: sa.ColumnElement[UUID]) -> sa.ColumnElement[bool]:
    later = reviews.alias("later")
    return sa.exists().where(later.c.withdraws == review_id)


def _current_verdict(evaluation_id: UUID) -> sa.ScalarSelect[UUID]:
    current = verdicts.c.evaluation_id == evaluation_id, verdicts.c.is_current
    return sa.select(verdicts.c.verdict_id).where(*current).scalar_subquery()


def _label(connection: sa.Connection, evaluation_id: UUID) -> str | None:
    """Label that counts now; the evaluation is locked, so that two reviewers take turns."""
    query = sa.select(evaluations.c.human_verdict).where(
        evaluations.c.evaluation_id == evaluation_id
    )
    row = connection.execute(query.with_for_update(key_share=True)).one_or_none()
    if row is None:
        raise ReviewError(f"expected an evaluation, got {evaluation_id}")
    automatic = sa.select(verdicts.c.label).where(
        verdicts.c.evaluation_id == evaluation_id, verdicts.c.is_current
    )
    label: str | None = row.human_verdict or connection.scalar(automatic)
    return label


def _count(connection: sa.Connection, evaluation_id: UUID, *, wants_more: bool) -> None:
    """One more opinion on the item, if it is one; another is wanted where asked for."""
    more = 1 if wants_more else 0
    if wants_more:
        known = sa.select(
            evaluations.c.evaluation_id,
            sa.func.coalesce(evaluations.c.speedup, 0.0),
            sa.literal(1.0),
            sa.func.review_score(evaluations.c.speedup, "suspect", sa.false()),
        ).where(evaluations.c.evaluation_id == evaluation_id)
        new = insert(review_items).from_select(
            ["evaluation_id", "fast", "suspicious", "score"], known
        )
        connection.execute(new.on_conflict_do_nothing())
    counted = sa.update(review_items).where(_i.evaluation_id == evaluation_id)
    wanted = sa.func.greatest(_i.opinions_wanted, _i.opinions + 1 + more)
    connection.execute(
        counted.values(
            opinions=_i.opinions + 1, opinions_wanted=wanted, locked_by=None, locked_until=None
        )
    )


def _settle(
    connection: sa.Connection, user: User, evaluation_id: UUID, before: str | None, why: str
) -> None:
    """Let the newest decisive review that stands count; datasets that hold the row
    are stale if the label changed.
    """
    newest = (
        sa.select(_r.verdict)
        .where(
            _r.evaluation_id == evaluation_id, _r.verdict.is_not(None), ~_withdrawn(_r.review_id)
        )
        .order_by(_r.review_id.desc())
        .limit(1)
    )
    human = connection.scalar(newest)
    changed = sa.update(evaluations).where(evaluations.c.evaluation_id == evaluation_id)
    connection.execute(changed.values(human_verdict=human))
    after = _label(connection, evaluation_id)
    if after != before:
        stale_exports.changed(
            connection, evaluation_id, before=before, after=after, why=f"by {user.name}, {why}"
        )
