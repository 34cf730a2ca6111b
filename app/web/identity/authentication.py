"""BROWSE: from a request to a user, before any view runs.

The right that a view needs is written at the view: `@public`, `@requires(…)`, or `@by_session`.  A
view without one needs the scope `read`, so that a forgotten line opens nothing; a test lists these
views.  Every GET that is not public needs `read` besides the right it names.

The user of a request, in this order: a token (`Authorization: Bearer …`, or `Basic` with the token
as the password, for programs that can only be given a URL), a session (cookie), and, while there
are no users, nothing at all for a person at this machine.
That last one holds only for a connection from the loopback address that asks for this machine by
name: a page that a browser here was lured to, under a name that an attacker pointed at 127.0.0.1,
gets nothing.  Nor does a request that a reverse proxy on this machine passed on, which arrives from
the loopback address, too: one with a header that proxies add, or in HTTP/1.0, which nginx speaks to
its upstream unless told otherwise.  A proxy that adds no header and speaks HTTP/1.1 cannot be told
from a program of this machine: add a user before one is put in front.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import flask
from werkzeug.exceptions import Forbidden, Unauthorized

from app.domain.user import LOCAL, SCOPES, Role, Scope, User
from app.store.user import logins, tokens, users
from app.web import request_context
from app.web.identity import addresses, cookies

ASKS_NOBODY = ("static", "health.live", "health.check")
"""Endpoints that are answered without a look into the database: the last says
whether there is one.
"""
LOOK_S = 1.0
"""While there are no users, how often to look for the first one, in seconds."""
TOKEN_S = 2.0
"""A token that was good stays good for this long, in seconds: a trainer sends
hundreds of requests a second.
"""
TOKENS_KEPT = 1_000
"""Tokens remembered as good; past it the memory is emptied."""
FORWARDED = (
    "Forwarded",
    "Via",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Real-IP",
)
"""Headers that a proxy adds."""

P = ParamSpec("P")
R = TypeVar("R")


class LoginRequiredError(Unauthorized):
    """Answer a request without a login: a browser is sent to the login page, a
    program is told the way.
    """

    description = "expected `Authorization: Bearer <token>` or a session of /login, got neither"

    def get_headers(self, *given: Any) -> list[tuple[str, str]]:
        """With the scheme; the realm is quoted, which werkzeug's own header omits
        (RFC 9110 §11.5).
        """
        return [*super().get_headers(*given), ("WWW-Authenticate", 'Bearer realm="assay"')]


NO_USERS = (
    "this server has no users yet and answers its own machine alone, under its own name and without"
    " a proxy between: add a user with `assay user add NAME --role admin`, then log in or send a"
    " token"
)
"""Answer to a request without a login that comes from elsewhere before there is a user."""


def install(app: flask.Flask) -> None:
    """Authenticate every request at its beginning."""
    app.extensions["assay.identity"] = {"users_at": None, "empty_until": 0.0, "tokens": {}}
    app.before_request(_admit)
    app.context_processor(lambda: {"user": flask.g.get("user")})


def public(view: Callable[P, R]) -> Callable[P, R]:
    """A view without login."""
    view.assay_public = True  # type: ignore[attr-defined]
    return view


def requires(needed: Role | Scope | str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A view for users with the scope, or with every right of the role: else 403."""
    wanted = Role(needed) if needed in set(Role) else Scope(needed)

    def decorate(view: Callable[P, R]) -> Callable[P, R]:
        @wraps(view)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            _check_may(wanted)
            return view(*args, **kwargs)

        guarded.assay_wants = wanted  # type: ignore[attr-defined]
        return guarded

    return decorate


def by_session(view: Callable[P, R]) -> Callable[P, R]:
    """A view for any logged-in user, about their own account: no token is good for
    it, with any scopes.
    """

    @wraps(view)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        if current_user().user_id is not None and not by_cookie():
            raise Forbidden(
                "expected a session of /login, got a token: an account is changed by its owner"
                " alone"
            )
        return view(*args, **kwargs)

    guarded.assay_wants = "session"  # type: ignore[attr-defined]
    return guarded


def wants(view: Callable[..., object]) -> str | None:
    """Requirement declared by a view: `public`, `session`, a scope or a role; None
    where none is declared.
    """
    if getattr(view, "assay_public", False):
        return "public"
    wanted = getattr(view, "assay_wants", None)
    return None if wanted is None else str(wanted)


def _check_may(wanted: Role | Scope) -> None:
    user = current_user()
    if not user.may(wanted):
        raise Forbidden(_refusal(user, wanted))


def _refusal(user: User, wanted: Role | Scope) -> str:
    """The reason for a person in terms of roles, for a program in terms of its token's scopes."""
    if by_cookie():
        needed = SCOPES[wanted] if isinstance(wanted, Role) else {wanted}
        roles = [role.value for role, scopes in SCOPES.items() if needed <= scopes]
        return (
            f"This needs the role {' or '.join(roles)}. You are logged in as {user.name},"
            f" {user.role}."
        )
    return (
        f"expected the {'role' if isinstance(wanted, Role) else 'scope'} {wanted.value!r}, "
        f"got {user.name} ({user.role}: {', '.join(sorted(user.scopes))})"
    )


def current_user() -> User:
    """The user of this request.  Only for views that are not `public`."""
    found = flask.g.get("user")
    if found is None:
        raise LoginRequiredError
    assert isinstance(found, User)
    return found


def by_cookie() -> bool:
    """Return whether the request identifies itself with a cookie, which a browser
    sends for any page's request.
    """
    return bool(flask.g.get("by_cookie", False))


def has_no_users() -> bool:
    """Return whether there are no users.  Once there is one, there always is: users
    are never deleted.
    """
    state = flask.current_app.extensions["assay.identity"]
    now = time.monotonic()
    if state["users_at"] is None and now >= state["empty_until"]:
        with request_context.database().read() as connection:
            if users.exist(connection):
                state["users_at"] = now
        state["empty_until"] = now + LOOK_S
    return state["users_at"] is None


def _admit() -> None:
    flask.g.user = _asker()
    endpoint = flask.request.endpoint
    if endpoint is None or endpoint in ASKS_NOBODY:
        return
    wanted = wants(flask.current_app.view_functions[endpoint])
    if wanted == "public":
        return
    if flask.g.user is None and has_no_users():
        raise LoginRequiredError(NO_USERS)
    current_user()
    if wanted is None or flask.request.method in ("GET", "HEAD"):
        _check_may(Scope.READ)


def _asker() -> User | None:
    if flask.request.endpoint in ASKS_NOBODY:
        return None
    if flask.request.authorization is not None or "Authorization" in flask.request.headers:
        return _by_token()
    if secret := cookies.read(cookies.SESSION):
        with request_context.database().read() as connection:
            user = logins.user_of(connection, secret)
        if user is not None:
            flask.g.by_cookie = True
            return user
    return LOCAL if _at_this_machine() and has_no_users() else None


def _by_token() -> User:
    """A token that is no good is an error also where none is needed: its sender
    believes to be identified.
    """
    sent = flask.request.authorization
    text = (sent.token if sent.type == "bearer" else sent.password) if sent else None
    kept: dict[str, tuple[float, User]] = flask.current_app.extensions["assay.identity"]["tokens"]
    now = time.monotonic()
    if not text:
        raise LoginRequiredError("Authorization: expected `Bearer TOKEN`, got no token")
    if text in kept and kept[text][0] > now:
        return kept[text][1]
    with request_context.database().begin() as connection:
        user = tokens.user_of(connection, text)
    if user is None:
        raise LoginRequiredError(
            "the token is unknown, revoked or expired, or its user is disabled"
        )
    if len(kept) >= TOKENS_KEPT:
        kept.clear()
    kept[text] = (now + TOKEN_S, user)
    return user


def _at_this_machine() -> bool:
    """Return whether the connection is from here, and the name that was asked for is
    one of this machine's own.
    """
    host = addresses.host_of(flask.request.host)
    ours = addresses.is_loopback(host) or host == addresses.host_of(
        request_context.settings().web_url
    )
    return ours and addresses.is_loopback(flask.request.remote_addr or "") and not _passed_on()


def _passed_on() -> bool:
    """Return whether a reverse proxy sent it that the settings do not know: a trusted
    one names the request's sender.
    """
    if request_context.settings().trusted_proxies:
        return False
    headers = flask.request.headers
    return (
        any(name in headers for name in FORWARDED)
        or flask.request.environ.get("SERVER_PROTOCOL") == "HTTP/1.0"
    )
