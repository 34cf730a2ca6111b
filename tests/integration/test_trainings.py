"""Trainings over their steps: each line is the runs of one model with a step, by the
figures of the list of runs.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from flask.testing import FlaskClient

from app.domain import ids
from app.domain.job import JobState
from app.store import tables
from app.store.postgres.database import Database
from app.web.pages import trainings
from tests.integration.seed_evaluations import CLEAN, HACK, passed
from tests.integration.web_seeder import Seeder


@pytest.fixture
def steps(database: Database) -> dict[str, UUID]:
    """Run by name: two trainings of one model, another model, and a run without a step."""
    found = {}
    with database.begin() as connection:
        seeder = Seeder(connection)
        problem_id = seeder.problem("softmax", 1, "torch.softmax(x, dim=-1)")
        for name, model, step, settings in (
            ("a/0", "small", 0, {"training": "a"}),
            ("a/10", "small", 10, {"training": "a"}),
            ("b/0", "small", 0, {"training": "b"}),
            ("b/5", "small", 5, {"training": "b"}),
            ("large/0", "large", 0, {}),
            ("large/1", "large", 1, {}),
            ("lone", "lone", 0, {}),
            ("no step", "small", None, {}),
        ):
            found[name] = ids.new_id()
            seeder.insert(
                tables.runs,
                run_id=found[name],
                name=name,
                model=model,
                step=step,
                settings=settings,
            )
        for name, verdict in (("a/10", CLEAN), ("a/10", HACK), ("b/5", CLEAN)):
            job_id = seeder.job(
                problem_id, name.encode(), state=JobState.FINISHED, run_id=found[name]
            )
            seeder.evaluation(job_id, passed(seeder.rng), verdict)
    return found


def rows_of(pages: FlaskClient, *run_ids: UUID) -> list[dict[str, Any]]:
    query = {"run": [str(each) for each in run_ids]}
    found: list[dict[str, Any]] = pages.get("/runs/trainings.json", query_string=query).get_json()[
        "steps"
    ]
    return found


def test_a_line_is_the_runs_of_one_training_by_step(
    empty_pages: FlaskClient, steps: dict[str, UUID]
) -> None:
    rows = rows_of(empty_pages, steps["a/10"], steps["large/1"])
    assert [(row["training"], row["step"]) for row in rows] == [
        ("a", 0),
        ("a", 10),
        ("large", 0),
        ("large", 1),
    ]
    listed = {row["run_id"]: row for row in empty_pages.get("/runs.json").get_json()["runs"]}
    for row in rows:
        assert row == {"training": row["training"]} | listed[row["run_id"]]
    last = rows[1]
    assert (last["attempts"], last["correct"], last["hacks"]) == (2, 1, 1)


def test_the_newest_are_shown_and_one_is_chosen_by_any_of_its_runs(
    empty_pages: FlaskClient, steps: dict[str, UUID]
) -> None:
    assert {row["training"] for row in rows_of(empty_pages)} == {"a", "b", "large"}
    page = empty_pages.get(f"/runs/trainings?run={steps['b/5']}").text
    assert f'<option value="{steps["b/0"]}" selected>b, steps 0 to 5</option>' in page
    assert page.count('<svg class="frame"') >= 5
    assert "Areas: 95 % intervals" in page


def test_both_runs_of_one_training_are_one_line(
    empty_pages: FlaskClient, steps: dict[str, UUID]
) -> None:
    assert {row["training"] for row in rows_of(empty_pages, steps["a/0"], steps["a/10"])} == {"a"}


def test_what_cannot_be_drawn_is_refused(empty_pages: FlaskClient, steps: dict[str, UUID]) -> None:
    for query, status in (
        (f"run={steps['no step']}", 400),
        ("run=x", 400),
        ("reward=none", 400),
        (f"run={ids.new_id()}", 404),
        ("step=1", 400),
    ):
        assert empty_pages.get(f"/runs/trainings?{query}").status_code == status, query
    many = "&".join(f"run={run_id}" for name, run_id in steps.items() if name != "no step")
    assert (
        f"{len(steps) - 1 - trainings.MOST} further ones left out"
        in empty_pages.get(f"/runs/trainings?{many}").text
    )


def test_a_newcomer_reads_how_one_is_made(empty_pages: FlaskClient) -> None:
    assert "No trainings yet" in empty_pages.get("/runs/trainings").text
    assert 'href="/runs/trainings"' in empty_pages.get("/runs").text
