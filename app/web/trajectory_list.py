"""BROWSE: the list of trajectories in an order: by index, by counts of turns, or by mean reward.

An order without an index is made of the trajectories that the filter leaves, where they are few
enough; else the list is the newest first and has a note.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from uuid import UUID

import flask

from app.domain import reward
from app.store.browse import paging, problems, runs, trajectories, trajectory_orders
from app.store.browse.trajectories import TrajectoryRow
from app.store.figures import reward_samples
from app.store.postgres.database import Connection
from app.web import formatting, request_context
from app.web.table_view import Column, Listing, View

COMPUTED = ("reward", *trajectory_orders.VALUES)
"""Orders that no index has."""
REWARDED = 5_000
"""Trajectories that are put in order by their rewards, which are computed for each
of their turns.
"""

LISTING = Listing(
    endpoint="trajectories.index",
    table="trajectories.listing",
    key="trajectory_id",
    filters=("run", "model", "problem", "outcome", "run_id", "problem_id"),
    columns=(
        Column(name="label", heading="Trajectory", is_long=True, is_head=True),
        Column(name="problem", heading="Problem", is_long=True),
        Column(name="run", heading="Run", is_long=True),
        Column(name="model", heading="Model", is_long=True),
        Column(name="backend", heading="Backend"),
        Column(name="turns", heading="Turns", sorts=True, is_number=True),
        Column(name="correct", heading="Correct", sorts=True, is_number=True),
        Column(name="hacks", heading="Hacks", sorts=True, is_number=True),
        Column(name="best_speedup", heading="Best speedup", sorts=True, is_number=True),
        Column(name="reward", heading="Mean reward", sorts=True, is_number=True),
        Column(name="created_at", heading="Created", sorts=True, is_number=True),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One page of the list."""

    view: View
    """The view as it is shown."""
    page: paging.Page[TrajectoryRow]
    total: paging.Total
    rewards: dict[UUID, float]
    """Trajectory of the page → mean of the service's reward over its turns."""
    note: str = ""
    """Reason for which the rows are not in the order that was asked for."""


def read(connection: Connection, view: View) -> Listed:
    """The page that a request asks for."""
    request_context.choice_argument("outcome", trajectories.OUTCOMES)
    asked = _filter(view)
    total, note = trajectories.total(connection, asked), ""
    most = REWARDED if view.sort == "reward" else trajectory_orders.MOST
    if view.sort in COMPUTED and (not total.is_exact or total.number > most):
        note = (
            f"Newest first: the order by {view.sort} is made for at most {formatting.count(most)}"
            " trajectories, and the filter leaves more. Choose a run, model or problem."
        )
        view = replace(view, sort="created_at", descending=True)
    page = (
        _by_reward(connection, asked, view)
        if view.sort == "reward"
        else trajectories.page(connection, asked, view.window)
    )
    rewards = mean_rewards(connection, [row.trajectory_id for row in page.rows])
    return Listed(view=view, page=page, total=total, rewards=rewards, note=note)


def mean_rewards(connection: Connection, trajectory_ids: Sequence[UUID]) -> dict[UUID, float]:
    """Trajectory → mean of the service's reward over its turns; without those of
    which no turn has one.
    """
    function = request_context.settings().reward
    found = {}
    for trajectory_id, samples in reward_samples.of_trajectories(
        connection, trajectory_ids
    ).items():
        parts = [reward.parts(function, sample.result) for sample in samples]
        values = [sum(each.values()) for each in parts if each is not None]
        if values:
            found[trajectory_id] = fmean(values)
    return found


def exactly(connection: Connection, view: View) -> list[tuple[str, str, str, str]]:
    """Run and problem that the list is of exactly: noun, name, URL of its page, and
    URL of the list without it.
    """
    asked = _filter(view)
    found = []
    if asked.run_id is not None:
        run = request_context.one(connection, "run", asked.run_id, runs.read)
        here = flask.url_for("runs.page", run_id=run.run_id)
        found.append(("run", run.name, here, view.url(run_id=None)))
    if asked.problem_id is not None:
        problem = request_context.one(connection, "problem", asked.problem_id, problems.read)
        here = flask.url_for("problems.page", problem_id=problem.problem_id)
        found.append(("problem", problem.name, here, view.url(problem_id=None)))
    return found


def _filter(view: View) -> trajectories.Filter:
    ids = {name: request_context.id_argument(name) for name in ("run_id", "problem_id")}
    return trajectories.Filter(**(view.asked | ids))  # type: ignore[arg-type]


def _by_reward(
    connection: Connection, asked: trajectories.Filter, view: View
) -> paging.Page[TrajectoryRow]:
    """Trajectories by mean reward, those without one last."""
    wanted = trajectories.some_ids(connection, asked, REWARDED)
    rewards = mean_rewards(connection, wanted)
    order = sorted(rewards, key=lambda each: (rewards[each], each), reverse=view.descending)
    order += [each for each in wanted if each not in rewards]
    places = {each: place for place, each in enumerate(order)}

    def some(key: UUID | None, number: int, backwards: bool) -> list[UUID]:
        if backwards:
            end = 0 if key is None else places.get(key, 0)
            return order[max(0, end - number) : end][::-1]
        start = 0 if key is None else places.get(key, -1) + 1
        return order[start : start + number]

    found = paging.walk(some, view.window)
    rows = tuple(trajectories.of_ids(connection, list(found.rows)))
    return paging.Page(rows=rows, has_previous=found.has_previous, has_next=found.has_next)
