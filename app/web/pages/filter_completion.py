"""BROWSE: completion of filters, wherever one is written."""

from __future__ import annotations

import flask
from werkzeug.exceptions import BadRequest

from app.detectors import DETECTORS
from app.domain import filter_completion
from app.domain.filter_tokens import MAX_LENGTH
from app.store.browse import field_values
from app.web import explained_findings, request_context
from app.web.identity import requires
from app.web.query_parameters import reads

blueprint = flask.Blueprint("filters", __name__)

MOST = 12
"""Options of one answer."""


@blueprint.get("/filters/complete")
@requires("read")
@reads("text", "at")
def complete() -> flask.Response:
    """JSON: `start`, and `options` with `text` and `doc`, for `text` with the cursor
    behind `at` characters.
    """
    text, at = flask.request.args.get("text", ""), request_context.number_argument("at")
    if len(text) > MAX_LENGTH or "\0" in text or at is None or at > len(text):
        raise BadRequest(
            f"text, at: expected at most {MAX_LENGTH} characters and a place in them, got"
            f" {len(text)} and {at}"
        )
    found = filter_completion.complete(text, at)
    options = [{"text": option.text, "doc": option.doc} for option in found.options]
    if found.values_of == "finding":
        options += _detectors(found.prefix.lower())
    elif found.values_of:
        with request_context.database().snapshot() as connection:
            values = field_values.beginning(connection, found.values_of, found.prefix, MOST)
        options = [
            {"text": filter_completion.spelt(value), "doc": ""} for value in values
        ] + options
    return flask.jsonify(start=found.start, options=options[:MOST])


def _detectors(wanted: str) -> list[dict[str, str]]:
    titles = explained_findings.titles()
    return [
        {"text": name, "doc": titles.get(name, "")} for name in sorted(DETECTORS) if wanted in name
    ]
