"""STORE: login sessions and failed logins.  Cookies are kept as hashes: reading this
table gives no login.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from app.domain import user
from app.domain.user import User
from app.store import tables
from app.store.postgres import moments

SESSION_S = 7 * 24 * 3600
"""A login lasts this long, in seconds."""
LONGEST_WAIT_S = 900
"""Between two attempts to log in, in seconds."""
FORGET_S = 24 * 3600
"""Failures are forgotten after this long without another one."""

_s = tables.sessions.c
_f = tables.login_failures.c
_u = tables.users.c


def open_(connection: sa.Connection, user_id: UUID) -> str:
    """A new session; the secret for the cookie, of 256 bits."""
    connection.execute(sa.delete(tables.sessions).where(_s.expires_at < sa.func.now()))
    secret = secrets.token_urlsafe(32)
    until = moments.ahead(SESSION_S)
    row = {"session_hash": _hash(secret), "user_id": user_id, "expires_at": until}
    connection.execute(sa.insert(tables.sessions).values(row))
    return secret


def close(connection: sa.Connection, secret: str) -> None:
    """End a session."""
    connection.execute(sa.delete(tables.sessions).where(_s.session_hash == _hash(secret)))


def user_of(connection: sa.Connection, secret: str) -> User | None:
    """User of the session; None where it has ended or its user is disabled."""
    query = (
        sa.select(_u.user_id, _u.name, _u.role)
        .select_from(tables.sessions.join(tables.users))
        .where(
            _s.session_hash == _hash(secret),
            _s.expires_at > sa.func.now(),
            _u.disabled_at.is_(None),
        )
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else user.user(**row._mapping)


def wait_s(connection: sa.Connection, allowed: Sequence[tuple[str, int]]) -> float:
    """Seconds until another attempt is allowed; 0 for now.

    `allowed` are subjects (a name, an address) with the failures that each is forgiven.  Beyond
    them the time since the last failure has to be 1, 2, 4 … seconds, up to LONGEST_WAIT_S.
    """
    since = sa.extract("epoch", sa.func.now() - _f.failed_at)
    hashes = {_hash(subject): free for subject, free in allowed}
    query = sa.select(_f.subject, _f.failures, since.label("since_s")).where(
        _f.subject.in_(list(hashes))
    )
    waits = [0.0]
    for row in connection.execute(query):
        beyond = row.failures - hashes[row.subject]
        if beyond >= 0 and row.since_s < FORGET_S:
            waits.append(min(2.0 ** min(beyond, 20), LONGEST_WAIT_S) - float(row.since_s))
    return max(waits)


def failed(connection: sa.Connection, subjects: Sequence[str]) -> None:
    """Count a failure for each of the subjects."""
    connection.execute(sa.delete(tables.login_failures).where(_f.failed_at < moments.ago(FORGET_S)))
    for subject in sorted(_hash(subject) for subject in subjects):
        new = insert(tables.login_failures).values(
            subject=subject, failures=1, failed_at=sa.func.now()
        )
        again = {"failures": _f.failures + 1, "failed_at": sa.func.now()}
        connection.execute(new.on_conflict_do_update(index_elements=["subject"], set_=again))


def forgive(connection: sa.Connection, subject: str) -> None:
    """Forget the failures of a subject."""
    connection.execute(sa.delete(tables.login_failures).where(_f.subject == _hash(subject)))


def _hash(secret: str) -> str:
    """Enough for secrets of 256 bits; for names and addresses it only keeps them short."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
