"""BROWSE: errors: a page in the look of the others for people, one JSON shape for programs.

    {"error": {"kind": "not_found", "message": "There is no job …", "details": {}}}

A program is a client that asks under a path of programs, sends a token or JSON, or does not ask for
HTML by name, as every browser does that opens a page.  `details` holds values that a program can
act on: the id to come back for, the seconds to wait.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

import flask
from werkzeug.exceptions import ClientDisconnected, HTTPException, NotFound

from app.store.evaluation.evaluation_json import CodecError
from app.store.postgres.database import DatabaseUnavailableError, DiskFullError, ReadOnlyError
from app.web import body_limits, unsent_forms
from app.web.identity import authentication, csrf
from app.web.job_waiter import StoppingError

RETRY_S = 5
"""Seconds after which to come back after a 503: PostgreSQL restarts faster."""

_OF_PROGRAMS = ("/v1/", "/kernelgym/", "/compat/")
_KEPT = frozenset({"Allow", "Retry-After", "WWW-Authenticate"})


def install(app: flask.Flask) -> None:
    """Register error handlers with `app`."""
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(authentication.LoginRequiredError, _login_required)
    app.register_error_handler(DatabaseUnavailableError, _unavailable)
    app.register_error_handler(CodecError, _unreadable)
    app.register_error_handler(StoppingError, _stopping)


def as_json(status: int, kind: str, message: str, **details: object) -> flask.Response:
    """The shape for programs."""
    response = flask.jsonify(error={"kind": kind, "message": message, "details": details})
    response.status_code = status
    return response


def as_page(
    code: int, name: str, message: str, unsent: unsent_forms.UnsentForm | None = None
) -> flask.Response:
    """The page for people."""
    body = flask.render_template("error.html", code=code, name=name, message=message, unsent=unsent)
    return flask.Response(body, status=code, mimetype="text/html")


def for_programs() -> bool:
    """Return whether the sender of this request reads JSON."""
    accepted = flask.request.accept_mimetypes
    return (
        flask.request.path.startswith(_OF_PROGRAMS)
        or flask.request.path.endswith(".json")
        or "Authorization" in flask.request.headers
        or flask.request.is_json
        or (bool(accepted) and "text/html" not in accepted.values())
        or accepted["application/json"] > accepted["text/html"]
    )


def said(error: Any) -> str:
    """The error of a result in words; empty where there is none."""
    return f"{error['kind']}: {error['message']}" if error else ""


def _answer(
    code: int, name: str, message: str, unsent: unsent_forms.UnsentForm | None = None
) -> flask.Response:
    if for_programs():
        return as_json(code, re.sub(r"[^a-z]+", "_", name.lower()).strip("_"), message)
    return as_page(code, name, message, unsent)


def _http(error: HTTPException) -> flask.Response:
    if error.code is None or error.code < 400:  # a redirect is raised as an exception, too
        return flask.current_app.make_response(error.get_response())
    description = error.description or ""
    if error.code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        description = body_limits.too_large() or description
    if isinstance(error, ClientDisconnected):
        description = (
            "body: expected it whole, got a part: it ended early, stood still, or its chunks cannot"
            " be read"
        )
    unsent = unsent_forms.refused() if isinstance(error, csrf.ForgedError) else None
    if isinstance(error, NotFound) and error.description == NotFound.description:
        description = f"There is no page {flask.request.path}."
    page = _answer(error.code, error.name, description, unsent)
    page.headers.extend(header for header in error.get_headers() if header[0] in _KEPT)
    return page


def _login_required(error: authentication.LoginRequiredError) -> flask.Response:
    """A browser that wants a page is sent to the login, and afterwards back; one that sends a
    form is shown its content.
    """
    by_browser = not for_programs() and bool(flask.request.accept_mimetypes["text/html"])
    if by_browser and flask.request.method == "POST":
        return _answer(
            401,
            "You are logged out",
            "The session has ended, and nothing was stored.",
            unsent_forms.refused(),
        )
    if by_browser and flask.request.method == "GET":
        wanted = flask.request.full_path.rstrip("?")
        return flask.current_app.make_response(
            flask.redirect(flask.url_for("account.login", next=wanted))
        )
    answer = as_json(401, "unauthorized", error.description or "")
    answer.headers.extend(header for header in error.get_headers() if header[0] in _KEPT)
    return answer


def _unavailable(error: DatabaseUnavailableError) -> flask.Response:
    flask.current_app.logger.error(
        "%s", error
    )  # the answer does not tell strangers where the database is
    if isinstance(error, DiskFullError):
        name, found = "The database's disk is full", "PostgreSQL has no room left on its disk"
    elif isinstance(error, ReadOnlyError):
        name, found = "The database is read-only", "PostgreSQL takes no writes now"
    else:
        name, found = "The database is not reachable", "PostgreSQL does not answer"
    if for_programs():
        page = as_json(503, "unavailable", f"{found}: the same request may work later")
    else:
        page = _answer(503, name, f"{found}. Nothing is lost: try again soon.")
    page.headers["Retry-After"] = str(RETRY_S)
    return page


def _stopping(error: StoppingError) -> flask.Response:
    """Answer a client that waited for a job: it goes on, and the same request finds it again."""
    page = as_json(
        503,
        "stopping",
        f"{error}: the job goes on, send the same request again",
        retry_after_s=RETRY_S,
    )
    page.headers["Retry-After"] = str(RETRY_S)
    return page


def _unreadable(error: CodecError) -> flask.Response:
    flask.current_app.logger.error("%s", error)
    return _answer(
        500,
        "A stored record cannot be read",
        f"It was stored by a version that this one does not know: {error}",
    )
