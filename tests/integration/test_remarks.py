"""Comments and tags: on runs, problems, trajectories and candidates, filtered, audited, safe."""

from __future__ import annotations

import re

from flask.testing import FlaskClient

from app.domain import ids
from app.store import tables
from app.store.postgres.database import Database
from tests.integration import audited
from tests.integration.web_seed import seed
from tests.integration.web_seeder import Seeder


def send(empty_pages: FlaskClient, path: str, **values: str) -> int:
    token = re.search(r'name="csrf_token" value="([^"]+)"', empty_pages.get("/jobs").text)
    assert token is not None
    return empty_pages.post(path, data={**values, "csrf_token": token[1]}).status_code


def test_a_problem_has_comments_and_tags_that_can_be_filtered_and_are_audited(
    empty_pages: FlaskClient, database: Database
) -> None:
    with database.begin() as connection:
        problem_id = Seeder(connection).problem("softmax", 1, "x")
    path = f"/notes/problem/{problem_id}"
    assert (
        send(empty_pages, path, comment="Too easy: **constant** <script>alert(1)</script>") == 302
    )
    assert send(empty_pages, path, tag="Too-Easy") == 302
    assert send(empty_pages, path, tag="two words") == 400
    assert send(empty_pages, path, comment="  ") == 400
    assert send(empty_pages, path.replace(str(problem_id)[:8], "00000000"), comment="x") == 404
    text = empty_pages.get(f"/problems/{problem_id}").text
    assert "<strong>constant</strong>" in text
    assert "<script>alert" not in text
    assert "too-easy" in text
    assert "softmax" in empty_pages.get("/notes?tag=too-easy").text
    assert "constant" in empty_pages.get("/notes?text=too+easy&on=problem").text
    assert "constant" not in empty_pages.get("/notes?on=trajectory").text
    assert len(empty_pages.get("/notes.json").json["comments"]) == 1
    send(empty_pages, path, remove="too-easy")
    comment = empty_pages.get("/notes.json").json["comments"][0]["comment_id"]
    assert send(empty_pages, f"/notes/comments/{comment}/delete") == 302
    assert "constant" not in empty_pages.get(f"/problems/{problem_id}").text
    with database.read() as connection:
        actions = [event.action for event in audited.events(connection)]
    assert actions == ["comment.delete", "tag.remove", "tag.add", "comment.add"]


def test_trajectories_and_candidates_have_them_too(
    empty_pages: FlaskClient, database: Database
) -> None:
    with database.begin() as connection:
        seeded = seed(connection)
    trajectory = seeded.trajectories[0]
    assert send(empty_pages, f"/notes/trajectory/{trajectory}", comment="Look at turn 2") == 302
    assert "Look at turn 2" in empty_pages.get(f"/trajectories/{trajectory}").text
    shown = empty_pages.get(f"/evaluations/{seeded.evaluations['passed']}").text
    target = re.search(r'action="(/notes/candidate/[0-9a-f-]{36})"', shown)
    assert target is not None
    assert send(empty_pages, target[1], tag="reference-kernel") == 302
    assert (
        "reference-kernel" in empty_pages.get(f"/evaluations/{seeded.evaluations['passed']}").text
    )
    assert (
        empty_pages.get(target[1]).headers["Location"].endswith(str(seeded.evaluations["passed"]))
    )


def test_a_run_has_them_and_is_named_where_they_are_listed(
    empty_pages: FlaskClient, database: Database
) -> None:
    run_id = ids.new_id()
    with database.begin() as connection:
        Seeder(connection).insert(tables.runs, run_id=run_id, name="qwen-step-40", settings={})
    path = f"/notes/run/{run_id}"
    assert send(empty_pages, path, comment="Learning rate was **halved** here") == 302
    assert send(empty_pages, path, tag="baseline") == 302
    shown = empty_pages.get(f"/runs/{run_id}").text
    assert "<strong>halved</strong>" in shown
    assert "baseline" in shown
    listed = empty_pages.get("/notes?on=run").text
    assert listed.count("qwen-step-40") == 2
    assert empty_pages.get(path).headers["Location"].endswith(f"/runs/{run_id}")
