"""Search over everything: by whole and short ids, hash of a source, names; with the
keyboard in a browser.
"""

from __future__ import annotations

import re

import sqlalchemy as sa
from flask.testing import FlaskClient

from app.domain import ids
from app.store import tables
from app.store.postgres.database import Database
from tests.integration.web_seed import History


def found(pages: FlaskClient, text: str) -> list[tuple[str, str]]:
    """Kind and URL of each hit."""
    answer = pages.get("/search.json", query_string={"q": text})
    return [
        (hit["kind"], hit["url"]) for hit in answer.get_json()["hits"] if hit["kind"] != "filter"
    ]


def test_ids_are_found_whole_short_and_by_their_beginning(
    pages: FlaskClient, history: History
) -> None:
    seeded = history.seeded
    for kind, noun, identifier in (
        ("evaluation", "evaluations", seeded.evaluations["passed"]),
        ("job", "jobs", seeded.jobs["failed"]),
        ("trajectory", "trajectories", seeded.trajectories[0]),
        ("problem", "problems", seeded.problems[0]),
    ):
        wanted = (kind, f"/{noun}/{identifier}")
        for text in (
            str(identifier),
            identifier.hex.upper(),
            str(identifier)[-8:],
            str(identifier)[:30],
        ):
            assert wanted in found(pages, text), text
        assert (
            pages.get("/search", query_string={"q": str(identifier)}).headers["Location"]
            == wanted[1]
        )
        assert (
            pages.get("/search", query_string={"q": str(identifier)[-8:]}).headers["Location"]
            == wanted[1]
        )
    assert found(pages, "00000000") == []
    assert (
        "Nothing found" not in pages.get("/search?q=00000000&all=yes").text
    )  # candidates of such a problem are offered


def test_names_of_runs_models_problems_detectors_and_pages_are_found(pages: FlaskClient) -> None:
    assert (found(pages, "rl-step-120")[0][0], "run") == ("run", "run")
    kinds = {kind for kind, _ in found(pages, "softmax")}
    assert "problem" in kinds
    model = pages.get("/runs.json").get_json()["runs"][0]["model"]
    assert "model" in {kind for kind, _ in found(pages, model[:-1])}
    assert ("detector", "/hacks/decoy_kernel") in found(pages, "decoy")
    assert ("page", "/jobs") in found(pages, "jobs")
    assert found(pages, "100%_") == []


def test_a_source_is_found_by_its_hash_and_by_its_text(
    pages: FlaskClient, history: History
) -> None:
    database = Database(history.settings.database_url or "")
    with database.read() as connection:
        source = connection.scalar(
            sa.select(tables.candidates.c.source)
            .join(tables.jobs, tables.jobs.c.candidate_id == tables.candidates.c.candidate_id)
            .join(tables.evaluations, tables.evaluations.c.job_id == tables.jobs.c.job_id)
            .where(tables.evaluations.c.evaluation_id == history.seeded.evaluations["hack"])
        )
    database.dispose()
    digest = ids.sha256(bytes(source or b""))
    ((kind, url),) = found(pages, digest[:12])
    assert (kind, url) == ("candidate", f"/evaluations/{history.seeded.evaluations['hack']}")
    token = re.search(r'name="csrf_token" value="([^"]+)"', pages.get("/search").text)
    assert token is not None
    sent = {"csrf_token": token[1], "source": bytes(source or b"").decode()}
    assert pages.post("/search/source", data=sent).headers["Location"] == f"/search?q={digest}"
    assert pages.post("/search/source", data={"csrf_token": token[1]}).status_code == 400
    assert pages.get("/search", query_string={"q": "x" * 201}).status_code == 400
