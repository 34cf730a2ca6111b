"""BROWSE: `/v1/collections`: models write kernels, turn by turn, under budgets."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import flask
from msgspec import Meta, Struct

from app.collect import control, report, start
from app.domain import freeform
from app.domain.collection import spec as specs
from app.domain.collection.budgets import Amounts
from app.domain.user import Scope
from app.store.collection import figures
from app.web import request_context
from app.web.api.endpoint import answer, operation
from app.web.identity.authentication import current_user


class CollectionBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """A collection to start."""

    spec: dict[str, Any]
    """Keys of app.domain.collection.spec.CollectionSpec; an unknown one is an error
    that names it.
    """


class CapsAnswer(Struct, kw_only=True):
    """Budgets of the whole collection; null: no limit."""

    calls: int | None
    tokens: int | None
    usd: float | None
    evaluations: int | None
    gpu_s: float | None


class CollectionAnswer(Struct, kw_only=True):
    """A collection in figures."""

    collection_id: UUID
    run_id: UUID
    name: str
    state: str
    """`running`, `paused`, `stopped` or `finished`."""
    reason: str
    strategy: dict[str, Any]
    endpoints: list[str]
    problems: int
    rollouts: int
    rollouts_stopped: int
    ends: dict[str, int]
    """Stop reason → rollouts."""
    budgets_reached: dict[str, int]
    """Budget, as `collection: tokens` → rollouts that it ended."""
    attempts: dict[str, int]
    """State → attempts."""
    spent: Amounts
    reserved: Amounts
    """Held for calls and evaluations on their way."""
    caps: CapsAnswer
    created_at: str
    deadline_at: str | None
    finished_at: str | None
    waits_until: str | None
    """Time of the next call, where an endpoint has asked to wait, or is away, and nothing else is
    on its way.
    """
    waits_for: str | None
    """Endpoint that is waited for, with the error of the last call."""
    seconds: float
    spec_sha256: str


class CollectionSummary(CollectionAnswer, kw_only=True):
    """Summary of a collection; with `full`, also cost by endpoint and quality."""

    calls: list[figures.Spending] | None = None
    quality: figures.Quality | None = None
    usd_per_solved: float | None = None


class CollectionList(Struct, kw_only=True):
    """Collections, newest first."""

    collections: list[CollectionAnswer]


class PlanAnswer(Struct, kw_only=True):
    """The size of a collection that is not started."""

    name: str
    problems: int
    sources: int
    """Different references of these problems."""
    rollouts: int
    attempts_each: int
    """At most."""
    endpoints: list[str]
    prompts: dict[str, str]
    spec_sha256: str


class CollectionQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    """Extent of the answer."""

    full: bool = False


class ListQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    """Number of collections."""

    limit: Annotated[int, Meta(ge=1, le=500)] = 50


class Nothing(Struct, forbid_unknown_fields=True):
    """An empty object."""


@operation(
    "POST",
    "/collections",
    Scope.SUBMIT,
    body=CollectionBody,
    answers={201: CollectionAnswer},
    refusals=(404, 409),
)
def create(body: CollectionBody) -> flask.Response:
    """Start a collection; the same again is the one that there is.

    Everything is checked before anything is stored or spent: 400 names the key, 404
    the missing object.
    """
    spec = _spec(body)
    collection_id = start.start(
        request_context.database(), request_context.broker(), spec, user_id=_user_id()
    )
    with request_context.database().begin() as connection:
        found = report.progress(connection, str(collection_id))
    return answer(
        found, 201, Location=flask.url_for("api.collecting_read", name=found["collection_id"])
    )


@operation(
    "POST",
    "/collections:plan",
    Scope.READ,
    body=CollectionBody,
    answers={200: PlanAnswer},
    refusals=(404,),
)
def plan(body: CollectionBody) -> flask.Response:
    """The size of a collection that is not started."""
    with request_context.database().begin() as connection:
        return answer(start.outline(connection, _spec(body)))


@operation("GET", "/collections", Scope.READ, query=ListQuery, answers={200: CollectionList})
def index(query: ListQuery) -> flask.Response:
    """Collections, newest first."""
    with request_context.database().snapshot() as connection:
        return answer({"collections": report.listed(connection, limit=query.limit)})


@operation(
    "GET",
    "/collections/<collection:name>",
    Scope.READ,
    query=CollectionQuery,
    answers={200: CollectionSummary},
    refusals=(404,),
)
def read(name: str, query: CollectionQuery) -> flask.Response:
    """One collection, by its id or its name."""
    with request_context.database().snapshot() as connection:
        told = report.summary(connection, name) if query.full else report.progress(connection, name)
    return answer(told)


def _action(action: str, doc: str) -> None:
    def change(name: str, body: Nothing) -> flask.Response:  # noqa: ARG001 (an empty object)
        control.change(
            request_context.database(), request_context.broker(), name, action, current_user().name
        )
        with request_context.database().begin() as connection:
            return answer(report.progress(connection, name))

    change.__name__, change.__doc__ = action, doc
    path = f"/collections/<collection:name>:{action}"
    operation(
        "POST",
        path,
        Scope.SUBMIT,
        body=Nothing,
        answers={200: CollectionAnswer},
        refusals=(404, 409),
    )(change)


_action("pause", "Begin no further call; calls and evaluations on their way end.")
_action("resume", "Go on with a paused collection.")
_action("stop", "End a collection for good; everything collected stays.")


def _user_id() -> UUID | None:
    """Id of the user of the request; None while the service has no users and needs no login."""
    return current_user().user_id


def _spec(body: CollectionBody) -> specs.CollectionSpec:
    freeform.check(body.spec, "spec")
    return specs.parse(body.spec)
