"""Refusals that a person reads: forms of an ended session, which are shown to be sent again, and
missing roles.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient
from werkzeug.security import generate_password_hash

from app.domain.user import Role
from app.settings import Settings
from app.store.postgres.database import Database
from app.store.user import users
from app.web.identity import authentication
from tests.integration.web_app import opened

PASSWORD = "correct horse battery staple"
STORED = generate_password_hash(PASSWORD, "scrypt:1024:8:1")
HIDDEN = r'<input type="hidden" name="(\w+)" value="([^"]*)">'


@pytest.fixture
def site(
    settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FlaskClient]:
    monkeypatch.setattr(authentication, "LOOK_S", 0.0)
    with database.begin() as connection:
        users.add(connection, name="ada", role=Role.ADMIN, password_hash=STORED)
    with opened(settings) as app:
        yield app.test_client()


def log_in(site: FlaskClient, name: str = "ada") -> None:
    hidden = dict(re.findall(HIDDEN, site.get("/login").text))
    answer = site.post("/login", data=hidden | {"name": name, "password": PASSWORD})
    assert answer.status_code == 302


def test_a_person_is_told_which_roles_may(site: FlaskClient, database: Database) -> None:
    with database.begin() as connection:
        users.add(connection, name="vic", role=Role.VIEWER, password_hash=STORED)
    log_in(site, "vic")
    refused = site.get("/admin", headers={"Accept": "text/html"})
    assert refused.status_code == 403
    assert "needs the role operator or admin. You are logged in as vic, viewer." in refused.text


def test_a_form_of_an_ended_session_is_shown_and_sent_again(site: FlaskClient) -> None:
    page = {"Accept": "text/html", "Origin": "http://localhost"}
    wrote = {"csrf_token": "of an ended session", "name": "bea <b>", "role": "viewer"}
    ended = site.post("/users", data=wrote, headers=page)
    assert ended.status_code == 401
    assert "You are logged out" in ended.text
    assert "Your request" in ended.text
    assert "bea &lt;b&gt;" in ended.text
    log_in(site)
    refused = site.post("/users", data=wrote, headers=page)
    assert refused.status_code == 403
    again = re.findall(HIDDEN, refused.text)
    assert [name for name, _ in again] == ["csrf_token", "name", "role"]
    sent = {name: html.unescape(value) for name, value in again}
    assert sent["name"] == wrote["name"]
    assert site.post("/users", data=sent | {"name": "bea"}, headers=page).status_code == 200


@pytest.mark.parametrize(
    ("headers", "wrote"),
    [
        ({"Origin": "https://evil.example"}, {"name": "bea"}),
        ({"Sec-Fetch-Site": "cross-site"}, {"name": "bea"}),
        ({}, {"name": "bea"}),
        ({"Origin": "http://localhost"}, {"name": "bea", "new": PASSWORD}),
    ],
)
def test_a_refused_form_is_not_shown_to_others_nor_with_a_password(
    site: FlaskClient, headers: dict[str, str], wrote: dict[str, str]
) -> None:
    log_in(site)
    refused = site.post("/users", data=wrote, headers={"Accept": "text/html", **headers})
    assert refused.status_code == 403
    assert "Your request" not in refused.text
