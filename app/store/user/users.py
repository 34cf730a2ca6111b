"""STORE: users.  They are never deleted, only disabled: their actions keep their name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from app.domain import ids
from app.domain.user import Role
from app.store import tables

_u = tables.users.c


class UserError(ValueError):
    """A change of a user that cannot be made."""


@dataclass(frozen=True, kw_only=True)
class Account:
    """A user as stored."""

    user_id: UUID
    name: str
    role: Role
    password_hash: str | None
    disabled_at: datetime | None
    created_at: datetime


def exist(connection: sa.Connection) -> bool:
    """True if there is any user, disabled ones included."""
    return bool(connection.execute(sa.select(sa.exists(sa.select(_u.user_id)))).scalar_one())


def add(connection: sa.Connection, *, name: str, role: Role, password_hash: str | None) -> Account:
    """A new user.  Raises UserError where the name is taken or none, and where the
    first one is no admin.
    """
    if not name or name != name.strip() or len(name) > 100 or not name.isprintable():
        raise UserError(
            f"name: expected 1 to 100 printable characters without space around them, got {name!r}"
        )
    if role is not Role.ADMIN and not exist(connection):
        raise UserError(
            f"role: expected 'admin' for the first user, who lets the others in, got {role.value!r}"
        )
    row = {"user_id": ids.new_id(), "name": name, "role": role, "password_hash": password_hash}
    added = insert(tables.users).values(row).on_conflict_do_nothing().returning(tables.users)
    found = connection.execute(added).one_or_none()
    if found is None:
        raise UserError(f"name: expected one that is free, got {name!r}")
    return _account(found._asdict())


def find(connection: sa.Connection, name: str) -> Account | None:
    """The user with this name."""
    if "\0" in name:
        return None
    return _one(connection, _u.name == name)


def get(connection: sa.Connection, user_id: UUID) -> Account | None:
    """The user with this id."""
    return _one(connection, _u.user_id == user_id)


def listed(connection: sa.Connection) -> list[Account]:
    """Every user, by name."""
    return [
        _account(row._asdict())
        for row in connection.execute(sa.select(tables.users).order_by(_u.name))
    ]


def hold(connection: sa.Connection, account: Account) -> bool:
    """Lock the user; False where the password is another one than that of `account`, or the user
    is disabled: changed since it was read, while the password was being verified.

    With the lock, a session that is opened now is ended by a change that comes next.
    """
    same = sa.select(_u.user_id).where(
        _u.user_id == account.user_id,
        _u.password_hash == account.password_hash,
        _u.disabled_at.is_(None),
    )
    return connection.execute(same.with_for_update(key_share=True)).one_or_none() is not None


def set_password(connection: sa.Connection, user_id: UUID, password_hash: str) -> None:
    """Another password; every session of the user ends."""
    connection.execute(
        sa.update(tables.users).where(_u.user_id == user_id).values(password_hash=password_hash)
    )
    _end_sessions(connection, user_id)


def set_role(connection: sa.Connection, user_id: UUID, role: Role) -> None:
    """Another role, from the next request on.  Raises UserError for the last admin there is."""
    _keep_an_admin(connection, user_id, stays=role is Role.ADMIN)
    connection.execute(sa.update(tables.users).where(_u.user_id == user_id).values(role=role))


def disable(connection: sa.Connection, user_id: UUID) -> None:
    """Let the user in no more, by password, session or token.  Raises UserError for
    the last admin there is.
    """
    _keep_an_admin(connection, user_id, stays=False)
    chosen = sa.update(tables.users).where(_u.user_id == user_id, _u.disabled_at.is_(None))
    connection.execute(chosen.values(disabled_at=sa.func.now()))
    _end_sessions(connection, user_id)


def enable(connection: sa.Connection, user_id: UUID) -> None:
    """Let the user in again; their tokens count again, too."""
    connection.execute(
        sa.update(tables.users).where(_u.user_id == user_id).values(disabled_at=None)
    )


def _one(connection: sa.Connection, condition: sa.ColumnElement[bool]) -> Account | None:
    row = connection.execute(sa.select(tables.users).where(condition)).one_or_none()
    return None if row is None else _account(row._asdict())


def _account(row: Mapping[str, Any]) -> Account:
    return Account(**{**row, "role": Role(row["role"])})


def _end_sessions(connection: sa.Connection, user_id: UUID) -> None:
    connection.execute(sa.delete(tables.sessions).where(tables.sessions.c.user_id == user_id))


def _keep_an_admin(connection: sa.Connection, user_id: UUID, *, stays: bool) -> None:
    """Admins are locked, so that two of them cannot remove each other at once."""
    admins = sa.select(_u.user_id).where(_u.role == Role.ADMIN, _u.disabled_at.is_(None))
    left = set(
        connection.execute(admins.order_by(_u.user_id).with_for_update(key_share=True)).scalars()
    )
    if not stays and left == {user_id}:
        raise UserError(
            "expected another admin who is not disabled, got none: an admin must be able to let"
            " people in"
        )
