"""Reviews, their reasons, and the datasets that they make stale: by `/v1` and by command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner
from flask.testing import FlaskClient

from app import cli
from app.export import Manifest, export, spec_of
from app.settings import Settings
from app.store.postgres.database import Database
from tests.integration import dataset_seed
from tests.integration.web_app import opened

REASON = "line 7 returns the cache"


@pytest.fixture
def stored(database: Database) -> dict[str, dataset_seed.Stored]:
    return dataset_seed.fill(database)


@pytest.fixture
def dataset(database: Database, stored: dict[str, dataset_seed.Stored], tmp_path: Path) -> Manifest:
    """A dataset as `assay export` makes it."""
    return export(database, spec_of({"similarity": "none", "kind": "single"}), tmp_path / "set")


@pytest.fixture
def site(settings: Settings, dataset: Manifest) -> Iterator[FlaskClient]:
    with opened(settings) as app:
        yield app.test_client()


def test_a_review_by_http_makes_datasets_of_the_command_line_stale(
    site: FlaskClient, stored: dict[str, dataset_seed.Stored], dataset: Manifest
) -> None:
    evaluation_id = str(stored["fast0"].evaluation_id)
    [made] = site.get("/v1/datasets").json["datasets"]
    assert (made["export_id"], made["stale_at"], made["rows"]) == (
        dataset.export_id,
        None,
        dataset.rows,
    )
    assert site.get("/v1/datasets?stale=true").json == {"datasets": []}
    body = {
        "evaluation_id": evaluation_id,
        "label": "hack",
        "reason": REASON,
        "hack_type": "decoy kernel",
    }
    said = site.post("/v1/reviews", json=body)
    assert (said.status_code, said.json["reason"], said.json["verdict"]) == (201, REASON, "hack")
    [stale] = site.get("/v1/datasets?stale=true").json["datasets"]
    assert (
        stale["stale_reason"] == f"evaluation {evaluation_id}: clean → hack by local, review: hack"
    )
    whole = site.get(f"/v1/datasets/{dataset.export_id}").json
    assert (whole["stale_reason"], whole["manifest"]["rows"]) == (
        stale["stale_reason"],
        dataset.rows,
    )
    [listed] = site.get(f"/v1/reviews?evaluation_id={evaluation_id}").json["reviews"]
    assert listed == said.json
    undone = site.post(f"/v1/reviews/{said.json['review_id']}:undo")
    assert (undone.status_code, undone.json["withdraws"]) == (200, said.json["review_id"])
    assert site.post(f"/v1/reviews/{said.json['review_id']}:undo").status_code == 409
    assert len(site.get("/v1/reviews").json["reviews"]) == 2
    assert site.get("/v1/datasets?stale=true").json["datasets"] == [], (
        "every label is as it was when it was made"
    )


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"reason": "  ."}, 400, "reason"),
        (
            {"label": "withdrawn"},
            400,
            "label: expected one of clean, hack, leak, bug, unsure, got 'withdrawn'",
        ),
        ({"hack_type": "magic"}, 400, "hack_type: expected one of"),
        ({"label": "clean", "hack_type": "other"}, 400, "hack type: expected none with clean"),
        ({"evaluation_id": str(uuid4())}, 404, "evaluation"),
    ],
)
def test_a_bad_review_says_what_was_expected(
    site: FlaskClient,
    stored: dict[str, dataset_seed.Stored],
    change: dict[str, str],
    status: int,
    message: str,
) -> None:
    body = {"evaluation_id": str(stored["fast0"].evaluation_id), "label": "hack", "reason": REASON}
    answer = site.post("/v1/reviews", json=body | change)
    assert (answer.status_code, message in answer.json["error"]["message"]) == (
        status,
        True,
    ), answer.json
    assert site.get("/v1/reviews").json == {"reviews": []}
    assert site.get(f"/v1/datasets/{uuid4()}").status_code == 404


def test_reviews_by_command_line(
    settings: Settings, stored: dict[str, dataset_seed.Stored], dataset: Manifest
) -> None:
    evaluation_id = str(stored["fast0"].evaluation_id)

    def asked(*arguments: str, code: int = 0) -> str:
        done = CliRunner(env=settings.to_env()).invoke(
            cli.main, list(arguments), catch_exceptions=False
        )
        assert done.exit_code == code, done.output
        return done.stdout if code == 0 else done.output

    review_id = asked("reviews", "add", evaluation_id, "hack", "--reason", REASON).strip()
    [one] = json.loads(asked("reviews", "--json", "--evaluation", evaluation_id))
    assert (one["review_id"], one["reason"], one["verdict"]) == (review_id, REASON, "hack")
    [stale] = json.loads(asked("datasets", "--stale", "--json"))
    assert (stale["export_id"], stale["stale_reason"].split(":")[0]) == (
        dataset.export_id,
        f"evaluation {evaluation_id}",
    )
    asked("reviews", "undo", review_id)
    assert "taken back" in asked("reviews", "undo", review_id, code=2)
    assert "expected at least 3 characters" in asked(
        "reviews", "add", evaluation_id, "clean", "--reason", ".", code=2
    )
    assert len(json.loads(asked("reviews", "--json"))) == 2
