"""Requests that the HTTP API refuses: the fault and the expectation that each names,
depth and length of bodies.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import quote
from uuid import uuid4

import flask
import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient

from app.domain.user import Role, Scope
from app.store import tables
from app.store.postgres.database import Database
from app.store.user import tokens, users
from app.web import body_limits
from app.web.api import schemas
from tests.integration.web_app import BODY, UNKNOWN


def deep(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


DEEP_BODIES = {
    "/v1/runs": f'{{"name": "d", "settings": {deep(33)}}}',
    "/v1/trajectories": (
        f'{{"reference": "r", "campaign": {{"name": "d", "settings": {deep(33)}}}}}'
    ),
    "/v1/evaluations": f'{{"reference": "r", "candidate": "c", "options": {deep(500)}}}',
    "/v1/evaluations:batch": f'{{"items": [{deep(500)}]}}',
    "/v1/exports": f'{{"spec": {deep(500)}}}',
    "/compat/slime/reward": deep(1500),
    "/compat/openrlhf/get_reward": deep(1500),
    "/evaluate": deep(1500),
    "/evaluate/batch": deep(500),
    "/workflow/submit": f'{{"task_id": "t", "payload": {deep(500)}}}',
    "/debug/validate": deep(50),
}


@pytest.mark.parametrize(("path", "body"), list(DEEP_BODIES.items()), ids=list(DEEP_BODIES))
def test_json_that_is_nested_too_deep_is_refused_everywhere(
    site: FlaskClient, path: str, body: str
) -> None:
    answer = site.post(path, data=body, content_type="application/json")
    assert answer.status_code == 400, answer.text[:300]
    assert "inside each other" in answer.text
    assert site.get("/v1/runs").json["runs"] == []


@pytest.mark.parametrize("levels", [33, 500, 800])
def test_deep_settings_that_are_stored_already_break_no_list(
    site: FlaskClient, database: Database, levels: int
) -> None:
    with database.begin() as connection:
        row = {"run_id": uuid4(), "name": "poison", "settings": json.loads(deep(levels))}
        connection.execute(sa.insert(tables.runs).values(row))
    assert site.get("/v1/runs").json["runs"][0]["name"] == "poison"
    assert site.get(f"/v1/runs/{row['run_id']}").status_code == 200
    assert "poison" in site.get("/runs").text
    assert site.get(f"/runs/{row['run_id']}").status_code == 200


def test_a_run_is_read_by_any_name_that_it_may_have(site: FlaskClient) -> None:
    for name in ("a", "/a", "a//b", "/", "a\nb", "..", "%2e", "a?b#c"):
        made = site.post("/v1/runs", json={"name": name, "model": "m"}).json
        assert site.get(f"/v1/runs/{quote(name, safe='')}").json["run_id"] == made["run_id"], name


def test_a_number_beyond_every_float_is_refused(site: FlaskClient) -> None:
    body = '{"name": "d", "settings": {"a": 1e999}}'
    assert site.post("/v1/runs", data=body, content_type="application/json").status_code == 400


def test_null_in_a_query_is_a_text(site: FlaskClient) -> None:
    for path in (
        "/v1/problems?before=null",
        "/v1/runs?before=null",
        "/v1/trajectories?problem_id=null",
    ):
        assert site.get(path).status_code == 400, path
    assert site.get("/v1/runs?name=null").status_code == 200
    assert (
        site.get("/v1/runs?nam=a")
        .json["error"]["message"]
        .endswith("expected one of before, limit, name")
    )


def test_an_operation_without_a_query_takes_none(site: FlaskClient) -> None:
    """One that is ignored would look like one that is obeyed."""
    told = site.post(
        "/v1/evaluations?wait=60", json={"reference": "r", "candidate": "c", "backend": "torch"}
    )
    assert told.status_code == 400
    assert told.json["error"]["message"] == "query: unknown parameter 'wait'; expected none"
    told = site.post("/compat/slime/reward?rewrad=dr_kernel", json={"response": "", "label": ""})
    assert told.status_code == 400
    assert told.json["error"]["message"].startswith(
        "unknown parameter 'rewrad'; expected one of gpu, reward"
    )


@pytest.mark.parametrize("path", ["/v1/evaluations", "/evaluate", "/compat/slime/reward"])
def test_a_compressed_body_is_refused_by_its_name(site: FlaskClient, path: str) -> None:
    for coding, status in (("gzip", 415), ("br", 415), ("identity", 400)):
        told = site.post(path, json={"unknown": 1}, headers={"Content-Encoding": coding})
        assert told.status_code == status, coding
        assert ("Content-Encoding: expected none" in told.text) == (status == 415)


def test_a_text_that_the_database_cannot_hold_is_refused_in_a_selection(site: FlaskClient) -> None:
    assert site.post("/v1/exports", json={"spec": {"device": "a\0"}}).status_code == 400


def test_only_what_takes_sources_takes_long_bodies(made: Callable[..., flask.Flask]) -> None:
    app = made()
    large = {
        rule.rule
        for rule in app.url_map.iter_rules()
        if body_limits.of(app.view_functions[rule.endpoint]) > 4 << 20
    }
    assert {path for path in large if not path.startswith("/kernelgym")} == {
        "/v1/evaluations",
        "/v1/evaluations:batch",
        "/v1/problems",
        "/v1/reward",
        "/v1/rollouts:batch",
        "/v1/trajectories",
        "/search/source",
        "/v1/trajectories/<uuid:trajectory_id>/turns",
        "/jobs/new",
        "/compat/openrlhf/get_reward",
        "/compat/slime/reward",
        "/evaluate",
        "/evaluate/batch",
        "/workflow/submit",
        "/debug/validate",
    }
    body = b'{"job_ids":[' + b"[]," * (1 << 20) + b"[]]}"
    for path in ("/v1/evaluations:results", "/v1/evaluations:wait", "/v1/runs", "/v1/exports"):
        answer = app.test_client().post(path, data=body, content_type="application/json")
        assert (answer.status_code, answer.json["error"]["kind"]) == (
            413,
            "request_entity_too_large",
        ), path
    assert app.test_client().post("/login", data={"name": "a" * (3 << 20)}).status_code == 413


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("{", "expected JSON"),
        ('{"candidate": NaN}', "NaN is no JSON"),
        ("[" * 100_000, "inside each other"),
        ("[]", "Expected `object`, got `array`"),
        (json.dumps(BODY | {"backend": "fortran"}), "unknown backend 'fortran'; expected one of"),
        (
            json.dumps(BODY | {"workflow": "magic"}),
            "unknown workflow 'magic'; expected one of kernel_simple, kernelb",
        ),
        (json.dumps(BODY | {"run": "a\0b"}), "$.run"),
        (json.dumps(BODY | {"run": "\ud800"}), "$.run"),
        (json.dumps(BODY | {"problem_id": UNKNOWN}), "got reference and problem_id"),
        (json.dumps(BODY | {"candidate": {"base64": "?"}}), "expected base64"),
        (
            json.dumps(BODY | {"candidate": "c" * ((16 << 20) + 1)}),
            "expected at most 16777216 bytes",
        ),
    ],
)
def test_what_cannot_be_done_says_what_was_expected(
    site: FlaskClient, body: str, said: str
) -> None:
    refused = site.post("/v1/evaluations", data=body, content_type="application/json")
    assert (refused.status_code, refused.json["error"]["kind"]) == (400, "bad_request")
    assert said in refused.json["error"]["message"]


SURROGATE_BODIES = {
    "/v1/runs": {"name": "r", "step": "\ud800"},
    "/v1/evaluations": BODY | {"options": "\ud800"},
    "/v1/exports": {"spec": "\ud800"},
    "/v1/collections:plan": {"spec": "\ud800"},
    "/v1/reviews": {"evaluation_id": "\ud800", "label": "hack", "reason": "x"},
    "/v1/rollouts:batch": {"items": [{"problem_id": "\ud800"}]},
    "/compat/slime/reward": "\ud800",
    "/compat/openrlhf/get_reward": {"query": "\ud800"},
    "/evaluate": {"task_id": "t", "num_correct_trials": "\ud800"},
}


@pytest.mark.parametrize(("path", "body"), list(SURROGATE_BODIES.items()), ids=SURROGATE_BODIES)
def test_lone_surrogates_in_place_of_another_type_are_refused(
    site: FlaskClient, path: str, body: object
) -> None:
    answer = site.post(path, data=json.dumps(body), content_type="application/json")
    assert answer.status_code == 400, answer.text[:300]


def test_other_refusals(site: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert site.post("/v1/evaluations", data="x" * 1000, content_type="text/csv").status_code == 415
    monkeypatch.setattr(body_limits, "LARGEST_BODY_BYTES", 1000)
    large = site.post("/v1/evaluations", json=BODY | {"candidate": "c" * 2000})
    assert (large.status_code, large.json["error"]["kind"]) == (413, "request_entity_too_large")
    assert large.json["error"]["message"].startswith("body: expected at most ")
    for path in (f"/v1/evaluations/{uuid4()}", f"/v1/problems/{uuid4()}", "/v1/nothing"):
        missing = site.get(path)
        assert (missing.status_code, missing.json["error"]["kind"]) == (404, "not_found")
    assert (
        site.get("/v1/runs?limit=0")
        .json["error"]["message"]
        .startswith("query: Expected `int` >= 1")
    )
    assert site.get("/v1/runs?page=1").status_code == 400
    assert site.put("/v1/runs").status_code == 405


def test_scopes(made: Callable[..., flask.Flask], database: Database) -> None:
    with database.begin() as connection:
        ada = users.add(connection, name="ada", role=Role.ADMIN, password_hash=None)
        _, reading = tokens.add(connection, user_id=ada.user_id, name="t", scopes=[Scope.READ])
        _, submitting = tokens.add(
            connection, user_id=ada.user_id, name="t", scopes=[Scope.READ, Scope.SUBMIT]
        )
    site = made().test_client()
    assert site.post("/v1/evaluations", json=BODY).status_code == 401
    assert site.get("/v1/runs", headers={"Authorization": f"Bearer {reading}"}).status_code == 200
    refused = site.post(
        "/v1/evaluations", json=BODY, headers={"Authorization": f"Bearer {reading}"}
    )
    assert (refused.status_code, refused.json["error"]["kind"]) == (403, "forbidden")
    assert site.post("/v1/evaluations", json=BODY, auth=("token", submitting)).status_code == 202
    assert site.get("/v1/openapi.json").status_code == 200


def test_no_text_of_a_selection_may_hold_nul(site: FlaskClient) -> None:
    spec = site.get("/v1/openapi.json").json["components"]["schemas"]["Spec"]["properties"]
    kinds = [kind for each in spec.values() for kind in (each, *each.get("anyOf", ()))]
    texts = [
        one
        for kind in kinds
        for one in (kind, kind.get("items") or {})
        if one.get("type") == "string"
    ]
    assert len(texts) > 5
    assert [text for text in texts if not {"pattern", "enum", "format"} & text.keys()] == []
    refused = site.post("/v1/exports", json={"spec": {"families": ["a\0"]}})
    assert refused.status_code == 400


def test_the_document_allows_no_selection_that_names_a_file(site: FlaskClient) -> None:
    components = site.get("/v1/openapi.json").json["components"]["schemas"]
    assert components["Spec"]["properties"]["mrs"] == {"type": "null"}
    assert components["Declared"]["properties"]["mismatch"] == {"type": "null"}
    named = {"file": "scored.jsonl", "sha256": "0" * 64}
    masked = {"recipe": {"method": "trloo"}, "runs": ["r"], "mismatch": named}
    for spec in ({"mrs": named}, {"format": "rewards", "advantages": masked}):
        refused = site.post("/v1/exports", json={"spec": spec})
        assert (refused.status_code, refused.json["error"]["kind"]) == (400, "bad_request")
        assert "needs no file" in refused.json["error"]["message"]


def test_the_document_has_the_bounds_of_mismatch_rejection(site: FlaskClient) -> None:
    properties = site.get("/v1/openapi.json").json["components"]["schemas"]["Mismatch"][
        "properties"
    ]
    assert (properties["lower"]["maximum"], properties["upper"]["minimum"]) == (1, 1)
    recipe = {"method": "trloo", "mismatch": {"lower": 0.999, "upper": 0.9999}}
    spec = {"format": "rewards", "advantages": {"recipe": recipe, "runs": ["r"]}}
    assert site.post("/v1/exports", json={"spec": spec}).status_code == 400


def test_a_full_trajectory_takes_no_turn(site: FlaskClient) -> None:
    turn = {"response": "none", "candidate": None}
    made = site.post(
        "/v1/trajectories", json={"reference": "r", "turns": [turn] * schemas.MOST_TURNS}
    )
    assert made.status_code == 201, made.json
    assert site.post(f"{made.location}/turns", json=turn).status_code == 409


def test_a_program_that_forgets_its_content_type_is_told_of_it(site: FlaskClient) -> None:
    program = site.application.test_client(use_cookies=False)
    answer = program.post("/v1/evaluations", data={"{": ""})
    assert answer.status_code == 403
    assert "of a program Content-Type: application/json" in answer.json["error"]["message"]
    assert "x-www-form-urlencoded" in answer.json["error"]["message"]
