"""BROWSE: trainings over their steps: several lines in one chart for each figure of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any
from uuid import UUID

import flask
from werkzeug.exceptions import BadRequest

from app.domain import reward
from app.domain.metrics import Share
from app.store.browse import runs
from app.store.figures.run_rewards import KeptMean
from app.store.postgres.database import Connection
from app.web import formatting, request_context, reward_upkeep, run_lines, table_export
from app.web.charts import line_plot
from app.web.charts.line_plot import Series
from app.web.identity import requires
from app.web.query_parameters import reads

MOST = 4
"""Trainings of one chart: more lines cannot be told apart."""
BANDED = 2
"""Trainings up to which intervals are drawn: areas of more hide each other."""

blueprint = flask.Blueprint("trainings", __name__)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One training: its runs by step, and their mean rewards."""

    name: str
    rows: tuple[runs.RunRow, ...]
    rewards: dict[UUID, KeptMean]

    @property
    def last(self) -> runs.RunRow:
        """The run of the last step."""
        return self.rows[-1]

    @property
    def last_reward(self) -> KeptMean | None:
        """Mean reward of the last step; None while it is not known."""
        return self.rewards.get(self.last.run_id)


@blueprint.get("/runs/trainings")
@requires("read")
@reads("reward", lists=("run",))
def index() -> str:
    """Charts over training steps; `run` names up to MOST trainings by one of their
    runs, by default the newest.
    """
    known, curves, missing = _asked()
    name = request_context.reward_argument()
    return flask.render_template(
        "trainings.html",
        known=known,
        curves=curves,
        most=MOST,
        chosen=_chosen(),
        left_out=max(0, len(request_context.id_arguments("run")) - MOST),
        reward=name,
        rewards=reward.REWARDS,
        missing=missing,
        charts=_charts(curves, name),
        banded=len(curves) <= BANDED,
        links=table_export.links(
            "trainings.table", run=[str(each.last.run_id) for each in curves], reward=name
        ),
    )


@blueprint.get("/runs/trainings.<any(json,csv):kind>")
@requires("read")
@reads("reward", lists=("run",))
def table(kind: str) -> flask.Response:
    """A row for every run of the same trainings."""
    _, curves, _ = _asked()
    rows = [
        {"training": curve.name, **asdict(run_lines.line(row, curve.rewards.get(row.run_id)))}
        for curve in curves
        for row in curve.rows
    ]
    return table_export.answer(kind, "steps", rows)


def _asked() -> tuple[list[runs.Training], list[Curve], int]:
    """Every training, the curves of those that are asked for, and the runs whose
    rewards are still being computed.
    """
    name, missing = request_context.reward_argument(), 0
    with request_context.database().snapshot() as connection:
        known = runs.trainings(connection)
        newest = sorted(known[:MOST], key=lambda each: formatting.by_numbers(each.name))
        wanted = _chosen() or [each.run_id for each in newest]
        found = [_read(connection, run_id) for run_id in wanted]
        lines = {
            rows[0].run_id: rows
            for rows in (runs.siblings(connection, run) for run in found)
            if rows
        }
    curves = []
    for rows in lines.values():
        kept, late = reward_upkeep.means(rows, name)
        missing += late
        told = rows[0].settings.get("training") or rows[0].model
        curves.append(Curve(name=str(told), rows=tuple(rows), rewards=kept))
    return known, curves, missing


def _read(connection: Connection, run_id: UUID) -> runs.RunRow:
    run = request_context.one(connection, "run", run_id, runs.read)
    if run.model is None or run.step is None:
        raise BadRequest(f"run: expected a run with a model and a training step, got {run.name!r}")
    return run


def _chosen() -> list[UUID]:
    return request_context.id_arguments("run")[:MOST]


Point = tuple[float | None, tuple[float, float] | None]
"""A value, and its interval."""
Value = Callable[[Curve, runs.RunRow], Point]

SHARES: dict[str, Callable[[runs.Counts], int]] = {
    "Correct": lambda counts: counts.correct,
    "Faster than 1×": lambda counts: counts.faster_than_1,
    "Faster than 2×": lambda counts: counts.faster_than_2,
    "Hack rate": lambda counts: counts.hacks,
}
"""Heading → attempts of a run that count."""


def _charts(curves: Sequence[Curve], name: str) -> list[tuple[str, str, line_plot.LinePlot | None]]:
    """Heading, note and chart of each figure."""
    rewards = _chart(curves, _mean, y_label="reward", y_text="{:.3g}".format)
    found = [("Mean reward of a turn", f"{name}, over the latest turns of each run.", rewards)]
    for heading, count in SHARES.items():
        chart = _chart(
            curves, partial(_share, count), y_label="share of attempts", y_text=formatting.percent
        )
        found.append((heading, "Share of all attempts of each run.", chart))
    speeds = line_plot.on_both_scales(
        [_series(curve, curves, _speed) for curve in curves],
        "y",
        x_label="training step",
        y_label="speedup",
        y_text=formatting.ratio,
    )
    return [
        *found,
        ("Geometric-mean speedup", "Over eager, of the credited attempts of each run.", speeds),
    ]


def _chart(curves: Sequence[Curve], value: Value, **options: Any) -> line_plot.LinePlot | None:
    series = [_series(curve, curves, value) for curve in curves]
    return line_plot.lines(series, x_label="training step", **options)


def _series(curve: Curve, curves: Sequence[Curve], value: Value) -> Series:
    points = [(float(row.step or 0), *value(curve, row)) for row in curve.rows]
    return Series(
        name=curve.name,
        points=[(step, found) for step, found, _ in points],
        band=[ends for _, _, ends in points] if len(curves) <= BANDED else (),
        url=flask.url_for("runs.page", run_id=curve.last.run_id),
    )


def _share(count: Callable[[runs.Counts], int], _: Curve, row: runs.RunRow) -> Point:
    share = Share(count=count(row.counts), of=row.counts.attempts)
    ends = share.interval()
    return share.value, None if ends is None else (ends.low, ends.high)


def _speed(_: Curve, row: runs.RunRow) -> Point:
    return row.geometric_mean, None


def _mean(curve: Curve, row: runs.RunRow) -> Point:
    kept = curve.rewards.get(row.run_id)
    if kept is None:
        return None, None
    return kept.mean, None if kept.low is None or kept.high is None else (kept.low, kept.high)
