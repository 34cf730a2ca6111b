"""BROWSE: models ranked by their figures, and models against problems."""

from __future__ import annotations

import math
from typing import Any

import flask

from app.domain.metrics import Share
from app.store.browse import leaderboard, paging, problems
from app.store.browse.runs import Counts
from app.web import request_context, table_export
from app.web.identity import requires
from app.web.query_parameters import reads

blueprint = flask.Blueprint("leaderboard", __name__)

ARGUMENTS = ("set", "level", "after", "before")
ROWS = 40
"""Problems of one page."""


@blueprint.get("/leaderboard")
@requires("read")
@reads(*ARGUMENTS)
def index() -> str:
    """Models by geometric-mean speedup and share correct; below, every problem by model."""
    asked, level, page = _asked()
    shown = [row.problem_id for row in page.rows]
    with request_context.database().snapshot() as connection:
        totals = leaderboard.totals(connection, source_set=asked["set"], level=level)
        counts = leaderboard.by_problem(connection, shown)
        best = leaderboard.fastest(
            connection, [pair for pair, count in counts.items() if count.timed]
        )
        sets, levels = problems.choices(connection)
    first, last = (shown[0], shown[-1]) if shown else (None, None)
    here = "leaderboard.index"
    return flask.render_template(
        "leaderboard.html",
        models=_ranked(totals),
        rows=page.rows,
        share_of=lambda count, of: Share(count=count, of=of),
        shares={key: Share(count=each.correct, of=each.attempts) for key, each in counts.items()},
        best=best,
        winners=_winners(best),
        asked=asked,
        sets=sets,
        levels=levels,
        links=table_export.links(
            "leaderboard.table", **{name: value for name, value in asked.items() if value}
        ),
        previous=(
            request_context.with_arguments(here, **asked, before=str(first))
            if page.has_previous
            else None
        ),
        next=(
            request_context.with_arguments(here, **asked, after=str(last))
            if page.has_next
            else None
        ),
    )


@blueprint.get("/leaderboard.<any(json,csv):kind>")
@requires("read")
@reads(*ARGUMENTS)
def table(kind: str) -> flask.Response:
    """The models with their figures."""
    asked, level, _ = _asked()
    with request_context.database().snapshot() as connection:
        totals = leaderboard.totals(connection, source_set=asked["set"], level=level)
    return table_export.answer(kind, "models", _ranked(totals))


def _asked() -> tuple[dict[str, str], int | None, paging.Page[problems.ProblemRow]]:
    asked = {name: request_context.argument(name) for name in ("set", "level")}
    level = request_context.number_argument("level")
    window = paging.Window(
        after=request_context.id_argument("after"),
        before=request_context.id_argument("before"),
        limit=ROWS,
    )
    with request_context.database().snapshot() as connection:
        page = problems.page(connection, window, source_set=asked["set"], level=level)
    return asked, level, page


def _ranked(totals: dict[str, Counts]) -> list[dict[str, Any]]:
    """Most attempts faster than the reference first."""
    lines = [_line(model, counts) for model, counts in totals.items()]
    return sorted(
        lines, key=lambda line: (-(line["faster_than_1"] / max(1, line["attempts"])), line["model"])
    )


def _line(model: str, counts: Counts) -> dict[str, Any]:
    mean = counts.mean_log_speedup
    return {
        "model": model,
        "attempts": counts.attempts,
        "correct": counts.correct,
        "faster_than_1": counts.faster_than_1,
        "faster_than_1_5": counts.faster_than_1_5,
        "faster_than_2": counts.faster_than_2,
        "geometric_mean": None if mean is None else math.exp(mean),
        "hacks": counts.hacks,
    }


def _winners(best: dict[tuple[Any, str], leaderboard.Best]) -> set[tuple[Any, str]]:
    """The highest of each problem."""
    found: dict[Any, tuple[Any, str]] = {}
    for key, each in best.items():
        held = found.get(key[0])
        if held is None or each.speedup > best[held].speedup:
            found[key[0]] = key
    return set(found.values())
