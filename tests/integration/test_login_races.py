"""Logins while the password or the user changes: none outlives the change."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import flask
import pytest
import sqlalchemy as sa
from werkzeug.security import generate_password_hash

from app import passwords
from app.domain.user import Role
from app.store import tables
from app.store.postgres.database import Database
from app.store.user import logins, users
from tests.integration.login_form import CHEAP, PASSWORD, STORED, csrf, log_in
from tests.integration.overlap import started, waits_or_ends

NEW = generate_password_hash("another horse battery staple", CHEAP)


@pytest.fixture
def ada(database: Database, monkeypatch: pytest.MonkeyPatch) -> UUID:
    """The user `ada`, beside another admin."""
    monkeypatch.setattr(passwords, "METHOD", CHEAP)
    with database.begin() as connection:
        users.add(connection, name="eve", role=Role.ADMIN, password_hash=STORED)
        return users.add(connection, name="ada", role=Role.ADMIN, password_hash=STORED).user_id


def interrupt(
    monkeypatch: pytest.MonkeyPatch,
    database: Database,
    change: Callable[[sa.Connection, UUID], None],
    user_id: UUID,
) -> None:
    """Make the change while a password is being verified."""
    verify = passwords.verify

    def verified(stored: str | None, password: str) -> bool:
        found = verify(stored, password)
        with database.begin() as connection:
            change(connection, user_id)
        return found

    monkeypatch.setattr(passwords, "verify", verified)


def renew(connection: sa.Connection, user_id: UUID) -> None:
    users.set_password(connection, user_id, NEW)


@pytest.mark.parametrize("change", [renew, users.disable])
def test_a_login_with_a_password_that_changes_meanwhile_is_none(
    made: Callable[..., flask.Flask],
    database: Database,
    ada: UUID,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[sa.Connection, UUID], None],
) -> None:
    site = made().test_client()
    interrupt(monkeypatch, database, change, ada)
    assert log_in(site, "ada").status_code == 401
    with database.begin() as connection:
        users.enable(connection, ada)
        assert connection.execute(sa.select(tables.sessions)).all() == []
    assert site.get("/account").status_code == 401


def test_the_old_password_sets_none_after_another_one_was_set(
    made: Callable[..., flask.Flask],
    database: Database,
    ada: UUID,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = made().test_client()
    assert log_in(site, "ada").status_code == 302
    form = {"csrf_token": csrf(site, "/account"), "old": PASSWORD, "new": "my own long password"}
    interrupt(monkeypatch, database, renew, ada)
    answer = site.post("/account/password", data=form)
    assert answer.status_code == 400
    with database.begin() as connection:
        account = users.get(connection, ada)
        assert account is not None
        assert account.password_hash == NEW
        assert connection.execute(sa.select(tables.sessions)).all() == []


def test_a_session_that_is_opened_during_the_change_ends_with_it(
    database: Database, ada: UUID
) -> None:
    with database.begin() as connection:
        account = users.get(connection, ada)
        assert account is not None

    def changed() -> None:
        with database.begin() as connection:
            renew(connection, ada)

    with database.begin() as connection:
        assert users.hold(connection, account)
        with started(changed) as later:
            waits_or_ends(database, later)
            secret = logins.open_(connection, ada)
            connection.commit()
            later.result()
    with database.begin() as connection:
        assert not users.hold(connection, account)
        assert logins.user_of(connection, secret) is None


def test_a_session_has_the_role_of_now(
    made: Callable[..., flask.Flask], database: Database, ada: UUID
) -> None:
    site = made().test_client()
    log_in(site, "ada")
    assert site.get("/users").status_code == 200
    with database.begin() as connection:
        users.set_role(connection, ada, Role.VIEWER)
    assert site.get("/users").status_code == 403
    assert site.get("/account").status_code == 200
