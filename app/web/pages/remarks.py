"""BROWSE: comments and tags: adding and removing them, and a page of the latest with filters."""

from __future__ import annotations

from uuid import UUID

import flask
from werkzeug.exceptions import BadRequest, NotFound
from werkzeug.wrappers import Response

from app.domain.remark import AnnotationError, AnnotationTarget
from app.domain.user import Scope
from app.store.browse import evaluation
from app.store.review import remarks
from app.web import request_context, table_export
from app.web.identity import current_user, requires
from app.web.query_parameters import reads

blueprint = flask.Blueprint("remarks", __name__)

ARGUMENTS = ("on", "author", "text", "tag")
"""Query parameters that select comments and tags."""


@blueprint.get("/notes")
@requires("read")
@reads(*ARGUMENTS)
def index() -> str:
    """The latest comments and tags, by kind, author, text and tag."""
    asked = _asked()
    with request_context.database().snapshot() as connection:
        comments = remarks.latest_comments(
            connection, kind=asked["on"], author=asked["author"], text=asked["text"]
        )
        tagged = remarks.latest_tagged(connection, kind=asked["on"], tag=asked["tag"])
        counts = remarks.tag_counts(connection)
        names: dict[UUID, str] = {}
        for kind in AnnotationTarget:
            listed = [each.subject_id for each in comments if each.kind == kind]
            listed += [each.subject_id for each in tagged if each.kind == kind]
            names |= remarks.names(connection, kind, listed)
    return flask.render_template(
        "remarks.html",
        comments=[] if asked["tag"] else comments,
        tagged=[] if asked["author"] or asked["text"] else tagged,
        counts=counts,
        names=names,
        kinds=list(AnnotationTarget),
        asked=asked,
        links=table_export.links(
            "remarks.table", **{name: value for name, value in asked.items() if value}
        ),
    )


@blueprint.get("/notes.<any(json,csv):kind>")
@requires("read")
@reads(*ARGUMENTS)
def table(kind: str) -> flask.Response:
    """The comments as data; with a tag, the things that have it, as on the page."""
    asked = _asked()
    with request_context.database().snapshot() as connection:
        if asked["tag"]:
            tagged = remarks.latest_tagged(connection, kind=asked["on"], tag=asked["tag"])
            return table_export.answer(kind, "tagged", tagged)
        found = remarks.latest_comments(
            connection, kind=asked["on"], author=asked["author"], text=asked["text"], limit=5_000
        )
    return table_export.answer(kind, "comments", found)


def _asked() -> dict[str, str]:
    asked = {name: request_context.argument(name) for name in ARGUMENTS}
    request_context.choice_argument("on", AnnotationTarget)
    return asked


@blueprint.get("/notes/<any(run,problem,trajectory,candidate):on>/<uuid:subject_id>")
@requires("read")
def subject(on: str, subject_id: UUID) -> Response:
    """The page of a thing that comments are on."""
    return flask.redirect(_page_of(AnnotationTarget(on), subject_id))


@blueprint.post("/notes/<any(run,problem,trajectory,candidate):on>/<uuid:subject_id>")
@requires(Scope.REVIEW)
def change(on: str, subject_id: UUID) -> Response:
    """Add a comment or a tag, or remove a tag; back to the page of the thing."""
    form, user, kind = flask.request.form, current_user(), AnnotationTarget(on)
    try:
        with request_context.database().begin() as connection:
            if not remarks.exists(connection, kind, subject_id):
                request_context.missing(on, subject_id)
            if tag := request_context.form_field("remove"):
                remarks.remove_tag(connection, user, kind, subject_id, tag)
            elif form.get("tag"):
                remarks.add_tag(connection, user, kind, subject_id, form["tag"])
            else:
                remarks.add_comment(connection, user, kind, subject_id, form.get("comment", ""))
    except AnnotationError as error:
        raise BadRequest(str(error)) from error
    return flask.redirect(f"{_page_of(kind, subject_id)}#notes")


@blueprint.post("/notes/comments/<uuid:comment_id>/delete")
@requires(Scope.REVIEW)
def delete(comment_id: UUID) -> Response:
    """Delete a comment of one's own."""
    with request_context.database().begin() as connection:
        gone = remarks.delete_comment(connection, current_user(), comment_id)
    if gone is None:
        raise NotFound(f"There is no comment {comment_id} of yours.")
    return flask.redirect(f"{_page_of(AnnotationTarget(gone.kind), gone.subject_id)}#notes")


def _page_of(kind: AnnotationTarget, subject_id: UUID) -> str:
    if kind is AnnotationTarget.RUN:
        return flask.url_for("runs.page", run_id=subject_id)
    if kind is AnnotationTarget.PROBLEM:
        return flask.url_for("problems.page", problem_id=subject_id)
    if kind is AnnotationTarget.TRAJECTORY:
        return flask.url_for("trajectories.page", trajectory_id=subject_id)
    with request_context.database().snapshot() as connection:
        found = evaluation.latest_of(connection, subject_id)
    if found is None:
        raise NotFound(f"Candidate {subject_id} has not been evaluated.")
    return flask.url_for("evaluations.page", evaluation_id=found)
