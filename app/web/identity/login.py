"""BROWSE: logging in and out, and one's own account: password and tokens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import flask
from werkzeug.wrappers import Response

from app import passwords
from app.domain.user import SCOPES, Scope
from app.store.postgres.database import Connection
from app.store.user import audit, logins, tokens, users
from app.web import request_context
from app.web.identity import authentication, cookies, login_attempts
from app.web.query_parameters import reads

blueprint = flask.Blueprint("account", __name__)

DAYS = (7, 30, 90, 365)
"""For how long a token may be good; the form offers no end as well."""
_NOT_THE_OLD = "The old password is another one."


@blueprint.get("/login")
@authentication.public
@reads("next")
def login() -> str | Response:
    """The form; at a machine without users there is nothing to log in to."""
    if flask.g.user is not None:
        return flask.redirect(_next())
    return flask.render_template("login.html", name="", next=_next(), error=None)


@blueprint.post("/login")
@authentication.public
@reads("next")
def log_in() -> Response | tuple[str, int]:
    """Begin a session for a user who knows the password.  Says the same for a wrong name
    and a wrong password, as late.
    """
    name, password = (
        flask.request.form.get("name", "").strip(),
        flask.request.form.get("password", ""),
    )
    account = login_attempts.checked(name, password, failure="login.fail")
    secret = None
    if account is not None:
        with request_context.database().begin() as connection:
            if users.hold(connection, account):
                secret = _opened(connection, account.user_id)
    if secret is None:
        said = "Wrong name or password."
        return flask.render_template("login.html", name=name, next=_next(), error=said), 401
    return _with_cookie(flask.redirect(_next()), secret)


@blueprint.post("/logout")
@authentication.by_session
def log_out() -> Response:
    """End this session."""
    response = flask.redirect(flask.url_for("account.login"))
    if secret := cookies.read(cookies.SESSION):
        with request_context.database().begin() as connection:
            logins.close(connection, secret)
        cookies.delete(response, cookies.SESSION)
    return response


@blueprint.get("/account")
@authentication.requires(Scope.READ)
def page() -> str:
    """The page of one's own account: role, rights and tokens."""
    return _page()


@blueprint.post("/account/password")
@authentication.by_session
def change_password() -> Response | tuple[str, int]:
    """Another password.  Every other session ends.  Guesses of the old one count as
    failed logins.
    """
    user = authentication.current_user()
    if user.user_id is None:
        return _page(error="Passwords belong to users; there are none yet."), 400
    account = login_attempts.checked(
        user.name, flask.request.form.get("old", ""), failure="user.password_fail"
    )
    if account is None:
        return _page(error=_NOT_THE_OLD), 400
    try:
        stored = passwords.hashed(flask.request.form.get("new", ""), name=user.name)
    except passwords.PasswordError as error:
        return _page(error=str(error)), 400
    with request_context.database().begin() as connection:
        if not users.hold(connection, account):
            return _page(error=_NOT_THE_OLD), 400
        users.set_password(connection, account.user_id, stored)
        audit.record(connection, user, "user.password", f"user {user.name}")
        secret = _opened(connection, account.user_id)
    return _with_cookie(flask.redirect(flask.url_for("account.page")), secret)


@blueprint.post("/account/tokens")
@authentication.by_session
def add_token() -> Response | tuple[str, int]:
    """A new token, shown once on the page that answers."""
    user = authentication.current_user()
    form = flask.request.form
    if user.user_id is None:
        return _page(error="Tokens belong to users who are logged in."), 400
    chosen = [scope for scope in Scope if scope in form.getlist("scope") and scope in user.scopes]
    days = form.get("days", "")
    until = datetime.now(UTC) + timedelta(days=int(days)) if days in map(str, DAYS) else None
    name = form.get("name", "").strip()
    try:
        with request_context.database().begin() as connection:
            token_id, text = tokens.add(
                connection, user_id=user.user_id, name=name, scopes=chosen, expires_at=until
            )
            details = {"user": user.name, "name": name, "scopes": [str(scope) for scope in chosen]}
            audit.record(connection, user, "token.add", f"token {token_id}", details)
    except tokens.TokenError as error:
        return _page(error=str(error)), 400
    return _once(_page(new_token=text))


@blueprint.post("/account/tokens/<uuid:token_id>/revoke")
@authentication.by_session
def revoke_token(token_id: UUID) -> Response:
    """Make one of my tokens useless."""
    user = authentication.current_user()
    with request_context.database().begin() as connection:
        if user.user_id is None or not tokens.revoke(connection, token_id, user_id=user.user_id):
            request_context.missing("token of yours that could be revoked", token_id)
        audit.record(connection, user, "token.revoke", f"token {token_id}")
    return flask.redirect(flask.url_for("account.page"))


def _page(*, error: str | None = None, new_token: str | None = None) -> str:
    user = authentication.current_user()
    listed: list[tokens.Token] = []
    if user.user_id is not None:
        with request_context.database().snapshot() as connection:
            listed = tokens.listed(connection, user.user_id)
    return flask.render_template(
        "account.html",
        member=user,
        scopes=sorted(SCOPES[user.role]),
        tokens=listed,
        days=DAYS,
        least_characters=passwords.LEAST_CHARACTERS,
        error=error,
        new_token=new_token,
    )


def _once(page: str) -> Response:
    """A page with a secret, which no cache keeps."""
    response = flask.make_response(page)
    response.headers["Cache-Control"] = "no-store"
    return response


def _opened(connection: Connection, user_id: UUID) -> str:
    """A session in place of the one that the browser had."""
    if old := cookies.read(cookies.SESSION):
        logins.close(connection, old)
    return logins.open_(connection, user_id)


def _with_cookie(response: Response, secret: str) -> Response:
    # Lax: a link from elsewhere may lead to a page; nothing is changed by following one.
    cookies.write(response, cookies.SESSION, secret, samesite="Lax", max_age_s=logins.SESSION_S)
    return response


def _next() -> str:
    """Path to go to after login: one of this server's own, never another site."""
    asked = flask.request.values.get("next", "")
    is_own = (
        asked.startswith("/")
        and not asked.startswith(("//", "/\\"))
        and asked.isprintable()
        and "\\" not in asked
    )
    return asked if is_own else flask.url_for("overview.page")
