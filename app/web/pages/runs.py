"""BROWSE: the list of runs, one run, and runs beside each other."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import flask
from werkzeug.exceptions import BadRequest

from app.domain import intervals
from app.domain.filter_language import Compare, unparse
from app.domain.intervals import Interval
from app.domain.metrics import Share
from app.domain.remark import AnnotationTarget
from app.store.browse import collecting, paging, runs
from app.store.figures.reward_samples import MOST_TURNS
from app.store.postgres.database import Connection
from app.store.review import remarks
from app.web import (
    live_updates,
    request_context,
    run_comparison,
    run_lines,
    run_metrics,
    run_problems,
    table_export,
)
from app.web.identity import requires
from app.web.pages import saved_views
from app.web.query_parameters import reads
from app.web.run_plots import (
    best_of_plot,
    ecdf_plot,
    overlay,
    sampling_plot,
    speed_plot,
    trend_plot,
    turn_plot,
)
from app.web.table_view import Column, Listing, View

COMPARED = 4
"""Runs that one page compares."""
SHOWN_PROBLEMS = 25
"""Problems of a run that its page lists; `.csv` has all."""

blueprint = flask.Blueprint("runs", __name__)


LISTING = Listing(
    endpoint="runs.index",
    table="runs.table",
    key="run_id",
    filters=("name", "model"),
    columns=(
        Column(name="compare", heading=""),
        Column(name="name", heading="Run", is_long=True, sorts=True, is_head=True),
        Column(name="model", heading="Model", is_long=True, sorts=True),
        Column(name="step", heading="Step", sorts=True, is_number=True),
        Column(name="attempts", heading="Attempts", sorts=True, is_number=True),
        Column(name="correct", heading="Correct", sorts=True, is_number=True),
        Column(name="faster_than_1", heading="> 1×", sorts=True, is_number=True),
        Column(
            name="faster_than_1_2", heading="> 1.2×", sorts=True, is_number=True, is_usual=False
        ),
        Column(name="faster_than_1_5", heading="> 1.5×", sorts=True, is_number=True),
        Column(name="faster_than_2", heading="> 2×", sorts=True, is_number=True),
        Column(name="geometric_mean", heading="Geometric mean", sorts=True, is_number=True),
        Column(name="reward", heading="Mean reward", sorts=True, is_number=True),
        Column(name="hacks", heading="Hacks", sorts=True, is_number=True),
        Column(name="created_at", heading="Created", sorts=True, is_number=True),
    ),
)


@blueprint.get("/runs")
@requires("read")
@LISTING.reads()
def index() -> str:
    """Runs, newest first or in another order."""
    view = LISTING.view()
    with request_context.database().snapshot() as connection:
        page = _page(connection, view)
        models = runs.models(connection)
        saved = saved_views.of(connection, LISTING.endpoint)
        total = runs.total(connection, **view.asked)
    return flask.render_template(
        "runs.html",
        view=view,
        rows=run_lines.lines(page.rows),
        total=total,
        reward=request_context.settings().reward,
        most_turns=MOST_TURNS,
        saved=saved,
        models=models,
        most=COMPARED,
        **view.pages(page),
    )


@blueprint.get("/runs.<any(json,csv):kind>")
@requires("read")
@LISTING.reads()
def table(kind: str) -> flask.Response:
    """The same lines as data."""
    view = LISTING.view()
    with request_context.database().snapshot() as connection:
        page = _page(connection, view)
    return view.data(kind, "runs", page, run_lines.lines(page.rows))


@blueprint.get("/runs/<uuid:run_id>")
@requires("read")
def page(run_id: UUID) -> str:
    """One run with all its figures."""
    with request_context.database().snapshot() as connection:
        run = _read(connection, run_id)
        notes = remarks.of(connection, AnnotationTarget.RUN, run_id)
        collection = collecting.of_runs(connection, [run_id]).get(run_id)
    return flask.render_template(
        "run.html",
        run=run,
        notes=notes,
        collection=collection,
        where=_where(run),
        **_body.shown(run_id),
    )


@blueprint.get("/runs/<uuid:run_id>/problems.<any(json,csv):kind>")
@requires("read")
@reads("sort")
def problems(run_id: UUID, kind: str) -> flask.Response:
    """Results of the run on each problem."""
    with request_context.database().snapshot() as connection:
        _read(connection, run_id)
        lines = run_problems.lines(connection, run_metrics.figures(connection, run_id))
    return table_export.answer(kind, "problems", run_problems.ordered(lines, run_problems.asked()))


@blueprint.get("/runs/<uuid:run_id>/problems")
@requires("read")
@reads("sort")
def all_problems(run_id: UUID) -> str:
    """Every problem of the run, the worst first or in another order."""
    sort = run_problems.asked()
    with request_context.database().snapshot() as connection:
        run = _read(connection, run_id)
        lines = run_problems.lines(connection, run_metrics.figures(connection, run_id))
    return flask.render_template(
        "run_problems.html",
        run=run,
        lines=run_problems.ordered(lines, sort),
        sort=sort,
        where=_where(run),
        orders=run_problems.ORDERS,
        links=table_export.links("runs.problems", run_id=run_id, sort=sort),
    )


@blueprint.get("/runs/<uuid:run_id>.json")
@requires("read")
def as_json(run_id: UUID) -> flask.Response:
    """Every figure of the run, with operator, denominators and intervals named."""
    with request_context.database().snapshot() as connection:
        run, figures = _read(connection, run_id), run_metrics.figures(connection, run_id)
    return flask.jsonify(
        run_id=str(run.run_id),
        name=run.name,
        model=run.model,
        step=run.step,
        operator=str(run_metrics.OPERATOR),
        baseline="eager",
        fast_p=[
            {"of": line.name, "denominator": line.of, "thresholds": _shares(line.shares)}
            for line in figures.lines
        ],
        geometric_mean={
            "of": "correct attempts",
            "value": figures.geometric_mean.value,
            "n": figures.geometric_mean.of,
            "interval": _ends(figures.geometric_interval),
            "method": "spread between problems, Student's t",
        },
        hack_rate={
            "of_attempts": _share(figures.hack_rates.of_attempts),
            "of_passed": _share(figures.hack_rates.of_passed),
        },
    )


@blueprint.get("/runs/compare")
@requires("read")
@reads("outcome", "order", lists=("run",))
def compare() -> str:
    """Up to four runs beside each other; the others are compared with the first, which is the
    oldest where `order` says so: the list, with the newest first, does.
    """
    named = request_context.id_arguments("run")
    with request_context.database().snapshot() as connection:
        chosen = [_read(connection, run_id) for run_id in named[:COMPARED]]
        if request_context.flag_argument("order", "oldest"):
            chosen.sort(key=lambda run: (run.created_at, run.run_id))
        figures = [run_metrics.figures(connection, run.run_id) for run in chosen]
        known = runs.page(connection, paging.Window(limit=200)).rows
        collections = collecting.of_runs(connection, [run.run_id for run in chosen])
        compared = run_comparison.compare(connection, *figures[:2]) if len(figures) > 1 else None
    return flask.render_template(
        "compare_runs.html",
        compared=compared,
        outcome=_outcome(),
        settings=run_comparison.differing_settings(chosen, collections),
        shown=run_comparison.SHOWN,
        links=table_export.links("runs.compare_table", run=[run.run_id for run in chosen[:2]]),
        chosen=list(zip(chosen, figures, strict=True)),
        told={line.run_id: line for line in run_lines.lines(chosen)},
        reward=request_context.settings().reward,
        known=known,
        most=COMPARED,
        left_out=max(0, len(named) - COMPARED),
        thresholds=run_metrics.THRESHOLDS,
        differences=[_difference(figures[0], other) for other in figures[1:]],
        by_turn=overlay(chosen, figures, "best_by_turn"),
        ecdf=ecdf_plot({run.name: each for run, each in zip(chosen, figures, strict=True)}),
    )


@blueprint.get("/runs/compare.<any(json,csv):kind>")
@requires("read")
@reads("outcome", lists=("run",))
def compare_table(kind: str) -> flask.Response:
    """Two runs problem by problem, as data."""
    with request_context.database().snapshot() as connection:
        chosen = [_read(connection, run_id) for run_id in request_context.id_arguments("run")[:2]]
        if len(chosen) < 2:
            raise BadRequest(f"run: expected two, got {len(chosen)}")
        found = run_comparison.compare(
            connection, *(run_metrics.figures(connection, run.run_id) for run in chosen)
        )
    return table_export.answer(
        kind, "problems", [line for line in found.lines if _outcome() in ("", line.outcome)]
    )


def _outcome() -> str:
    return request_context.choice_argument("outcome", run_comparison.OUTCOMES)


@live_updates.live_part(
    blueprint, "/runs/<uuid:run_id>/live", "evaluations", "trajectories", "runs"
)
def _body(run_id: UUID) -> str:
    with request_context.database().snapshot() as connection:
        run = _read(connection, run_id)
        figures = run_metrics.figures(connection, run_id)
        lines = run_problems.ordered(run_problems.lines(connection, figures), run_problems.WORST)
        trend = runs.siblings(connection, run)
    return flask.render_template(
        "_run.html",
        run=run,
        line=run_lines.lines([run])[0],
        reward=request_context.settings().reward,
        where=_where(run),
        figures=figures,
        thresholds=run_metrics.THRESHOLDS,
        operator=run_metrics.OPERATOR,
        lines=lines[:SHOWN_PROBLEMS],
        problem_count=len(lines),
        links=table_export.links("runs.problems", run_id=run_id),
        sampling=sampling_plot(figures),
        best_of=best_of_plot(figures),
        by_turn=turn_plot(figures),
        ecdf=ecdf_plot({run.name: figures}),
        trend=trend_plot(trend),
        speeds=speed_plot(trend),
    )


def _page(connection: Connection, view: View) -> paging.Page[runs.RunRow]:
    reward = request_context.settings().reward
    return runs.page(connection, view.window, **view.asked, reward=reward)


def _read(connection: Connection, run_id: UUID) -> runs.RunRow:
    return request_context.one(connection, "run", run_id, runs.read)


def _where(run: runs.RunRow) -> str:
    return unparse(Compare(field="run", operator="=", value=run.name))


def _difference(first: run_metrics.Figures, other: run_metrics.Figures) -> Interval | None:
    """95 % interval of the difference of the shares correct to the first run, over the problems
    that both attempted.
    """
    sides = [
        {
            str(problem): (float(each.correct.count), float(each.correct.of))
            for problem, each in one.problems.items()
        }
        for one in (other, first)
    ]
    return intervals.clustered_difference(sides[0], sides[1])


def _shares(shares: tuple[Share, ...]) -> list[dict[str, Any]]:
    return [
        {"p": p, **_share(share)} for p, share in zip(run_metrics.THRESHOLDS, shares, strict=True)
    ]


def _share(share: Share) -> dict[str, Any]:
    return {
        "count": share.count,
        "of": share.of,
        "value": share.value,
        "interval": _ends(share.interval()),
    }


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]
