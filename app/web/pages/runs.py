"""BROWSE: the list of runs, one run, and runs beside each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import flask
from werkzeug.exceptions import BadRequest

from app.domain import intervals
from app.domain.intervals import Interval
from app.domain.metrics import Share
from app.domain.where import Compare, unparse
from app.store.browse import runs
from app.store.session import Connection
from app.web import campaigns, context, live, plots, quantities, tabular
from app.web.identity import requires
from app.web.plots import Series

COMPARED = 4
"""Runs that one page compares."""
TOPICS = ("evaluations", "trajectories", "runs")
SHOWN_PROBLEMS = 25
"""Problems of a run that its page lists; `.csv` has all."""

blueprint = flask.Blueprint("runs", __name__)


@dataclass(frozen=True, kw_only=True)
class RunLine:
    """A line of the list, in numbers."""

    run_id: UUID
    name: str
    model: str | None
    step: int | None
    created_at: datetime
    attempts: int
    correct: int
    faster_than_1: int
    faster_than_1_2: int
    faster_than_1_5: int
    faster_than_2: int
    hacks: int
    passed: int
    geometric_mean: float | None


@blueprint.get("/runs")
@requires("read")
def index() -> str:
    """Runs, newest first."""
    page, asked = _page()
    rows = [_line(row) for row in page.rows]
    first, last = (rows[0].run_id, rows[-1].run_id) if rows else (None, None)
    with context.database().snapshot() as connection:
        models = runs.models(connection)
    return flask.render_template(
        "runs.html",
        rows=rows,
        asked=asked,
        models=models,
        filtered=any(asked.values()),
        links=tabular.links("runs.table", **_given()),
        most=COMPARED,
        previous=context.with_arguments("runs.index", **asked, newer_than=str(first)) if page.has_previous else None,
        next=context.with_arguments("runs.index", **asked, older_than=str(last)) if page.has_next else None,
    )


@blueprint.get("/runs.<any(json,csv):kind>")
@requires("read")
def table(kind: str) -> flask.Response:
    """The same lines as data."""
    page, _ = _page()
    return tabular.answer(kind, "runs", [_line(row) for row in page.rows])


@blueprint.get("/runs/<uuid:run_id>")
@requires("read")
def page(run_id: UUID) -> str:
    """One run with all its figures."""
    key = f"run {run_id}"
    body, etag = live.fragment(key, TOPICS, lambda: _body(run_id))
    with context.database().snapshot() as connection:
        run = _read(connection, run_id)
    return flask.render_template(
        "run.html",
        run=run,
        body=body,
        etag=etag,
        topics=",".join(TOPICS),
        where=unparse(Compare(field="run", operator="=", value=run.name)),
    )


@blueprint.get("/runs/<uuid:run_id>/live")
@requires("read")
def live_part(run_id: UUID) -> flask.Response:
    """The live part of the page."""
    return live.answer(f"run {run_id}", TOPICS, lambda: _body(run_id))


@blueprint.get("/runs/<uuid:run_id>/problems.<any(json,csv):kind>")
@requires("read")
def problems(run_id: UUID, kind: str) -> flask.Response:
    """Results of the run on each problem."""
    with context.database().snapshot() as connection:
        _read(connection, run_id)
        lines = _problem_lines(connection, campaigns.figures(connection, run_id))
    return tabular.answer(kind, "problems", lines)


@blueprint.get("/runs/<uuid:run_id>.json")
@requires("read")
def as_json(run_id: UUID) -> flask.Response:
    """Every figure of the run, with operator, denominators and intervals named."""
    with context.database().snapshot() as connection:
        run, figures = _read(connection, run_id), campaigns.figures(connection, run_id)
    return flask.jsonify(
        run_id=str(run.run_id),
        name=run.name,
        model=run.model,
        step=run.step,
        operator=str(campaigns.OPERATOR),
        baseline="eager",
        fast_p=[
            {"of": line.name, "denominator": line.of, "thresholds": _shares(line.shares)} for line in figures.lines
        ],
        geometric_mean={
            "of": "correct attempts",
            "value": figures.geometric_mean.value,
            "n": figures.geometric_mean.of,
            "interval": _ends(figures.geometric_interval),
            "method": f"problems resampled {campaigns.RESAMPLES} times",
        },
        hack_rate={
            "of_evaluated": _share(figures.hack_rates.of_evaluated),
            "of_passed": _share(figures.hack_rates.of_passed),
        },
    )


@blueprint.get("/runs/compare")
@requires("read")
def compare() -> str:
    """Up to four runs beside each other; the first is what the others are held against."""
    context.known_arguments("run")
    with context.database().snapshot() as connection:
        chosen = [_read(connection, run_id) for run_id in _compared()]
        figures = [campaigns.figures(connection, run.run_id) for run in chosen]
        known = runs.page(connection, limit=200).rows
    return flask.render_template(
        "compare_runs.html",
        chosen=list(zip(chosen, figures, strict=True)),
        known=known,
        most=COMPARED,
        thresholds=campaigns.THRESHOLDS,
        differences=[_differences(figures[0], other) for other in figures[1:]],
        by_turn=_overlay(chosen, figures, "best_by_turn"),
        ecdf=_ecdf_plot({run.name: each for run, each in zip(chosen, figures, strict=True)}),
    )


def _body(run_id: UUID) -> str:
    with context.database().snapshot() as connection:
        run = _read(connection, run_id)
        figures = campaigns.figures(connection, run_id)
        lines = _problem_lines(connection, figures)
        trend = runs.siblings(connection, run)
    return flask.render_template(
        "_run.html",
        run=run,
        figures=figures,
        thresholds=campaigns.THRESHOLDS,
        operator=campaigns.OPERATOR,
        resamples=campaigns.RESAMPLES,
        lines=lines[:SHOWN_PROBLEMS],
        problem_count=len(lines),
        links=tabular.links("runs.problems", run_id=run_id),
        by_turn=_turn_plot(figures),
        ecdf=_ecdf_plot({run.name: figures}),
        trend=_trend_plot(trend),
    )


def _page() -> tuple[Any, dict[str, str]]:
    context.known_arguments("name", "model", "older_than", "newer_than")
    asked = {name: context.argument(name) for name in ("name", "model")}
    with context.database().snapshot() as connection:
        found = runs.page(
            connection,
            **asked,
            older_than=context.id_argument("older_than"),
            newer_than=context.id_argument("newer_than"),
            limit=context.PAGE_ROWS,
        )
    return found, asked


def _given() -> dict[str, str]:
    return {name: value for name, value in flask.request.args.items() if value}


def _read(connection: Connection, run_id: UUID) -> runs.RunRow:
    return runs.read(connection, run_id) or context.missing("run", run_id)


def _line(row: runs.RunRow) -> RunLine:
    counts = row.counts
    mean = counts.mean_log_speedup
    return RunLine(
        run_id=row.run_id,
        name=row.name,
        model=row.model,
        step=row.step,
        created_at=row.created_at,
        attempts=counts.attempts,
        correct=counts.correct,
        faster_than_1=counts.faster_than_1,
        faster_than_1_2=counts.faster_than_1_2,
        faster_than_1_5=counts.faster_than_1_5,
        faster_than_2=counts.faster_than_2,
        hacks=counts.hacks,
        passed=counts.passed,
        geometric_mean=None if mean is None else math.exp(mean),
    )


def _problem_lines(connection: Connection, figures: campaigns.Figures) -> list[dict[str, Any]]:
    names = runs.named(connection, set(figures.problems))
    lines = [
        {
            "problem_id": problem_id,
            "problem": names[problem_id].name,
            "level": names[problem_id].level,
            "attempts": share.of,
            "correct": share.count,
            "best_speedup": best,
        }
        for problem_id, (share, best) in figures.problems.items()
    ]
    return sorted(lines, key=lambda line: (-(line["best_speedup"] or 0.0), line["problem"]))


def _compared() -> list[UUID]:
    listed = list(dict.fromkeys(flask.request.args.getlist("run")))
    if len(listed) > COMPARED:
        raise BadRequest(f"run: expected at most {COMPARED}, got {len(listed)}")
    try:
        return [UUID(text) for text in listed if text]
    except ValueError:
        raise BadRequest(f"run: expected UUIDs, got {', '.join(listed)!r}") from None


def _differences(first: campaigns.Figures, other: campaigns.Figures) -> dict[str, Interval | None]:
    """95 % intervals of the differences to the first run, over the problems that both attempted."""
    return {"correct": _difference(first, other)}


def _difference(first: campaigns.Figures, other: campaigns.Figures) -> Interval | None:
    sides = [
        {str(problem): [(float(share.count), float(share.of))] for problem, (share, _) in one.problems.items()}
        for one in (other, first)
    ]
    if not sides[0].keys() & sides[1].keys():
        return None
    return intervals.paired_bootstrap(sides[0], sides[1], resamples=campaigns.RESAMPLES)


def _turn_plot(figures: campaigns.Figures) -> plots.LinePlot | None:
    best, single = figures.best_by_turn, figures.at_turn
    series = [
        _curve("faster than 1×, best so far", [(turn, fast) for turn, _, fast in best]),
        _curve("faster than 1×, that turn", [(turn, fast) for turn, _, fast in single]),
        _curve("correct, best so far", [(turn, correct) for turn, correct, _ in best]),
        _curve("correct, that turn", [(turn, correct) for turn, correct, _ in single]),
    ]
    return plots.lines(series, x_label="turn", y_label="share", y_text=quantities.percent, y_range=(0.0, 1.0))


def _curve(name: str, points: list[tuple[int, Share]]) -> Series:
    bands = [share.interval() for _, share in points]
    return Series(
        name=name,
        points=[(float(turn), share.value) for turn, share in points],
        band=[None if band is None else (band.low, band.high) for band in bands],
    )


def _overlay(chosen: list[runs.RunRow], figures: list[campaigns.Figures], name: str) -> plots.LinePlot | None:
    series = [
        _curve(run.name, [(turn, fast) for turn, _, fast in getattr(each, name)])
        for run, each in zip(chosen, figures, strict=True)
    ]
    return plots.lines(series, x_label="turn", y_label="share", y_text=quantities.percent, y_range=(0.0, 1.0))


def _ecdf_plot(named: Mapping[str, campaigns.Figures]) -> plots.LinePlot | None:
    series = [Series(name=name, points=each.ecdf) for name, each in named.items()]
    return plots.lines(
        series,
        x_label="credited speedup over eager",
        y_label="share at most that fast",
        x_text=quantities.ratio,  # values are above 0 and finite
        y_text=quantities.percent,
        y_range=(0.0, 1.0),
        log_x=True,
        marks=False,
    )


def _trend_plot(trend: list[runs.RunRow]) -> plots.LinePlot | None:
    if len(trend) < 2:
        return None
    kinds: tuple[tuple[str, Callable[[runs.Counts], tuple[int, int]]], ...] = (
        ("correct", lambda counts: (counts.correct, counts.attempts)),
        ("faster than 1×", lambda counts: (counts.faster_than_1, counts.attempts)),
        ("hacks among evaluated", lambda counts: (counts.hacks, counts.attempts)),
    )
    series = [
        Series(
            name=name,
            points=[
                (float(row.step or 0), above / below if below else None)
                for row in trend
                for above, below in [share(row.counts)]
            ],
        )
        for name, share in kinds
    ]
    return plots.lines(series, x_label="training step", y_label="share", y_text=quantities.percent, y_range=(0.0, 1.0))


def _shares(shares: tuple[Share, ...]) -> list[dict[str, Any]]:
    return [{"p": p, **_share(share)} for p, share in zip(campaigns.THRESHOLDS, shares, strict=True)]


def _share(share: Share) -> dict[str, Any]:
    return {"count": share.count, "of": share.of, "value": share.value, "interval": _ends(share.interval())}


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]
