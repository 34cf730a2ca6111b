"""Cookies under TLS: no site of the same domain can put a login of its own in a reader's browser.

Such a site may set any cookie for its whole domain, but none with a name that begins with __Host-.
"""

from __future__ import annotations

from collections.abc import Callable

import flask
import pytest
from flask.testing import FlaskClient

from app.domain.user import Role
from app.store.postgres.database import Database
from app.store.user import users
from app.web.identity import cookies
from tests.integration.login_form import PASSWORD, STORED

SITE = "https://assay.example"
Made = Callable[..., flask.Flask]


@pytest.fixture
def site(made: Made, database: Database) -> FlaskClient:
    with database.begin() as connection:
        users.add(connection, name="ada", role=Role.ADMIN, password_hash=STORED)
    return made(web_url=SITE).test_client()


def csrf(site: FlaskClient, path: str) -> str:
    found = site.get(path, base_url=SITE).text.partition('name="csrf_token" value="')[2]
    return found.partition('"')[0]


def log_in(site: FlaskClient) -> str:
    """The header that sets the cookie of the login."""
    form = {"name": "ada", "password": PASSWORD, "csrf_token": csrf(site, "/login")}
    headers = site.post("/login", data=form, base_url=SITE).headers
    [kept] = [each for each in headers.getlist("Set-Cookie") if cookies.SESSION in each]
    return kept


def test_a_login_is_bound_to_the_host(site: FlaskClient) -> None:
    kept = log_in(site)
    assert kept.startswith(f"__Host-{cookies.SESSION}=")
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=Lax"} <= set(kept.split("; "))
    assert "Domain" not in kept
    assert site.get("/account", base_url=SITE).status_code == 200


def test_a_login_under_the_plain_name_is_none(site: FlaskClient, made: Made) -> None:
    secret = log_in(site).partition("=")[2].partition(";")[0]
    reader = made(web_url=SITE).test_client()
    reader.set_cookie(cookies.SESSION, secret, domain="assay.example")
    assert reader.get("/account", base_url=SITE).status_code == 401


def test_a_logout_takes_the_cookie_away(site: FlaskClient) -> None:
    log_in(site)
    gone = site.post("/logout", data={"csrf_token": csrf(site, "/account")}, base_url=SITE)
    assert "Secure" in gone.headers["Set-Cookie"]
    assert site.get_cookie(f"__Host-{cookies.SESSION}", domain="assay.example") is None
    assert site.get("/account", base_url=SITE).status_code == 401
