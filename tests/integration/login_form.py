"""The login form as a browser fills it in, and a password whose hash is cheap."""

from __future__ import annotations

import re

from flask.testing import FlaskClient
from werkzeug.security import generate_password_hash
from werkzeug.test import TestResponse

from app.web.identity import cookies

PASSWORD = "correct horse battery staple"
CHEAP = "scrypt:1024:8:1"
STORED = generate_password_hash(PASSWORD, CHEAP)


def csrf(site: FlaskClient, path: str = "/login") -> str:
    found = re.search(r'name="csrf_token" value="([0-9a-f]{64})"', site.get(path).text)
    assert found, path
    return found[1]


def log_in(
    site: FlaskClient, name: str = "ada", password: str = PASSWORD, **form: str
) -> TestResponse:
    site.delete_cookie(cookies.SESSION)
    return site.post(
        "/login", data={"name": name, "password": password, "csrf_token": csrf(site), **form}
    )
