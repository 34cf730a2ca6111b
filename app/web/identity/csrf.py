"""BROWSE: no other site may act with a reader's cookie, or with the rights of a
person at this machine.

A request that may change data (every method but GET, HEAD and OPTIONS) is refused where the
browser says that another site sent it (`Sec-Fetch-Site`, else `Origin`).  A form, and every
request that is admitted by a cookie, needs the token besides: `{{ csrf_field() }}`, or the header
X-CSRF-Token with `csrf_token()`.  Requests with `Authorization` need nothing: no browser adds it
by itself.  Nor does JSON at a machine without users: no browser sends it to another site without
asking that site first, and we never allow it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from urllib.parse import urlsplit

import flask
from markupsafe import Markup
from werkzeug.exceptions import Forbidden

from app.web import request_context
from app.web.identity import authentication, cookies

FIELD = "csrf_token"
HEADER = "X-CSRF-Token"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_SAME = frozenset({"same-origin", "none"})
_FORMS = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})
"""Content types that a form of another site can send."""


class ForgedError(Forbidden):
    """Not sent by one of Assay's pages."""


def install(app: flask.Flask) -> None:
    """Have `app` check every request that changes something; `csrf_field()` and
    `csrf_token()` in every template.
    """
    app.before_request(_check)
    app.after_request(_remember)
    app.jinja_env.globals.update(csrf_field=field, csrf_token=token)


def field() -> Markup:
    """Hidden field with the token, for a form."""
    return Markup('<input type="hidden" name="{}" value="{}">').format(FIELD, token())


def token() -> str:
    """Proof that a form is from this server: derived from a cookie that no other site can read."""
    secret = _secret() or flask.g.get("form_cookie")
    if secret is None:
        secret = flask.g.form_cookie = secrets.token_urlsafe(24)
    return _derived(secret)


def _secret() -> str | None:
    return cookies.read(cookies.SESSION if authentication.by_cookie() else cookies.FORM)


def _check() -> None:
    if flask.request.method in _SAFE or "Authorization" in flask.request.headers:
        return
    _check_sender()
    if not authentication.by_cookie() and flask.request.mimetype not in _FORMS:
        return
    secret = _secret()
    sent = flask.request.headers.get(HEADER)
    if sent is None and flask.request.mimetype in _FORMS:
        sent = flask.request.form.get(FIELD)
    if secret is None and sent is None and "Cookie" not in flask.request.headers:
        raise ForgedError(
            "Expected a form of Assay's pages with their cookie, or of a program Content-Type:"
            f" application/json or Authorization, got none of them ({flask.request.mimetype})."
        )
    if (
        secret is None
        or sent is None
        or not hmac.compare_digest(sent.encode(), _derived(secret).encode())
    ):
        raise ForgedError(
            "The page that this was sent from belongs to another session; nothing was stored."
            f" Load it again. (Expected its field {FIELD} or the header {HEADER}.)"
        )


def is_from_own_page() -> bool:
    """Return whether the browser says that a page of this server sent the request; without TLS
    it names the origin alone.
    """
    site = flask.request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site == "same-origin"
    return urlsplit(flask.request.headers.get("Origin", "")).netloc in _own_hosts()


def _own_hosts() -> set[str]:
    return {flask.request.host, urlsplit(request_context.settings().web_url).netloc}


def _check_sender() -> None:
    site = flask.request.headers.get("Sec-Fetch-Site")
    if site is not None and site not in _SAME:
        raise ForgedError(
            f"expected a request of Assay's pages, got one of another site (Sec-Fetch-Site: {site})"
        )
    origin = flask.request.headers.get("Origin")
    if site is None and origin is not None and urlsplit(origin).netloc not in _own_hosts():
        raise ForgedError(f"expected a request of Assay's pages, got one of {origin}")


def _remember(response: flask.Response) -> flask.Response:
    if (secret := flask.g.get("form_cookie")) is not None:
        cookies.write(response, cookies.FORM, secret, samesite="Strict")
    return response


def _derived(secret: str) -> str:
    return hashlib.sha256(f"form:{secret}".encode()).hexdigest()
