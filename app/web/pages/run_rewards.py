"""BROWSE: the rewards of a run, and over the training steps of runs of its model."""

from __future__ import annotations

from uuid import UUID

import flask

from app.domain import reward
from app.domain.intervals import Interval
from app.store.browse import runs
from app.store.figures.run_rewards import KeptMean
from app.web import request_context, reward_figures, reward_upkeep
from app.web.charts import line_plot
from app.web.charts.line_plot import Series
from app.web.identity import requires
from app.web.query_parameters import reads

blueprint = flask.Blueprint("run_rewards", __name__)

TURN = "mean reward of a turn"
"""Name of the line that has an area."""
Points = list[tuple[float, reward_figures.Mean]]


@blueprint.get("/runs/<uuid:run_id>/rewards")
@requires("read")
@reads("reward")
def page(run_id: UUID) -> str:
    """Means of the reward by turn, trajectory and training step, and its parts."""
    name = request_context.reward_argument()
    with request_context.database().snapshot() as connection:
        run = request_context.one(connection, "run", run_id, runs.read)
        found = reward_figures.of_run(connection, run_id, name)
        siblings = runs.siblings(connection, run)
    trend, missing = _trend(siblings, name)
    return flask.render_template(
        "run_rewards.html",
        run=run,
        rewards=found,
        names=reward.REWARDS,
        name=name,
        formula=(reward.PARTS[name.partition(":")[0]].__doc__ or "").split("\n\n")[0],
        by_turn=_plot("turn", {TURN: [(float(turn), mean) for turn, mean in found.by_turn]}),
        trend=_plot("training step", trend) if len(trend[TURN]) > 1 else None,
        missing=missing,
    )


@blueprint.get("/runs/<uuid:run_id>/rewards.json")
@requires("read")
@reads("reward")
def as_json(run_id: UUID) -> flask.Response:
    """The same figures for programs."""
    name = request_context.reward_argument()
    with request_context.database().snapshot() as connection:
        if runs.read(connection, run_id) is None:
            request_context.missing("run", run_id)
        found = reward_figures.of_run(connection, run_id, name)
    return flask.jsonify(
        reward=name, **{field: getattr(found, field) for field in found.__dataclass_fields__}
    )


def _trend(siblings: list[runs.RunRow], name: str) -> tuple[dict[str, Points], int]:
    """Mean rewards by training step, over runs of the same training, and the number
    of runs not read yet.
    """
    kept, missing = reward_upkeep.means(siblings, name)
    found = [(float(row.step or 0), kept[row.run_id]) for row in siblings if row.run_id in kept]
    lines = {
        TURN: [(step, _mean(each.mean, each)) for step, each in found],
        "best turn of a trajectory": [(step, _mean(each.best, each)) for step, each in found],
        "last turn of a trajectory": [(step, _mean(each.last, each)) for step, each in found],
    }
    return lines, missing


def _mean(value: float | None, kept: KeptMean) -> reward_figures.Mean:
    ends = None if kept.low is None or kept.high is None else Interval(low=kept.low, high=kept.high)
    return reward_figures.Mean(value=value, of=kept.turns, interval=ends)


def _plot(x_label: str, lines: dict[str, Points]) -> line_plot.LinePlot | None:
    """Lines of means; that of turns has its interval as an area."""
    series = [
        Series(
            name=name,
            points=[(x, mean.value) for x, mean in points],
            band=[
                (
                    None
                    if mean.interval is None or name != TURN
                    else (mean.interval.low, mean.interval.high)
                )
                for _, mean in points
            ],
        )
        for name, points in lines.items()
    ]
    return line_plot.lines(series, x_label=x_label, y_label="reward", y_text="{:.3g}".format)
