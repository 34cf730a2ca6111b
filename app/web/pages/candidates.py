"""BROWSE: the grid of everything that was evaluated: facets, the filter language, columns, saved
filters, and actions be done with many at once.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import flask
from werkzeug.exceptions import BadRequest
from werkzeug.wrappers import Response

from app import routing
from app.domain import filter_fields, filter_language, filter_tokens, reward
from app.domain.backend import BACKENDS
from app.domain.evaluation import Status
from app.domain.user import Scope
from app.domain.verdict import Label
from app.store.browse import candidates, paging
from app.store.evaluation.evaluation_rows import EvaluationRow
from app.store.filter import rare_filters
from app.store.filter.filter_walk import Budget, Place
from app.store.filter.rare_filters import Narrowed
from app.store.postgres.database import Connection
from app.store.review import reviews
from app.web import request_context
from app.web.identity import current_user, requires
from app.web.pages import saved_views
from app.web.table_view import Column, Listing, View

blueprint = flask.Blueprint("candidates", __name__)

CHOICES: dict[str, tuple[str, ...]] = {
    "status": tuple(Status),
    "verdict": tuple(Label),
    "backend": tuple(BACKENDS),
    "gpu": routing.DEVICE_CLASSES,
}
"""Filter fields with a list to choose from, named as in the filter language."""

FACET_FIELDS = {"device_class": "gpu"}
"""Facets with a filter field of another name than the row's."""

LISTING = Listing(
    endpoint="candidates.index",
    table="candidates.table",
    place=lambda row, sort: candidates.place_text(candidates.place_of(row, sort)),
    filters=(*CHOICES, "problem", "where"),
    columns=(
        Column(name="tick", heading=""),
        Column(name="evaluation", heading="Evaluation", is_head=True),
        Column(name="problem", heading="Problem", is_long=True),
        Column(name="status", heading="Status"),
        Column(name="verdict", heading="Verdict"),
        Column(name="speedup", heading="Speedup", sorts=True, is_number=True),
        Column(
            name="device_speedup", heading="Device-time speedup", is_number=True, is_usual=False
        ),
        Column(name="candidate_us", heading="Per call", sorts=True, is_number=True, is_usual=False),
        Column(name="reference_us", heading="Reference", is_number=True, is_usual=False),
        Column(
            name="coverage_time", heading="Coverage", sorts=True, is_number=True, is_usual=False
        ),
        Column(name="reward", heading="Reward", is_number=True, is_usual=False),
        Column(name="findings", heading="Findings", is_usual=False),
        Column(name="backend", heading="Backend"),
        Column(name="device_class", heading="Device"),
        Column(name="device_name", heading="Device name", is_long=True, is_usual=False),
        Column(name="baseline", heading="Baseline", is_usual=False),
        Column(name="protocol", heading="Protocol", is_usual=False),
        Column(name="level", heading="Level", is_number=True, is_usual=False),
        Column(name="source_set", heading="Source set", is_usual=False),
        Column(name="run", heading="Run", is_long=True, is_usual=False),
        Column(name="model", heading="Model", is_long=True, is_usual=False),
        Column(name="turn", heading="Turn", is_long=True),
        Column(name="created_at", heading="Created", sorts=True, is_number=True),
    ),
)
MOST_SELECTED = 500
"""Evaluations that one form may select: more than a page has."""
SEARCH_S = 0.9
"""Time that a page searches for the rows of a filter: it is answered within a second, and says how
far the search came.
"""
FURTHER_S = 4.0
"""The same of a search that a reader has gone on with."""


@blueprint.get("/candidates")
@requires("read")
@LISTING.reads("queued", "further")
def index() -> str | tuple[str, int]:
    """One page.  A filter that cannot be read is shown with the place and the expected text, status
    400, over the rows of the other fields.
    """
    view = LISTING.view()
    error: filter_tokens.WhereError | None = None
    try:
        expression = _expression(view.asked)
    except filter_tokens.WhereError as found:
        error, expression = found, _expression(view.asked | {"where": ""})
    page, facets, too_broad = None, None, None
    budget = Budget.of(FURTHER_S if request_context.flag_argument("further") else SEARCH_S)
    with request_context.database().snapshot() as connection:
        saved = saved_views.of(connection, LISTING.endpoint)
        stored = candidates.stored(connection)
        try:
            with candidates.patience(connection):
                of = rare_filters.narrowed(connection, expression)
                page = candidates.page(connection, of, _window(view), budget)
                facets = _found_facets(connection, view, of, page, budget)
        except candidates.TooBroadError as found_broad:
            too_broad = str(found_broad)
    shown = flask.render_template(
        "candidates.html",
        view=view,
        error=error,
        too_broad=too_broad,
        choices=CHOICES,
        fields=filter_fields.FIELDS,
        page=page,
        facets=_facets(facets, view) if facets and error is None else [],
        looked_at=facets,
        total=_total(facets, expression, stored),
        stored=stored,
        saved=saved,
        rewards=_rewards(view, page),
        where_text=filter_language.unparse(expression),
        notice=_notice(),
        budget=budget,
        further=_further(view, budget),
        further_s=FURTHER_S,
        **(view.pages(page) if page else {"previous": None, "next": None}),
    )
    return (shown, 400) if error or too_broad else shown


def _found_facets(
    connection: Connection,
    view: View,
    of: Narrowed,
    page: paging.Page[EvaluationRow],
    budget: Budget,
) -> candidates.Facets:
    """Facets of the page's rows where they are all that match, or where finding them took a search:
    another one would take as long.
    """
    whole = view.sort == "created_at" and not (page.has_previous or page.has_next)
    if whole or budget.searched:
        return candidates.facets_of(page.rows, all_of_them=whole and budget.stopped_at is None)
    return candidates.facets(connection, of, Budget(ends_s=budget.ends_s))


def _further(view: View, budget: Budget) -> str | None:
    """Address of the search that goes on where this one stopped."""
    if budget.stopped_at is None:
        return None
    place = candidates.place_text(budget.stopped_at)
    return view.url(**{view.listing.cursors[0]: place, "further": "yes"})


def _total(
    facets: candidates.Facets | None, expression: filter_language.Expression, stored: int
) -> paging.Total | None:
    """Number of evaluations, where it is known without counting them; else at least that many."""
    if isinstance(expression, filter_language.Everything):
        return paging.Total(number=stored, is_exact=True)
    return (
        None
        if facets is None
        else paging.Total(number=facets.looked_at, is_exact=facets.all_of_them)
    )


def _rewards(view: View, page: paging.Page[EvaluationRow] | None) -> dict[UUID, float | None]:
    """Evaluation → the service's reward, where its column is shown."""
    if page is None or "reward" not in {column.name for column in view.shown}:
        return {}
    function = request_context.settings().reward
    return {row.evaluation_id: _reward(function, row) for row in page.rows}


def _reward(function: str, row: EvaluationRow) -> float | None:
    if row.verdict is None:
        return None
    parts = reward.parts(function, {name: getattr(row, name) for name in reward.WITHOUT_CODE})
    return None if parts is None else sum(parts.values())


def _notice() -> str | None:
    queued = request_context.argument("queued")
    if queued.isdecimal():
        return f"{queued} now wait for a review; those that waited already stay where they were."
    return None


@blueprint.get("/candidates.<any(json,csv):kind>")
@requires("read")
@LISTING.reads()
def table(kind: str) -> flask.Response:
    """Rows of the same filter and order with every column."""
    view = LISTING.view()
    try:
        expression = _expression(view.asked)
        with request_context.database().snapshot() as connection, candidates.patience(connection):
            of = rare_filters.narrowed(connection, expression)
            page = candidates.page(connection, of, _window(view))
    except (filter_tokens.WhereError, candidates.TooBroadError) as error:
        raise BadRequest(str(error)) from error
    return view.data(kind, "candidates", page)


@blueprint.post("/candidates/selected")
@requires(Scope.READ)
@LISTING.reads()
def selected() -> Response:
    """Do something with the rows that were ticked: review them, compare two, export them."""
    action = flask.request.form.get("action", "")
    chosen = _chosen()
    if action == "compare":
        if len(chosen) != 2:
            raise BadRequest(f"compare: expected two candidates, got {len(chosen)}")
        return flask.redirect(flask.url_for("compare.page", a=chosen[0], b=chosen[1]))
    if action == "narrow":
        only = filter_language.OneOf(field="evaluation_id", values=tuple(chosen))
        return flask.redirect(
            flask.url_for("candidates.index", where=filter_language.unparse(only))
        )
    if action != "review":
        raise BadRequest(f"action: expected review, compare or narrow, got {action!r}")
    return _queue(chosen)


@requires("reviewer")
def _queue(chosen: list[UUID]) -> Response:
    with request_context.database().begin() as connection:
        added = reviews.queue(connection, current_user(), chosen)
    return flask.redirect(LISTING.view().url(queued=added))


def _chosen() -> list[UUID]:
    sent = flask.request.form.getlist("id")
    if not 0 < len(sent) <= MOST_SELECTED:
        raise BadRequest(f"id: expected 1 to {MOST_SELECTED} ticked candidates, got {len(sent)}")
    try:
        return [UUID(text) for text in sent]
    except ValueError:
        raise BadRequest("id: expected UUIDs") from None


def _expression(asked: dict[str, str]) -> filter_language.Expression:
    """The form as one expression; raises WhereError for the text of `where`,
    BadRequest for the rest.
    """
    for name, choices in CHOICES.items():
        request_context.choice_argument(name, choices)
    chosen = {name: asked[name] for name in (*CHOICES, "problem") if asked[name]}
    if asked["verdict"] == Label.CLEAN:  # the rule of the column: app.domain.verdict.is_shown
        chosen.setdefault("status", Status.PASSED)
    parts: list[filter_language.Expression] = [
        filter_language.Compare(field=name, operator="~" if name == "problem" else "=", value=value)
        for name, value in chosen.items()
    ]
    if asked["where"]:
        parts.append(filter_language.parse(asked["where"]))
    parts = [part for part in parts if not isinstance(part, filter_language.Everything)]
    return (
        filter_language.Everything()
        if not parts
        else parts[0]
        if len(parts) == 1
        else filter_language.And(operands=tuple(parts))
    )


def _window(view: View) -> paging.Window[Place]:
    after, before = (_place(name, view.sort) for name in view.listing.cursors)
    return paging.Window(
        sort=view.sort,
        descending=view.descending,
        after=after,
        before=before,
        limit=request_context.row_limit(),
    )


def _place(name: str, sort: str) -> Place | None:
    """The place that a query parameter gives."""
    text = request_context.argument(name)
    try:
        return candidates.place_in(text, sort) if text else None
    except ValueError as error:
        raise BadRequest(f"{name}: {error}") from error


def _facets(facets: candidates.Facets, view: View) -> list[tuple[str, list[tuple[Any, int, str]]]]:
    """Field → value, count and the URL that narrows by it."""
    shown = []
    for name, counts in facets.counts.items():
        field = FACET_FIELDS.get(name, name)
        if len(counts) > 1:
            shown.append(
                (
                    field,
                    [(value, count, _narrowed(view, field, value)) for value, count in counts[:8]],
                )
            )
    return shown


def _narrowed(view: View, field: str, value: Any) -> str:
    if field in CHOICES and value in CHOICES[field]:
        return view.url(**{field: value})
    more = filter_language.unparse(filter_language.Compare(field=field, operator="=", value=value))
    text = view.asked["where"]
    both = f"({text}) and {more}" if " or " in text else f"{text} and {more}"
    return view.url(where=both if text else more)
