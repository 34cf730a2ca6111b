"""STORE: API tokens.  Kept as hashes; a token is shown once and cannot be read again."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

from app.domain import ids, user
from app.domain.user import Scope, User
from app.store import tables

PREFIX = "assay_"
"""Every token begins with it, so that scanners of repositories and logs find one that leaked."""
HINT_CHARACTERS = len(PREFIX) + 6
"""Characters of a token that lists show, to tell it from others: too few to guess the rest."""
USED_S = 60
"""`last_used_at` is written at most this often, in seconds."""

_t = tables.api_tokens.c
_u = tables.users.c


class TokenError(ValueError):
    """Not the way a token can be."""


@dataclass(frozen=True, kw_only=True)
class Token:
    """A token as it is listed."""

    api_token_id: UUID
    user: str
    name: str
    hint: str
    scopes: tuple[Scope, ...]
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    created_at: datetime


def add(
    connection: sa.Connection,
    *,
    user_id: UUID,
    name: str,
    scopes: Iterable[Scope],
    expires_at: datetime | None = None,
) -> tuple[UUID, str]:
    """A new token for that user: its id, and its text, which is nowhere else.
    Raises TokenError.
    """
    chosen = [scope for scope in Scope if scope in set(scopes)]
    if not chosen:
        raise TokenError(f"scopes: expected at least one of {', '.join(Scope)}, got none")
    if not name or len(name) > 100 or not name.isprintable():
        raise TokenError(f"name: expected 1 to 100 printable characters, got {name!r}")
    text = PREFIX + secrets.token_urlsafe(32)
    token_id = ids.new_id()
    connection.execute(
        sa.insert(tables.api_tokens).values(
            api_token_id=token_id,
            user_id=user_id,
            name=name,
            token_hash=_hash(text),
            hint=text[:HINT_CHARACTERS],
            scopes=[str(scope) for scope in chosen],
            expires_at=expires_at,
        )
    )
    return token_id, text


def user_of(connection: sa.Connection, text: str) -> User | None:
    """User of the token, with the token's scopes; None where it is unknown, revoked or expired, or
    its user disabled.  Notes that it was used.
    """
    if not text.startswith(PREFIX) or len(text) > 200:
        return None
    query = (
        sa.select(_t.api_token_id, _t.scopes, _t.last_used_at, _u.user_id, _u.name, _u.role)
        .select_from(tables.api_tokens.join(tables.users))
        .where(_t.token_hash == _hash(text), _t.revoked_at.is_(None), _u.disabled_at.is_(None))
        .where(sa.or_(_t.expires_at.is_(None), _t.expires_at > sa.func.now()))
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    _note_use(connection, row.api_token_id, row.last_used_at)
    return user.user(user_id=row.user_id, name=row.name, role=row.role, only=frozenset(row.scopes))


def listed(connection: sa.Connection, user_id: UUID | None = None) -> list[Token]:
    """The tokens of a user, or of all, newest first."""
    query = (
        sa.select(
            _t.api_token_id,
            _u.name.label("user"),
            _t.name,
            _t.hint,
            _t.scopes,
            _t.expires_at,
            _t.last_used_at,
            _t.revoked_at,
            _t.created_at,
        )
        .select_from(tables.api_tokens.join(tables.users))
        .order_by(_t.created_at.desc(), _t.api_token_id)
    )
    if user_id is not None:
        query = query.where(_t.user_id == user_id)
    return [
        Token(**{**row._mapping, "scopes": tuple(Scope(scope) for scope in row.scopes)})
        for row in connection.execute(query)
    ]


def revoke(connection: sa.Connection, api_token_id: UUID, *, user_id: UUID | None = None) -> bool:
    """Make a token useless, at once; with `user_id` only where it is theirs.
    Whether there was one to revoke.
    """
    chosen = sa.update(tables.api_tokens).where(
        _t.api_token_id == api_token_id, _t.revoked_at.is_(None)
    )
    if user_id is not None:
        chosen = chosen.where(_t.user_id == user_id)
    return bool(connection.execute(chosen.values(revoked_at=sa.func.now())).rowcount)


def _note_use(connection: sa.Connection, api_token_id: UUID, before: datetime | None) -> None:
    """Not with every request: a trainer sends hundreds a second, and one row cannot
    be written so often.
    """
    if before is not None and (datetime.now(before.tzinfo) - before).total_seconds() < USED_S:
        return
    free = (
        sa.select(_t.api_token_id)
        .where(_t.api_token_id == api_token_id)
        .with_for_update(skip_locked=True, key_share=True)
    )
    used = sa.update(tables.api_tokens).where(_t.api_token_id.in_(free.scalar_subquery()))
    connection.execute(used.values(last_used_at=sa.func.now()))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
