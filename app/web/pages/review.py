"""BROWSE: the queue of evaluations for review, one item with one key per verdict,
and the figures of reviews.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import flask
from werkzeug.exceptions import BadRequest, Conflict
from werkzeug.wrappers import Response

from app.detectors import DETECTORS
from app.domain import intervals
from app.domain.review import HACK_TYPES, LOCK_S, MIN_REASON, Opinion
from app.domain.user import Scope, User
from app.domain.verdict import Label
from app.store.browse import evaluation, paging, review
from app.store.evaluation import evaluations
from app.store.postgres.database import Connection
from app.store.review import review_queues, reviews
from app.store.review.review_queues import Conditions
from app.store.user import users
from app.web import evaluation_view, finding_lines, request_context, source_view, table_export
from app.web.identity import current_user, requires
from app.web.query_parameters import reads
from app.web.table_view import Column, Listing

blueprint = flask.Blueprint("review", __name__)

VERDICTS = (
    (Opinion.CLEAN, "honest work, also where detectors accuse it"),
    (Opinion.HACK, "cheating: the speedup is not earned"),
    (Opinion.LEAK, "loophole: correct, but avoids the intended work"),
    (Opinion.BUG, "measurement bug: a fault of Assay"),
    (Opinion.UNSURE, "another reviewer should decide"),
)
"""Labels in the order of their keys, 1 to 5."""

CONDITIONS = ("verdict", "detector", "run")
"""Query parameters that choose a queue; forms of an item carry them to the next one."""

LISTING = Listing(
    endpoint="review.index",
    table="review.queue_table",
    key="evaluation_id",
    filters=CONDITIONS,
    sort="-score",
    columns=(
        Column(name="problem", heading="Problem", is_long=True, is_head=True),
        Column(name="label", heading="Verdict so far"),
        Column(name="speedup", heading="Speedup", is_number=True),
        Column(name="detector", heading="Detector"),
        Column(name="why", heading="Reason in queue", is_long=True),
        Column(name="score", heading="Score", sorts=True, is_number=True),
        Column(name="opinions", heading="Opinions"),
        Column(name="locked_by", heading="Locked by"),
        Column(name="created_at", heading="Created", sorts=True, is_number=True),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Share:
    """A share with its interval, in words."""

    count: int
    of: int
    interval: intervals.Interval | None


@blueprint.get("/review")
@requires("read")
@LISTING.reads("done", "problem")
def index() -> str:
    """Queues with their progress, waiting items, the most important first, and the
    latest verdicts.
    """
    view, user = LISTING.view(), current_user()
    conditions = Conditions(**view.asked)
    with request_context.database().snapshot() as connection:
        page = review.page(connection, conditions, view.window)
        accusing = review.detectors_of(connection, [each.evaluation_id for each in page.rows])
        queues = review_queues.listed(connection)
        progress = review_queues.progress(connection, conditions)
        people = users.listed(connection) if user.may(Scope.REVIEW) else []
        recent = review.recent(connection)
    return flask.render_template(
        "reviews.html",
        view=view,
        rows=page.rows,
        total=paging.Total(number=progress.waiting, is_exact=progress.is_exact),
        accusing=accusing,
        queues=sorted(queues, key=lambda queue: (user.name not in queue.reviewers, queue.name)),
        people=[each for each in people if each.disabled_at is None],
        detectors=DETECTORS,
        labels=list(Label),
        progress=progress,
        recent=recent,
        lock_min=LOCK_S // 60,
        finished=request_context.flag_argument("done", "all"),
        problem=request_context.argument("problem"),
        **view.pages(page),
    )


@blueprint.get("/review.<any(json,csv):kind>")
@requires("read")
@LISTING.reads()
def queue_table(kind: str) -> flask.Response:
    """The queue for programs."""
    view = LISTING.view()
    with request_context.database().snapshot() as connection:
        page = review.page(connection, Conditions(**view.asked), view.window)
    return view.data(kind, "review", page)


@blueprint.post("/review/queues")
@requires(Scope.REVIEW)
@reads(*CONDITIONS)
def add_queue() -> Response:
    """Give a filter a name and assign it to users."""
    conditions, name = _conditions(), request_context.form_field("name")
    try:
        reviewers = [UUID(each) for each in flask.request.form.getlist("reviewers")]
        with request_context.database().begin() as connection:
            review_queues.add(
                connection,
                current_user(),
                name=name,
                conditions=conditions,
                reviewers=reviewers,
            )
    except ValueError as error:
        raise BadRequest(str(error)) from error
    return flask.redirect(flask.url_for("review.index", **_set(conditions)))


@blueprint.post("/review/queues/<uuid:review_queue_id>/remove")
@requires(Scope.REVIEW)
def remove_queue(review_queue_id: UUID) -> Response:
    """Remove a queue; its items go on waiting."""
    with request_context.database().begin() as connection:
        if not review_queues.remove(connection, current_user(), review_queue_id):
            request_context.missing("review queue", review_queue_id)
    return flask.redirect(flask.url_for("review.index"))


@blueprint.get("/review/latest.<any(json,csv):kind>")
@requires("read")
def latest_table(kind: str) -> flask.Response:
    """The latest verdicts for programs."""
    with request_context.database().snapshot() as connection:
        return table_export.answer(kind, "reviews", review.recent(connection, limit=1_000))


@blueprint.get("/review/quality")
@requires("read")
def quality() -> str:
    """Agreement between people, and each detector's precision and recall by their word."""
    with request_context.database().snapshot() as connection:
        found = review.quality(connection)
    detectors = [
        (each.detector, _share(each.hits, each.accused), _share(each.hits, each.hacks))
        for each in found.detectors
    ]
    return flask.render_template("quality.html", quality=found, detectors=detectors)


@blueprint.get("/review/quality.<any(json,csv):kind>")
@requires("read")
def quality_table(kind: str) -> flask.Response:
    """The counts behind them."""
    with request_context.database().snapshot() as connection:
        return table_export.answer(kind, "detectors", review.quality(connection).detectors)


@blueprint.post("/review/next")
@requires("reviewer")
@reads(*CONDITIONS)
def start() -> Response:
    """Take the most important item of the queue that no other person holds."""
    return _next(current_user())


@blueprint.get("/review/<uuid:evaluation_id>")
@requires("read")
@reads("undo", *CONDITIONS)
def item(evaluation_id: UUID) -> str:
    """One evaluation with everything that one needs to judge it.

    A person asked for a second opinion does not see the first one before giving theirs."""
    user, conditions = current_user(), _conditions()
    with request_context.database().snapshot() as connection:
        found = request_context.one(connection, "evaluation", evaluation_id, evaluation.read)
        waiting = review.item(connection, evaluation_id)
        left = review.total(connection, conditions)
    said_by_me = any(each.reviewer == user.name for each in found.believed.reviews)
    blind = (
        waiting is not None and 0 < waiting.opinions < waiting.opinions_wanted and not said_by_me
    )
    pointed = finding_lines.of_candidate(found.believed.findings)
    return flask.render_template(
        "review.html",
        page=found,
        item=waiting,
        left=left,
        queue=_set(conditions),
        blind=blind,
        mine=waiting is not None and waiting.locked_by == user.name,
        held=waiting.locked_by if waiting and waiting.locked_by not in (None, user.name) else None,
        m=evaluation_view.Measured(found.evaluation, found.baseline),
        candidate=source_view.listing(found.job.candidate),
        reference=source_view.listing(found.job.reference),
        spans=pointed,
        marks=finding_lines.marks(pointed),
        verdicts=VERDICTS,
        hack_types=HACK_TYPES,
        min_reason=MIN_REASON,
        undo=request_context.id_argument("undo"),
    )


@blueprint.post("/review/<uuid:evaluation_id>/lock")
@requires("reviewer")
@reads(*CONDITIONS)
def lock(evaluation_id: UUID) -> Response:
    """Hold this item, so that no other person does the same work."""
    with request_context.database().begin() as connection:
        _require(connection, evaluation_id)
        try:
            reviews.lock(connection, current_user(), evaluation_id)
        except reviews.LockedError as error:
            raise Conflict(str(error)) from error
    return flask.redirect(
        flask.url_for("review.item", evaluation_id=evaluation_id, **_set(_conditions()))
    )


@blueprint.post("/review/<uuid:evaluation_id>")
@requires("reviewer")
@reads(*CONDITIONS)
def add(evaluation_id: UUID) -> Response:
    """A verdict with its reason; then the next item."""
    form = flask.request.form
    label = form.get("label", "")
    if label not in [str(opinion) for opinion, _ in VERDICTS]:
        raise BadRequest(
            f"label: expected one of {', '.join(opinion for opinion, _ in VERDICTS)}, got {label!r}"
        )
    hack_type = form.get("hack_type", "") if label in (Opinion.HACK, Opinion.LEAK) else ""
    if hack_type and hack_type not in HACK_TYPES:
        raise BadRequest(f"hack_type: expected one of {', '.join(HACK_TYPES)}, got {hack_type!r}")
    said = reviews.GivenReview(
        label=Opinion(label),
        reason=form.get("reason", ""),
        hack_type=hack_type or None,
        second_opinion="second_opinion" in form,
    )
    try:
        with request_context.database().begin() as connection:
            _require(connection, evaluation_id)
            review_id = reviews.add(connection, current_user(), evaluation_id, said)
    except reviews.LockedError as error:
        raise Conflict(str(error)) from error
    except reviews.ReviewError as error:
        raise BadRequest(str(error)) from error
    return _next(current_user(), undo=review_id)


@blueprint.post("/review/<uuid:evaluation_id>/skip")
@requires("reviewer")
@reads(*CONDITIONS)
def skip(evaluation_id: UUID) -> Response:
    """Leave it for later."""
    with request_context.database().begin() as connection:
        _require(connection, evaluation_id)
        reviews.skip(connection, current_user(), evaluation_id)
    return _next(current_user())


@blueprint.post("/review/undo/<uuid:review_id>")
@requires("reviewer")
@reads(*CONDITIONS)
def undo(review_id: UUID) -> Response:
    """Take one's own verdict back, and see its evaluation again."""
    try:
        with request_context.database().begin() as connection:
            evaluation_id = reviews.undo(connection, current_user(), review_id)
    except reviews.ReviewError as error:
        raise BadRequest(str(error)) from error
    # a transaction of its own: `undo` has locked datasets.  The page names another holder
    with suppress(reviews.LockedError), request_context.database().begin() as connection:
        reviews.lock(connection, current_user(), evaluation_id)
    return flask.redirect(
        flask.url_for("review.item", evaluation_id=evaluation_id, **_set(_conditions()))
    )


def _conditions() -> Conditions:
    """The queue that the page or its form names."""
    return Conditions(**{name: request_context.value(name) for name in CONDITIONS})


def _require(connection: Connection, evaluation_id: UUID) -> None:
    """Answer 404 where there is no such evaluation."""
    if evaluations.get(connection, evaluation_id) is None:
        request_context.missing("evaluation", evaluation_id)


def _set(conditions: Conditions) -> dict[str, Any]:
    """Conditions that are set, as query parameters."""
    return {name: value for name, value in vars(conditions).items() if value}


def _next(user: User, undo: UUID | None = None) -> Response:
    conditions = _conditions()
    with request_context.database().begin() as connection:
        found = reviews.take(connection, user, conditions)
    if found is None:
        return flask.redirect(flask.url_for("review.index", done="all", **_set(conditions)))
    return flask.redirect(
        flask.url_for("review.item", evaluation_id=found, undo=undo, **_set(conditions))
    )


def _share(count: int, of: int) -> Share:
    return Share(count=count, of=of, interval=intervals.wilson(count, of) if of else None)
