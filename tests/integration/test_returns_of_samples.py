"""Returns and advantages go by the samples of a collection, whatever their prompts show, as in
trainers that make a row of each turn.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from celery import Celery

from app.domain.collection.call import ModelAnswer, ModelRequest
from app.domain.dataset.selection import Turns
from app.settings import Settings
from app.store import tables
from app.store.browse import trajectory
from app.store.figures import reward_samples
from app.store.postgres.database import Database
from app.web import create_app, reward_figures
from tests.integration import exported
from tests.integration.cli import assay
from tests.integration.collecting import CODE, Site, said, specification

WINDOWED = {"name": "windowed", "samples": 2, "turns": 2, "iterations": 2, "window": 1}


Play = Callable[[Container[int]], None]


@pytest.fixture
def play(database: Database, broker: Celery, problem_id: UUID) -> Play:
    """Two samples of three turns, each in two trajectories; answers of these numbers are right."""

    def played(right: Container[int]) -> None:
        numbers = count()

        def model(_: ModelRequest) -> ModelAnswer:
            number = next(numbers)
            shown = "passes" if number in right else "fails"
            return said(CODE.replace("passes", f"{shown} {number}\nimport triton"))

        site = Site(database, broker, model)
        site.start(specification(name="c", strategy=WINDOWED))
        site.run()
        assert len(site.rows("trajectories")) == 4
        assert len(site.rows("turns")) == 6

    return played


def credits_of(settings: Settings, *arguments: str) -> list[dict[str, Any]]:
    ran = assay(settings, "advantages", "--run", "c", "--json", *arguments)
    assert ran.exit_code == 0, ran.output
    turns: list[dict[str, Any]] = json.loads(ran.stdout)["turns"]
    return turns


def test_a_later_window_gives_credit_to_earlier_ones(play: Play, settings: Settings) -> None:
    play({5})
    turns = credits_of(settings)
    assert sorted(one["step"] for one in turns) == [0, 0, 1, 1, 2, 2]
    (right,) = {one["line"] for one in turns if one["reward"]}
    returns = {(one["line"], one["step"]): one["score"] for one in turns}
    reward = returns[right, 2]
    assert reward > 0
    assert all(value == (reward if line == right else 0) for (line, _), value in returns.items())
    assert {one["advantage"] for one in turns} == {reward, -reward}  # two samples at each step
    discounted = {one["step"]: one["score"] for one in credits_of(settings, "--gamma", "0.5")}
    assert {discounted[step] for step in (0, 1, 2)} <= {0, reward, reward / 2, reward / 4}


@pytest.mark.parametrize("where", ["", "not correct"])
def test_rows_of_rewards_have_the_same_returns(
    play: Play, settings: Settings, database: Database, tmp_path: Path, where: str
) -> None:
    """Also where a filter leaves out the turn that earns the return."""
    play({5})
    expected = {one["evaluation_id"]: one["score"] for one in credits_of(settings)}
    exported.make(database, tmp_path / "rl", where, "rewards")
    rows = exported.rows_in(tmp_path / "rl")
    assert len(rows) == (6 if not where else 5)
    assert all(row["return_dr_kernel_pr"] == expected[row["evaluation_id"]] for row in rows)


def test_turns_are_chosen_by_the_returns_of_their_sample(
    play: Play, database: Database, tmp_path: Path
) -> None:
    """The first of three right answers alone earns 1 + 0.4 + 0.16 of one."""
    play(range(6))
    exported.make(database, tmp_path / "rewards", "", "rewards")
    (score,) = {row["kevin_score"] for row in exported.rows_in(tmp_path / "rewards")}
    chosen = {"turns": Turns.RETURN_TO_GO, "min_return": 1.5 * score, "similarity": "none"}
    exported.make(database, tmp_path / "sft", "", "trl_sft", **chosen)
    assert len(exported.rows_in(tmp_path / "sft")) == 2


def test_rewards_of_a_run_are_of_its_samples(play: Play, database: Database) -> None:
    play({5})
    with database.begin() as connection:
        run_id = connection.scalars(sa.select(tables.runs.c.run_id)).one()
        samples, more = reward_samples.latest(connection, run_id)
        few, cut = reward_samples.latest(connection, run_id, limit=5)
    figures = reward_figures.compute(samples, more, "dr_kernel_pr")
    assert (figures.trajectory.of, figures.best.of, figures.last.of) == (2, 2, 2)
    assert figures.trajectory.value == figures.best.value == figures.last.value
    assert [(turn, mean.of) for turn, mean in figures.by_turn] == [(0, 2), (1, 2), (2, 2)]
    assert cut
    assert len(few) == 3  # one sample whole; of the other one not all was read
    assert len({one.line for one in few}) == 1


def test_a_window_leads_to_the_others_of_its_sample(
    play: Play, settings: Settings, database: Database
) -> None:
    play({5})
    with database.begin() as connection:
        every = list(connection.scalars(sa.select(tables.trajectories.c.trajectory_id)))
        pages = [trajectory.read(connection, one) for one in every]
    app = create_app(settings)
    for page in filter(None, pages):
        places = [(one.first, one.last) for one in page.windows]
        assert places in ([(0, 1), (2, 2)], [(0, 0), (1, 2)]), places
        [other] = {one.trajectory_id for one in page.windows} - {page.trajectory_id}
        shown = app.test_client().get(f"/trajectories/{page.trajectory_id}").text
        assert f'href="/trajectories/{other}"' in shown
        assert shown.count("in 2 windows") == 1
    app.extensions["assay"]["watch"].close()
    app.extensions["assay"]["database"].dispose()
