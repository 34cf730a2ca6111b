"""BROWSE: collections: progress and spending, live; the tree of a rollout; one call
as it was sent.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import flask
from werkzeug.exceptions import Conflict, NotFound
from werkzeug.wrappers import Response

from app.collect import control, health, report
from app.domain.request import ConflictError, MissingError
from app.domain.user import Scope
from app.store.browse import collecting, paging
from app.store.collection import lifecycle
from app.web import (
    conversation,
    live_updates,
    request_context,
    specification_view,
    table_export,
)
from app.web.charts import attempt_tree
from app.web.identity import current_user, requires
from app.web.pages import saved_views
from app.web.table_view import Column, Listing

MEASURABLE_S = 0.05
"""Seconds between the first and the last token from which on their number a second
says something.
"""
ROLLOUTS = 200
"""Rollouts listed on a collection's page."""

blueprint = flask.Blueprint("collecting", __name__)


LISTED = 200
"""Latest collections that the list shows."""
LISTING = Listing(
    endpoint="collecting.index",
    table="collecting.table",
    sort="",
    columns=(
        Column(name="name", heading="Name", is_long=True, sorts=True, is_head=True),
        Column(name="state", heading="State", sorts=True),
        Column(name="strategy", heading="Strategy"),
        Column(name="endpoints", heading="Endpoints", is_long=True),
        Column(name="rollouts", heading="Rollouts", sorts=True, is_number=True),
        Column(name="calls", heading="Calls", sorts=True, is_number=True),
        Column(name="tokens", heading="Tokens", sorts=True, is_number=True),
        Column(name="usd", heading="US dollars", sorts=True, is_number=True),
    ),
)


@blueprint.get("/collections")
@requires("read")
@LISTING.reads()
def index() -> str:
    """Collections, newest first or in another order."""
    view = LISTING.view()
    with request_context.database().snapshot() as connection:
        found = report.listed(connection, limit=LISTED)
        saved = saved_views.of(connection, LISTING.endpoint)
    total = paging.Total(number=len(found), is_exact=len(found) < LISTED)
    return flask.render_template(
        "collections.html", view=view, saved=saved, total=total, found=view.arranged(found, _value)
    )


@blueprint.get("/collections.<any(json,csv):kind>")
@requires("read")
@LISTING.reads()
def table(kind: str) -> flask.Response:
    """The same collections as data."""
    view = LISTING.view()
    with request_context.database().snapshot() as connection:
        found = view.arranged(report.listed(connection, limit=LISTED), _value)
    return table_export.answer(kind, "collections", found)


def _value(row: dict[str, Any], column: str) -> Any:
    return row["spent"][column] if column in ("calls", "tokens", "usd") else row[column]


@blueprint.get("/endpoints")
@requires("read")
def endpoints() -> str:
    """Endpoints: their models, workers, limits and the findings of their last probes."""
    with request_context.database().snapshot() as connection:
        found = health.look(connection, request_context.settings().broker_url)
    return flask.render_template("endpoints.html", found=found)


@blueprint.get("/collections/<uuid:collection_id>")
@requires("read")
def page(collection_id: UUID) -> str:
    """One collection, live."""
    collection = request_context.found("collection", collection_id, lifecycle.get)
    spec = collection.spec.as_json()
    return flask.render_template(
        "collection.html",
        collection=collection,
        parts=specification_view.parts(spec),
        spec_json=json.dumps(spec, indent=2),
        **_part.shown(collection_id),
    )


@blueprint.post("/collections/<uuid:collection_id>/<any(pause,resume,stop):action>")
@requires(Scope.SUBMIT)
def change(collection_id: UUID, action: str) -> Response:
    """Pause, resume or stop; 409 where its state does not allow it."""
    name = str(collection_id)
    try:
        control.change(
            request_context.database(), request_context.broker(), name, action, current_user().name
        )
    except MissingError as error:
        raise NotFound(str(error)) from error
    except ConflictError as error:
        raise Conflict(str(error)) from error
    return flask.redirect(flask.url_for("collecting.page", collection_id=collection_id), 303)


@blueprint.get("/rollouts/<uuid:rollout_id>")
@requires("read")
def rollout(rollout_id: UUID) -> str:
    """The tree of one rollout."""
    found = request_context.found("rollout", rollout_id, collecting.rollout)
    return flask.render_template(
        "rollout.html",
        rollout=found,
        tree=attempt_tree.tree(found.attempts, found.picked),
        ids={each["key"]: each["node_id"] for each in found.attempts},
    )


@blueprint.get("/attempts/<uuid:node_id>")
@requires("read")
def attempt(node_id: UUID) -> str:
    """One attempt: every try of its call, request and response exactly."""
    found = request_context.found("attempt", node_id, collecting.attempt)
    return flask.render_template(
        "attempt.html",
        attempt=found,
        sent=[
            conversation.message(f"sent-{place}", each.role, each.content)
            for place, each in enumerate(found.sent)
        ],
        answers={
            call["claim"]: _answer(call) for call in found.calls if call["answer"] is not None
        },
        pace={call["claim"]: _pace(call) for call in found.calls},
    )


def _answer(call: dict[str, Any]) -> conversation.Entry:
    """The answer rendered; reasoning that came apart from it is before it."""
    apart = "" if call["reasoning"] is None else f"<think>{call['reasoning']}</think>\n"
    return conversation.message(f"answer-{call['claim']}", "assistant", apart + call["answer"])


def _pace(call: dict[str, Any]) -> dict[str, float | None]:
    """Seconds to the first token and to the last, and tokens a second between them."""
    sent, first, last = call["sent_at"], call["first_token_at"], call["last_at"]
    seconds = (last - first).total_seconds() if first and last else 0.0
    tokens = call["output_tokens"] if seconds > MEASURABLE_S else None
    return {
        "first_s": (first - sent).total_seconds() if sent and first else None,
        "all_s": (last - sent).total_seconds() if sent and last else None,
        "tokens_a_second": tokens / seconds if tokens else None,
    }


@live_updates.live_part(blueprint, "/collections/<uuid:collection_id>/live", "jobs", "evaluations")
def _part(collection_id: UUID) -> str:
    try:
        with request_context.database().snapshot() as connection:
            told = report.summary(connection, str(collection_id))
            rollouts = collecting.rollouts(connection, collection_id, limit=ROLLOUTS)
            asked = health.look(
                connection, request_context.settings().broker_url, told["endpoints"]
            )
    except MissingError as error:
        raise NotFound(str(error)) from error
    actions: dict[str, list[str]] = {"running": ["pause", "stop"], "paused": ["resume", "stop"]}
    shown: list[Any] = actions.get(told["state"], []) if current_user().may(Scope.SUBMIT) else []
    return flask.render_template(
        "_collection.html",
        told=told,
        bounds=report.bounds(told),
        rollouts=rollouts,
        actions=shown,
        asked=asked,
    )
