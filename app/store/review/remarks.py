"""STORE: comments and tags.  A deleted comment stays as a row without being shown;
every change is audited.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from app.domain import ids, remark
from app.domain.remark import AnnotationTarget
from app.domain.user import User
from app.store.postgres import jsonb, row_columns
from app.store.tables import candidates, comments, problems, runs, tags, trajectories, users
from app.store.user import audit

_KEYS = {
    AnnotationTarget.RUN: runs.c.run_id,
    AnnotationTarget.PROBLEM: problems.c.problem_id,
    AnnotationTarget.TRAJECTORY: trajectories.c.trajectory_id,
    AnnotationTarget.CANDIDATE: candidates.c.candidate_id,
}

_NAMES = {
    AnnotationTarget.RUN: runs.c.name,
    AnnotationTarget.PROBLEM: problems.c.name,
    AnnotationTarget.TRAJECTORY: trajectories.c.label,
}


@dataclass(frozen=True, kw_only=True)
class Comment:
    """One comment."""

    comment_id: UUID
    kind: str
    subject_id: UUID
    body: str
    author: str
    user_id: UUID | None
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class Tagged:
    """One tag on one thing."""

    kind: str
    subject_id: UUID
    tag: str
    author: str
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class Annotations:
    """Comments and tags of one thing."""

    kind: str
    subject_id: UUID
    comments: tuple[Comment, ...]
    tags: tuple[str, ...]


def exists(connection: sa.Connection, kind: AnnotationTarget, subject_id: UUID) -> bool:
    """True if there is a thing of that kind and id."""
    return connection.scalar(sa.select(sa.true()).where(_KEYS[kind] == subject_id)) is not None


def of(connection: sa.Connection, kind: AnnotationTarget, subject_id: UUID) -> Annotations:
    """Comments, oldest first, and tags by name."""
    listed = _comments().where(comments.c.kind == kind, comments.c.subject_id == subject_id)
    named = (
        sa.select(tags.c.tag)
        .where(tags.c.kind == kind, tags.c.subject_id == subject_id)
        .order_by(tags.c.tag)
    )
    rows = connection.execute(listed.order_by(comments.c.comment_id)).mappings()
    return Annotations(
        kind=str(kind),
        subject_id=subject_id,
        comments=tuple(Comment(**row) for row in rows),
        tags=tuple(connection.scalars(named)),
    )


def add_comment(
    connection: sa.Connection, user: User, kind: AnnotationTarget, subject_id: UUID, body: str
) -> UUID:
    """Store a comment; its id.  Raises AnnotationError."""
    comment_id = ids.new_id()
    row = {
        "comment_id": comment_id,
        "kind": kind,
        "subject_id": subject_id,
        "body": jsonb.plain(remark.comment(body)),
        "user_id": user.user_id,
    }
    connection.execute(sa.insert(comments).values(row))
    audit.record(
        connection, user, "comment.add", f"{kind} {subject_id}", {"comment_id": str(comment_id)}
    )
    return comment_id


def delete_comment(connection: sa.Connection, user: User, comment_id: UUID) -> Comment | None:
    """Hide a comment of the user's own; None where there is none of that id by that user."""
    found = (
        connection.execute(_comments().where(comments.c.comment_id == comment_id))
        .mappings()
        .one_or_none()
    )
    if found is None or found["user_id"] != user.user_id:
        return None
    hidden = (
        sa.update(comments)
        .where(comments.c.comment_id == comment_id)
        .values(deleted_at=sa.func.now())
    )
    connection.execute(hidden)
    gone = Comment(**found)
    audit.record(
        connection,
        user,
        "comment.delete",
        f"{gone.kind} {gone.subject_id}",
        {"comment_id": str(comment_id)},
    )
    return gone


def add_tag(
    connection: sa.Connection, user: User, kind: AnnotationTarget, subject_id: UUID, tag: str
) -> str:
    """Tag a thing; a tag that it has stays as it is.  Raises AnnotationError."""
    name = remark.tag(tag)
    row = {"kind": kind, "subject_id": subject_id, "tag": name, "user_id": user.user_id}
    if connection.execute(insert(tags).values(row).on_conflict_do_nothing()).rowcount:
        audit.record(connection, user, "tag.add", f"{kind} {subject_id}", {"tag": name})
    return name


def remove_tag(
    connection: sa.Connection, user: User, kind: AnnotationTarget, subject_id: UUID, tag: str
) -> None:
    """Remove a tag."""
    held = (tags.c.kind == kind, tags.c.subject_id == subject_id, tags.c.tag == tag)
    if connection.execute(sa.delete(tags).where(*held)).rowcount:
        audit.record(connection, user, "tag.remove", f"{kind} {subject_id}", {"tag": tag})


def tag_counts(connection: sa.Connection) -> dict[str, int]:
    """Tag → things that have it, the most used first."""
    number = sa.func.count()
    query = sa.select(tags.c.tag, number).group_by(tags.c.tag).order_by(number.desc(), tags.c.tag)
    return dict(connection.execute(query).all())


def latest_comments(
    connection: sa.Connection, *, kind: str = "", author: str = "", text: str = "", limit: int = 100
) -> list[Comment]:
    """Comments that meet the filter, newest first."""
    query = _comments().order_by(comments.c.comment_id.desc()).limit(limit)
    query = query.where(*([comments.c.kind == kind] if kind else []))
    query = query.where(*([row_columns.USER.in_([author])] if author else []))
    if text:
        query = query.where(comments.c.body.icontains(text, autoescape=True))
    return [Comment(**row) for row in connection.execute(query).mappings()]


def latest_tagged(
    connection: sa.Connection, *, kind: str = "", tag: str = "", limit: int = 100
) -> list[Tagged]:
    """Tagged things that meet the filter, newest first."""
    query = sa.select(*row_columns.of(Tagged, tags, author=row_columns.USER))
    query = query.select_from(tags.outerjoin(users, users.c.user_id == tags.c.user_id))
    query = query.where(
        *([tags.c.kind == kind] if kind else []), *([tags.c.tag == tag] if tag else [])
    )
    found = connection.execute(query.order_by(tags.c.created_at.desc()).limit(limit))
    return [Tagged(**row) for row in found.mappings()]


def names(connection: sa.Connection, kind: str, subject_ids: list[UUID]) -> dict[UUID, str]:
    """Thing → its name, where it has one."""
    if kind == AnnotationTarget.CANDIDATE:
        return {}
    target = AnnotationTarget(kind)
    key, column = _KEYS[target], _NAMES[target]
    query: sa.Select[Any] = sa.select(key, column).where(key.in_(subject_ids), column.is_not(None))
    return dict(connection.execute(query).all())


def _comments() -> sa.Select[Any]:
    return (
        sa.select(*row_columns.of(Comment, comments, author=row_columns.USER))
        .select_from(comments.outerjoin(users, users.c.user_id == comments.c.user_id))
        .where(comments.c.deleted_at.is_(None))
    )
