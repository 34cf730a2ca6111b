"""Problems, runs, trajectories and exports over HTTP, and the OpenAPI document."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.domain import result
from app.export import background as making
from app.store.postgres.database import Database
from app.web.api import openapi, schemas
from tests.integration.web_app import UNKNOWN


def test_a_trajectory_that_is_sent_again_is_the_same(site: FlaskClient) -> None:
    """The Python client sends it again after a lost answer."""
    body = {
        "reference": "r",
        "trajectory_id": UNKNOWN,
        "turns": [{"response": "a"}, {"response": "b", "candidate": "c"}],
    }
    told = [site.post("/v1/trajectories", json=body) for _ in range(2)]
    assert [each.status_code for each in told] == [201, 201]
    assert told[0].json == told[1].json
    changes: list[dict[str, Any]] = [{"turns": []}, {"campaign": {"name": "another run"}}]
    for change in changes:
        other = site.post("/v1/trajectories", json=body | change)
        assert (other.status_code, other.json["error"]["kind"]) == (409, "conflict")
    by_cases = {"response": "r", "candidate": "c", "workflow": "kernel_simple"}
    assert site.post(f"/v1/trajectories/{UNKNOWN}/turns", json=by_cases).status_code == 409


def test_moments_are_rfc_3339(site: FlaskClient) -> None:
    stored = site.post("/v1/runs", json={"name": "a", "step": 3.0}).json
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00", stored["created_at"])
    assert stored["step"] == 3, "3.0 is an integer in JSON"
    assert site.get("/v1/runs").json["runs"] == [stored]


def test_the_document_reads_in_javascript() -> None:
    text = json.dumps(openapi.document())
    assert "\\\\Z" not in text
    assert "\\\\ud800" not in text


def test_problems_and_runs(site: FlaskClient) -> None:
    body = {"reference": "import torch", "name": "softmax", "source_set": "mine", "level": 1}
    problem = site.post("/v1/problems", json=body)
    assert problem.status_code == 201
    assert site.post("/v1/problems", json=body).json == problem.json
    assert site.get(problem.location).json["reference"] == "import torch"
    told = site.post(
        "/v1/evaluations", json={"problem_id": problem.json["problem_id"], "candidate": "c"}
    )
    assert told.status_code == 202
    for number in range(3):
        site.post("/v1/problems", json=body | {"name": f"p{number}"})
    first = site.get("/v1/problems?source_set=mine&limit=3").json
    rest = site.get(first["next"]).json
    assert [each["name"] for each in first["problems"] + rest["problems"]] == [
        "p2",
        "p1",
        "p0",
        "softmax",
    ]
    assert rest["next"] is None
    run = site.post("/v1/runs", json={"name": "a", "model": "m", "settings": {"temperature": 1.0}})
    alone = site.get(run.location).json
    assert alone == run.json | {"figures": alone["figures"]}
    assert (alone["figures"]["attempts"], alone["figures"]["hack_ratio"]) == (0, None)
    assert site.post("/v1/runs", json={"name": "a", "model": "other"}).status_code == 409
    assert site.post("/v1/runs", json={"name": "b", "settings": {"x": ["\0"]}}).status_code == 400
    assert [each["name"] for each in site.get("/v1/runs?name=a").json["runs"]] == ["a"]


def test_trajectories_grow_turn_by_turn(site: FlaskClient) -> None:
    turn = {
        "response": "odd \ud800\0",
        "messages": [{"role": "user", "content": "go"}],
        "candidate": "c0",
    }
    made = site.post(
        "/v1/trajectories",
        json={
            "reference": "r",
            "backend": "torch",
            "campaign": {"name": "a"},
            "label": "t",
            "turns": [turn],
        },
    )
    assert made.status_code == 201
    path = made.location
    second = turn | {"candidate": "c1", "turn_index": 1}
    appended = site.post(f"{path}/turns", json=second)
    assert (appended.status_code, appended.json["turn_index"]) == (201, 1)
    assert site.post(f"{path}/turns", json=second).json == appended.json, (
        "the same again appends nothing"
    )
    assert site.post(f"{path}/turns", json=second | {"candidate": "c2"}).status_code == 409
    gap = site.post(f"{path}/turns", json=turn | {"turn_index": 5})
    assert "expected 2" in gap.json["error"]["message"]
    assert site.post(f"{path}/turns", json={"response": "no code"}).json["job_id"] is None
    read = site.get(path).json
    assert [each["response"] for each in read["turns"]] == [
        "odd \ud800\0",
        "odd \ud800\0",
        "no code",
    ]
    assert read["run"] == "a"
    assert site.get(f"/v1/evaluations/{appended.json['job_id']}").json["state"] == "queued"
    [listed] = site.get("/v1/trajectories?run=a").json["trajectories"]
    assert listed["turns"] == 3
    assert (
        site.post(
            "/v1/trajectories", json={"reference": "r", "campaign": {"name": "a", "step": 3}}
        ).status_code
        == 409
    )


def test_the_document_says_what_results_are(site: FlaskClient) -> None:
    told = site.get("/v1/openapi.json").json
    assert set(told["components"]["schemas"]["Result"]["properties"]) == set(result.KEYS)
    bodies = ("EvaluationBody", "RewardBody", "TrajectoryBody", "AppendBody")
    defaults = {
        told["components"]["schemas"][name]["properties"]["workflow"]["default"] for name in bodies
    }
    assert defaults == {"kernelbench"}
    assert told == json.loads(json.dumps(openapi.document()))
    served = {
        rule.rule for rule in site.application.url_map.iter_rules() if rule.rule.startswith("/v1/")
    }
    assert len(told["paths"]) == len(served) - 1, (
        "every route is described, but the document itself"
    )
    assert list(schemas.Options.__struct_fields__) == list(
        told["components"]["schemas"]["EvaluationOptions"]["properties"]
    )


def test_the_document_says_that_a_pass_rate_of_problems_needs_a_run(site: FlaskClient) -> None:
    spec = site.get("/v1/openapi.json").json["components"]["schemas"]["Spec"]
    assert spec["anyOf"][-1] == {
        "required": ["rate_run"],
        "properties": {"rate_run": {"not": {"type": "null"}}},
    }
    asked = {"source": "problems", "pass_rate": [0.1, 0.9]}
    assert "rate_run" in site.post("/v1/exports", json={"spec": asked}).json["error"]["message"]


def test_exports_are_made_watched_and_fetched(
    site: FlaskClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for spec, said in (
        ({"format": "nothing"}, "unknown"),
        ({"where": "speed >"}, "expected"),
        ({"tokenizer": "file:/etc/passwd"}, "needs no file"),
        ({"held_out": ["/etc/passwd"]}, "names of source sets"),
        ({"sneed": 1}, "sneed"),
    ):
        refused = site.post("/v1/exports", json={"spec": spec})
        assert refused.status_code == 400, spec
        assert said in refused.json["error"]["message"], refused.json
    with monkeypatch.context() as patched:
        patched.setattr(making, "MAKING", 0)
        busy = site.post("/v1/exports", json={"spec": {"format": "trl_sft"}})
    assert (busy.status_code, busy.json["error"]["kind"]) == (429, "too_many_requests")
    assert busy.headers["Retry-After"]
    made = site.post("/v1/exports", json={"spec": {"format": "trl_sft"}})
    assert made.status_code == 202
    for _ in range(600):
        shown = site.get(made.location).json
        if shown["state"] not in ("queued", "running"):
            break
        time.sleep(0.1)
    assert shown["state"] == "failed", "there is nothing to export yet"
    assert "nothing to export" in shown["error"]
    assert site.get(f"{made.location}/files/manifest.json").status_code == 404
    assert site.delete(made.location).json["state"] == "failed"
    assert site.post(f"{made.location}:resume").status_code == 409
    assert [each["export_job_id"] for each in site.get("/v1/exports").json["exports"]] == [
        shown["export_job_id"]
    ]
