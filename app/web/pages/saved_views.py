"""BROWSE: views of lists that were given a name: filter, columns and order."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl
from uuid import UUID

import flask
from werkzeug.exceptions import BadRequest
from werkzeug.wrappers import Response

from app.domain import filter_language
from app.store.filter import saved_filters
from app.store.postgres.database import Connection
from app.web import request_context
from app.web.identity import current_user, requires

blueprint = flask.Blueprint("views", __name__)

LISTS = (
    "candidates.index",
    "runs.index",
    "problems.index",
    "trajectories.index",
    "jobs.index",
    "exports.index",
    "collecting.index",
    "hacks.index",
)
"""Endpoints of lists that have views."""
MOST_CHARACTERS = 8_000
"""Longest query of a view."""


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A view of a list."""

    saved_filter_id: UUID
    name: str
    url: str


@blueprint.post("/views")
@requires("reviewer")
def save() -> Response:
    """Give a view a name."""
    page, name = request_context.form_field("page"), request_context.form_field("name")
    query = flask.request.form.get("query", "")
    if page not in LISTS:
        raise BadRequest(f"page: expected one of {', '.join(LISTS)}, got {page!r}")
    try:
        pairs = parse_qsl(query, strict_parsing=bool(query))
        if len(query) > MOST_CHARACTERS or not query.isprintable() or "%00" in query:
            raise ValueError(
                f"query: expected at most {MOST_CHARACTERS} characters of a URL, got {len(query)}"
            )
        filter_language.parse(dict(pairs).get("where", ""))
        with request_context.database().begin() as connection:
            saved_filters.save(connection, current_user(), name=name, page=page, query=query)
    except ValueError as error:
        raise BadRequest(str(error)) from error
    return flask.redirect(_url(page, query))


@blueprint.post("/views/<uuid:saved_filter_id>/forget")
@requires("reviewer")
def forget(saved_filter_id: UUID) -> Response:
    """Delete a view; leads back to its list."""
    with request_context.database().begin() as connection:
        page = saved_filters.forget(connection, current_user(), saved_filter_id)
    if page is None:
        request_context.missing("view", saved_filter_id)
    return flask.redirect(flask.url_for(page))


def of(connection: Connection, page: str) -> list[Saved]:
    """Views of a list, by name."""
    return [
        Saved(saved_filter_id=each.saved_filter_id, name=each.name, url=_url(each.page, each.query))
        for each in saved_filters.listed(connection, page)
    ]


def _url(page: str, query: str) -> str:
    return flask.url_for(page) + (f"?{query}" if query else "")
