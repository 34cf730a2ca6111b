"""Lists of administrators: users, and the audit log by user, action and object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.domain.user import Role, Scope, user
from app.store.postgres.database import Database
from app.store.user import audit, tokens, users

Ask = Callable[[str], Any]


@pytest.fixture
def ask(site: FlaskClient, database: Database) -> Ask:
    """Answer of a page for an admin; two users have made sixty changes."""
    found = []
    with database.begin() as connection:
        for name, role in (("ada", Role.ADMIN), ("ben", Role.VIEWER)):
            account = users.add(connection, name=name, role=role, password_hash="secret-hash")
            found.append(user(user_id=account.user_id, name=name, role=role))
        for number in range(60):
            action = "export.add" if number % 3 == 0 else "review.add"
            details = {f"field {each}": each for each in range(number % 6)}
            audit.record(connection, found[number % 2], action, f"thing {number % 4}", details)
        assert found[0].user_id is not None
        _, text = tokens.add(connection, user_id=found[0].user_id, name="t", scopes=Scope)
    return lambda path: site.get(path, headers={"Authorization": f"Bearer {text}"})


def test_the_log_is_filtered_walked_and_read_as_data(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(ask("/audit.json").json["events"]) == 60
    monkeypatch.setattr("app.web.request_context.TABLE_ROWS", 50)
    every = ask("/audit.json").json["events"]
    assert len(every) == 50
    rest = ask(f"/audit.json?older_than={every[-1]['audit_event_id']}").json["events"]
    assert len(every) + len(rest) == 60
    assert (
        ask("/audit.json?sort=created_at").json["events"]
        == [*reversed(rest), *reversed(every)][:50]
    )
    for query, number in (
        ("user=ada", 30),
        ("user=nobody", 0),
        ("action=export", 20),
        ("action=review.add", 40),
        ("action=rev", 0),
        ("subject=thing 1", 15),
        ("user=ada&action=export&subject=thing 0", 5),
    ):
        assert len(ask(f"/audit.json?{query}").json["events"]) == number, query
    shown = ask("/audit?user=ben").text
    assert "30 rows in all" in shown
    assert "<summary>5 fields</summary>" in shown
    assert "No event matches" in ask("/audit?user=nobody").text
    assert ask("/audit?before=x").status_code == 400


def test_users_are_ordered_and_their_data_hold_no_secret(ask: Ask) -> None:
    listed = ask("/users.json?sort=-role").json["users"]
    assert [(row["name"], row["role"]) for row in listed] == [("ben", "viewer"), ("ada", "admin")]
    assert (
        "secret-hash" not in ask("/users.json").text + ask("/users.csv").text + ask("/users").text
    )
    assert ask("/users?sort=created_at").text.count('aria-sort="ascending"') == 1


def test_the_lists_are_for_administrators(ask: Ask, site: FlaskClient) -> None:
    for path in ("/users", "/users.json", "/audit", "/audit.csv"):
        assert site.get(path).status_code in (302, 401), path
