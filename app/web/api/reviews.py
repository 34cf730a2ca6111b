"""BROWSE: `/v1/reviews`: opinions of people on evaluations, with their reasons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated
from uuid import UUID

import flask
from msgspec import Meta, Struct

from app.domain.request import ConflictError, RequestError
from app.domain.review import GIVEN, HACK_TYPES, MIN_REASON, Opinion
from app.domain.user import Scope
from app.store.dataset import listing
from app.store.evaluation import evaluations
from app.store.postgres.database import Connection
from app.store.review import reviews
from app.web import request_context
from app.web.api import schema_constraints
from app.web.api.endpoint import answer, operation
from app.web.api.schemas import Limit
from app.web.identity import current_user


class ReviewBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """An opinion on an evaluation.  `clean`, `hack`, `leak` and `bug` override the detectors."""

    evaluation_id: UUID
    label: Annotated[str, Meta(extra_json_schema={"enum": GIVEN})]
    reason: Annotated[
        str, Meta(min_length=MIN_REASON, max_length=20_000, pattern=schema_constraints.REASON)
    ]
    hack_type: Annotated[str, Meta(extra_json_schema={"enum": list(HACK_TYPES)})] | None = None
    """With `hack` and `leak` only."""
    second_opinion: bool = False
    """Asks for a review by a second person."""


class ReviewList(Struct, kw_only=True):
    """Reviews, newest first."""

    reviews: list[listing.Review]


class ReviewQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    """Reviews to list."""

    evaluation_id: UUID | None = None
    limit: Limit = 50


@operation("GET", "/reviews", Scope.READ, query=ReviewQuery, answers={200: ReviewList})
def index(query: ReviewQuery) -> flask.Response:
    """Reviews, newest first; those that were taken back and those that take back are among them."""
    with request_context.database().snapshot() as connection:
        found = listing.opinions(connection, evaluation_id=query.evaluation_id, limit=query.limit)
    return answer({"reviews": [asdict(each) for each in found]})


@operation(
    "POST",
    "/reviews",
    Scope.REVIEW,
    body=ReviewBody,
    answers={201: listing.Review},
    refusals=(404, 409),
)
def create(body: ReviewBody) -> flask.Response:
    """Review an evaluation; datasets that rest on a label that this changes become stale."""
    if body.label not in GIVEN:
        raise RequestError(f"label: expected one of {', '.join(GIVEN)}, got {body.label!r}")
    if body.hack_type is not None and body.hack_type not in HACK_TYPES:
        raise RequestError(
            f"hack_type: expected one of {', '.join(HACK_TYPES)}, got {body.hack_type!r}"
        )
    said = reviews.GivenReview(
        label=Opinion(body.label),
        reason=body.reason,
        hack_type=body.hack_type,
        second_opinion=body.second_opinion,
    )
    with request_context.database().begin() as connection:
        if evaluations.get(connection, body.evaluation_id) is None:
            request_context.missing("evaluation", body.evaluation_id)
        try:
            review_id = reviews.add(connection, current_user(), body.evaluation_id, said)
        except reviews.LockedError as error:
            raise ConflictError(str(error)) from error
        except reviews.ReviewError as error:
            raise RequestError(str(error)) from error
        stored = _one(connection, body.evaluation_id, lambda one: one.review_id == review_id)
    return answer(stored, 201)


@operation(
    "POST",
    "/reviews/<uuid:review_id>:undo",
    Scope.REVIEW,
    answers={200: listing.Review},
    refusals=(404, 409),
)
def undo(review_id: UUID) -> flask.Response:
    """Take one's own review back, by a further review that says so."""
    with request_context.database().begin() as connection:
        try:
            evaluation_id = reviews.undo(connection, current_user(), review_id)
        except reviews.ReviewError as error:
            raise ConflictError(str(error)) from error
        stored = _one(connection, evaluation_id, lambda one: one.withdraws == review_id)
    return answer(stored)


def _one(
    connection: Connection, evaluation_id: UUID, wanted: Callable[[listing.Review], bool]
) -> dict[str, object]:
    found = listing.opinions(connection, evaluation_id=evaluation_id, limit=None)
    return asdict(next(one for one in found if wanted(one)))
