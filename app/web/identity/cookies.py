"""BROWSE: the cookies of logins and of forms, as strict as the connection allows.

Where they are kept off plain HTTP, their names begin with `__Host-`: a browser takes such a cookie
from this host alone.  A site below the same domain cannot put a login of its own in the place of a
reader's then, so that the reader would act under another name.
"""

from __future__ import annotations

from typing import Literal

import flask
from werkzeug.wrappers import Response

from app.web import request_context

SESSION = "assay_session"
FORM = "assay_form"
"""Stands in for the session where there is none: the login form, a machine without users."""


def read(cookie: str) -> str | None:
    """The secret that the browser sent; None or empty where it sent none."""
    return flask.request.cookies.get(name(cookie))


def write(
    response: flask.Response | Response,
    cookie: str,
    secret: str,
    *,
    samesite: Literal["Lax", "Strict"],
    max_age_s: int | None = None,
) -> None:
    """Have the browser keep the secret from scripts and, where TLS is used, off plain HTTP."""
    response.set_cookie(
        name(cookie),
        secret,
        max_age=max_age_s,
        httponly=True,
        samesite=samesite,
        secure=_is_secure(),
    )


def delete(response: flask.Response | Response, cookie: str) -> None:
    """Have the browser forget the secret."""
    response.delete_cookie(name(cookie), httponly=True, secure=_is_secure())


def name(cookie: str) -> str:
    """Name of the cookie over this connection."""
    return f"__Host-{cookie}" if _is_secure() else cookie


def _is_secure() -> bool:
    """Return whether cookies can be kept off plain HTTP."""
    return flask.request.is_secure or request_context.settings().web_url.startswith("https:")
