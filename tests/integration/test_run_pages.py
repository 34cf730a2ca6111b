"""A run's worst problems, two runs problem by problem, rewards, and the leaderboard."""

from __future__ import annotations

import re
from typing import Any

import pytest
import sqlalchemy as sa

from app.domain import ids
from app.store import tables
from app.store.postgres.database import Database
from app.web import reward_upkeep
from tests.integration.two_runs import TwoRuns
from tests.integration.web_seeder import Seeder
from tests.waiting import until


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A view has time for every mean."""
    monkeypatch.setattr(reward_upkeep, "BUDGET_S", 30.0)


def test_a_run_shows_its_worst_problems_first_with_hacks(two_runs: TwoRuns) -> None:
    text = two_runs.site.get(f"/runs/{two_runs.runs[1]}").text
    assert "Worst problems" in text
    names = [
        row["problem"]
        for row in two_runs.site.get(f"/runs/{two_runs.runs[1]}/problems.json").json["problems"]
    ]
    assert names == ["softmax", "relu", "gelu", "norm"]
    by_hacks = two_runs.site.get(f"/runs/{two_runs.runs[1]}/problems.json?sort=hacks").json[
        "problems"
    ]
    assert (by_hacks[0]["problem"], by_hacks[0]["hacks"]) == ("relu", 1)
    page = two_runs.site.get(f"/runs/{two_runs.runs[1]}/problems?sort=worst").text
    assert page.index(">softmax<") < page.index(">gelu<")
    assert "verdict+%3D+hack" in page
    assert two_runs.site.get(f"/runs/{two_runs.runs[1]}/problems?sort=best").status_code == 400


def test_two_runs_are_compared_problem_by_problem(two_runs: TwoRuns) -> None:
    query = f"run={two_runs.runs[0]}&run={two_runs.runs[1]}"
    lines = {
        row["problem"]: row
        for row in two_runs.site.get(f"/runs/compare.json?{query}").json["problems"]
    }
    found = {name: (row["outcome"], row["because"]) for name, row in lines.items()}
    assert found == {
        "softmax": ("worse", "correct"),
        "gelu": ("better", "correct"),
        "norm": ("better", "speed"),
        "relu": ("no difference", ""),
    }
    assert lines["norm"]["speed_low"] > 1.4
    text = two_runs.site.get(f"/runs/compare?{query}").text
    assert (
        text.index(">softmax<") < text.index(">gelu<") < text.index(">norm<") < text.index(">relu<")
    )
    assert "temperature" in text
    assert re.search(r">packed</th><td[^>]*>false</td><td[^>]*>true</td>", text), "as in JSON"
    assert "harness" not in text  # the same in both
    only = two_runs.site.get(f"/runs/compare?{query}&outcome=worse").text
    assert ">gelu<" not in only.partition('id="problems"')[2].partition("</section>")[0]


def test_a_run_shows_pass_at_k_and_best_of_n(two_runs: TwoRuns) -> None:
    text = two_runs.site.get(f"/runs/{two_runs.runs[0]}").text
    assert "pass@k" in text
    assert "Best of n" in text


def test_rewards_have_means_intervals_and_parts_that_add_up(two_runs: TwoRuns) -> None:
    found = two_runs.site.get(f"/runs/{two_runs.runs[0]}/rewards.json?reward=dr_kernel_pr").json
    assert found["turn"]["of"] == found["turns"] == 32
    assert (
        found["turn"]["interval"]["low"]
        < found["turn"]["value"]
        < found["turn"]["interval"]["high"]
    )
    assert sum(value for _, value, _ in found["parts"]) == pytest.approx(found["turn"]["value"])
    assert found["turn"]["value"] == found["trajectory"]["value"]  # one turn each
    text = two_runs.site.get(f"/runs/{two_runs.runs[0]}/rewards").text
    assert "Over training steps" in text
    assert "Parts of the reward" in text
    assert two_runs.site.get(f"/runs/{two_runs.runs[0]}/rewards?reward=guess").status_code == 400
    assert (
        f"/runs/{two_runs.runs[0]}/rewards" in two_runs.site.get(f"/runs/{two_runs.runs[0]}").text
    )


def test_a_training_has_a_learning_curve_of_its_own(two_runs: TwoRuns) -> None:
    text = two_runs.site.get(f"/runs/{two_runs.trainings['one']}/rewards?reward=dr_kernel").text
    curve = text.partition("Over training steps")[2].partition("</table>")[0]
    rows = re.findall(r"<th scope=\"row\"[^>]*>(\d)</th>" + r"<td[^>]*>([\d.]+)</td>" * 3, curve)
    assert rows == [
        ("1", "1.25", "2.5", "2.5"),
        ("2", "1.5", "3", "3"),
        ("3", "1.75", "3.5", "3.5"),
    ]
    assert "Runs of one with a training step; seed 7." in text
    assert "Runs of one with a step" in two_runs.site.get(f"/runs/{two_runs.trainings['one']}").text


def test_a_turn_shows_its_reward_and_what_it_is_made_of(two_runs: TwoRuns) -> None:
    path = two_runs.site.get("/trajectories.json?run=rl/200&problem=norm").json["trajectories"][0][
        "trajectory_id"
    ]
    text = two_runs.site.get(f"/trajectories/{path}").text
    assert "= correct 1.000 + speedup 1.500 + coverage 0.953" in text


def test_the_leaderboard_has_models_by_problems_with_best_speedups(two_runs: TwoRuns) -> None:
    models = two_runs.site.get("/leaderboard.json").json["models"]
    assert [(line["model"], line["attempts"], line["hacks"]) for line in models] == [
        ("coder", 64, 1),
        ("trained", 12, 0),
    ]
    text = two_runs.site.get("/leaderboard").text
    row = text.partition(">norm<")[2].partition("</tr>")[0]
    assert "1.52×" in row
    assert "41.0×" not in text  # a hack's
    assert two_runs.site.get("/leaderboard?level=high").status_code == 400


def test_more_runs_than_fit_are_left_out_with_a_notice(two_runs: TwoRuns) -> None:
    query = "&".join(
        f"run={run_id}" for run_id in [*two_runs.runs, *(ids.new_id() for _ in range(2))]
    )
    assert two_runs.site.get(f"/runs/compare?{query}").status_code == 404  # runs that do not exist
    listed = [two_runs.runs[0]] * 3 + [two_runs.runs[1]]
    assert (
        two_runs.site.get("/runs/compare?" + "&".join(f"run={each}" for each in listed)).status_code
        == 200
    )


def test_mean_rewards_are_listed_and_kept_until_an_attempt_changes(
    two_runs: TwoRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listed(query: str = "") -> dict[str, dict[str, Any]]:
        return {row["run_id"]: row for row in two_runs.site.get(f"/runs.json?{query}").json["runs"]}

    found = listed()
    for run_id in two_runs.runs:
        whole = two_runs.site.get(f"/runs/{run_id}/rewards.json").json
        row = found[str(run_id)]
        assert (row["reward"], row["reward_turns"]) == (whole["turn"]["value"], whole["turn"]["of"])
        assert [row["reward_low"], row["reward_high"]] == [
            whole["turn"]["interval"][end] for end in ("low", "high")
        ]
    rewards = [row["reward"] for row in listed("sort=reward").values()]
    assert rewards == sorted(rewards)
    assert list(listed("sort=-reward")) == list(reversed(listed("sort=reward")))
    with monkeypatch.context() as without:
        without.setattr(reward_upkeep, "compute", None)  # kept figures are not computed again
        assert listed() == found
    shown = two_runs.site.get("/runs").text
    assert f"{found[str(two_runs.runs[0])]['reward']:.3f}" in shown
    database = Database(two_runs.settings.database_url or "")
    with database.begin() as connection:
        seeder = Seeder(connection)
        seeder.serial = 10_000  # another candidate than those of the fixture
        seeder.trajectory(two_runs.problems[0], two_runs.runs[0], "new", [1.3])
    database.dispose()
    again = listed()
    assert (
        again[str(two_runs.runs[0])]["reward_turns"]
        == found[str(two_runs.runs[0])]["reward_turns"] + 1
    )
    assert again[str(two_runs.runs[1])] == found[str(two_runs.runs[1])]


def test_rewards_kept_by_an_earlier_rule_are_computed_again(
    two_runs: TwoRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    def best() -> list[float | None]:
        two_runs.site.get("/runs.json")
        with database.begin() as connection:
            return list(connection.scalars(sa.select(tables.run_rewards.c.best)))

    monkeypatch.setattr(reward_upkeep, "BUDGET_S", 60.0)
    database = Database(two_runs.settings.database_url or "")
    try:
        with database.begin() as connection:
            connection.execute(tables.run_rewards.delete())  # rows of other rewards are among them
        best()
        with database.begin() as connection:
            connection.execute(tables.run_rewards.update().values(best=-1.0))
        assert -1.0 in best()
        monkeypatch.setattr(reward_upkeep, "RULE", 99)
        assert -1.0 not in best()
    finally:
        database.dispose()


def test_rewards_that_a_view_has_no_time_for_are_there_soon(
    two_runs: TwoRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reward_upkeep, "BUDGET_S", -1.0)
    database = Database(two_runs.settings.database_url or "")
    with database.begin() as connection:
        connection.execute(tables.run_rewards.delete())
    database.dispose()
    assert [row["reward"] for row in two_runs.site.get("/runs.json").json["runs"]] == [None] * 8
    until(
        lambda: None not in [row["reward"] for row in two_runs.site.get("/runs.json").json["runs"]]
    )
