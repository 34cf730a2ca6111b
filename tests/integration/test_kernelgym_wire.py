"""KernelGYM's protocol with a worker that pretends: names, workflows, cases,
batches, errors, tokens, monitoring.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest
from flask.testing import FlaskClient

from app.client import Client
from app.domain.user import Role, Scope
from app.settings import Settings
from app.store.queue import devices, jobs, kernelgym
from app.store.user import tokens, users
from app.web.identity import authentication
from tests.integration import fakes
from tests.integration.fakes import CASES
from tests.integration.kernelgym import Start, kernel, payload, post
from tests.integration.web_app import opened


def test_a_name_stands_for_one_job(
    site: FlaskClient, client: Client, fake_worker: Popen[bytes], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    first = post(site, "a", f"log {log} ran", reference_backend="torch_compile").json
    assert first["metadata"]["reference_backend"] == "eager"
    assert "'torch_compile' was asked for" in first["metadata"]["reference_backend_error"]
    assert (first["status"], first["correctness"], first["error_code"]) == (
        "completed",
        False,
        "CORRECTNESS_ERROR",
    )
    assert (
        post(site, "a", "another kernel altogether").json == first
    )  # replayed, as the protocol has it
    assert site.get("/results/a").json == first
    assert site.get("/results/a_kernel").json["metadata"] == first["metadata"]
    assert site.get("/status/a").json["error_message"] == "expected 1, got 2"
    assert site.get("/workflow/results/a").json["result"]["correctness"] is False
    assert log.read_text().split() == ["ran"]
    fresh = post(site, "a", f"log {log} again", force_refresh=True).json
    assert fresh["metadata"]["job_id"] != first["metadata"]["job_id"]
    assert log.read_text().split() == ["ran", "again"]


def test_a_workflow_is_the_same_with_a_payload(
    site: FlaskClient, fake_worker: Popen[bytes]
) -> None:
    fields = payload("w", kernel())
    del fields["task_id"]
    answer = site.post("/workflow/submit", json={"payload": fields, "task_id": "w"})
    assert (answer.status_code, answer.json["status"], answer.json["result"]["compiled"]) == (
        200,
        "completed",
        True,
    )
    assert site.post("/workflow/submit", json={"payload": fields}).json == {
        "detail": "task_id is required"
    }
    unknown = site.post(
        "/workflow/submit", json={"workflow": "mine", "payload": fields, "task_id": "x"}
    )
    assert (unknown.status_code, "Registry missing 'mine'" in unknown.json["detail"]) == (400, True)


INLINE = [
    {"inputs": [1, 2], "outputs": 3, "name": "small"},
    {"input": [[-1.5]], "output": [0], "atol": 0.5},
]


def by_cases(task_id: str, **fields: Any) -> dict[str, Any]:
    """Body of the protocol's own example of that workflow."""
    return {
        "task_id": task_id,
        "kernel_code": kernel(),
        "entry_point": "ModelNew",
        "backend": "triton",
        "device": "cuda:0",
        "run_correctness": True,
        "run_performance": True,
        "num_warmup": 5,
        **fields,
    }


def test_cases_are_served_however_they_come(
    site: FlaskClient, client: Client, fake_worker: Popen[bytes]
) -> None:
    code = by_cases("code", cases_code=CASES)
    for path in ("/workflow/submit", "/kernelgym/workflow/submit"):
        answer = site.post(
            path, json={"workflow": "kernel_simple", "payload": code, "task_id": "code"}
        ).json
        found = answer["result"]
        assert (answer["status"], found["compiled"], found["correctness"]) == (
            "completed",
            True,
            False,
        )
        assert (found["kernel_runtime"], found["reference_runtime"], found["speedup"]) == (
            -1.0,
            -1.0,
            0.0,
        )
    assert (found["metadata"]["cases_source"], found["metadata"]["num_cases"]) == ("cases_code", 2)
    assert found["metadata"]["correctness_failed_cases"] == ["negative"]
    assert found["metadata"]["runtime_stats"]["undisturbed"] == 1.5

    asked = {
        "workflow": "kernel_simple",
        "run_performance": False,
        "entry_point": "Model",
        "cases": INLINE,
    }
    inline = site.post("/evaluate", json=by_cases("inline", **asked)).json
    assert (inline["correctness"], inline["error_code"]) == (False, "CORRECTNESS_ERROR")
    metadata = inline["metadata"]
    assert (metadata["cases_source"], metadata["performance_skipped"]) == ("inline", True)
    assert site.get("/results/inline").json == inline
    assert site.get("/workflow/results/inline").json["result"]["metadata"] == metadata
    by_toolkit = site.post(
        "/evaluate", json=by_cases("t", toolkit="kernel_simple", cases=INLINE)
    ).json
    assert by_toolkit["metadata"]["num_cases"] == 2
    with client.database.begin() as connection:
        tasks = kernelgym.get(connection, "", ["code", "inline", "t"])
    assert {task.workflow for task in tasks.values()} == {"kernel_simple"}


def test_a_batch_of_both_kinds(site: FlaskClient, fake_worker: Popen[bytes]) -> None:
    tasks = [payload("a", kernel()), by_cases("b", workflow="kernel_simple", cases=INLINE[0])]
    answer = site.post("/evaluate/batch", json={"batch_id": "b", "tasks": tasks}).json
    model, cases = (each["metadata"] for each in answer["results"])
    assert (model["reference_task_id"], "cases_source" in model) == ("a_ref", False)
    assert (cases["cases_source"], "reference_task_id" in cases) == ("inline", False)
    own = by_cases("c", workflow="kernel_simple")
    refused = site.post("/evaluate/batch", json={"batch_id": "b", "tasks": [*tasks, own]})
    assert (refused.status_code, "tasks[2]" in refused.json["message"]) == (400, True)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"kernel_code": kernel(CASES)}, "a candidate that brings its own tests proves nothing"),
        (
            {"cases_code": "def get_inputs(): return [1, 2]"},
            "get_inputs() alone: without outputs there is nothing",
        ),
        ({"cases": [{"inputs": [1]}]}, "cases[0]: expected outputs, found inputs: without outputs"),
        ({"cases": INLINE, "entry_point": "Fast"}, "of a name that ends in New"),
    ],
)
def test_cases_that_prove_nothing_are_refused(
    site: FlaskClient, fields: dict[str, Any], why: str
) -> None:
    body = {"workflow": "kernel_simple", "payload": by_cases("y", **fields), "task_id": "y"}
    refused = site.post("/workflow/submit", json=body)
    assert (refused.status_code, refused.headers["X-Error-Code"]) == (400, "VALIDATION_ERROR")
    assert why in refused.json["message"]
    assert site.get("/status/y").status_code == 404


def test_a_batch_is_evaluated_side_by_side(
    site: FlaskClient, start_worker: Start, tmp_path: Path
) -> None:
    for index in range(2):
        start_worker(module=fakes.WORKER, device_index=index)
    meeting = tmp_path / "meeting"
    tasks = [
        payload(f"b{n}", kernel(f"meet {meeting} 2", *(["wrong"] * n))) for n in range(2)
    ]  # one alone waits for ever
    answer = site.post("/evaluate/batch?wait=30", json={"batch_id": "b", "tasks": tasks}).json
    assert [each["task_id"] for each in answer["results"]] == ["b0", "b1"]
    assert (answer["total_tasks"], answer["completed_tasks"], answer["batch_status"]) == (
        2,
        2,
        "completed",
    )
    one_bad = site.post(
        "/evaluate/batch", json={"batch_id": "b", "tasks": [*tasks, {"task_id": "c"}]}
    )
    assert one_bad.status_code == 400
    assert "tasks[2]" in one_bad.json["message"]


def test_errors_have_the_protocols_shapes(site: FlaskClient) -> None:
    bad = site.post("/evaluate", json=payload("a", "short"))
    assert (bad.status_code, bad.headers["X-Error-Code"]) == (400, "VALIDATION_ERROR")
    assert list(bad.json) == ["error", "message", "error_code", "task_id", "timestamp"]
    assert bad.json["error"] == "RequestValidationError"
    for path in ("/status/nobody", "/results/nobody", "/workflow/results/nobody", "/status/a%00b"):
        answer = site.get(path)
        assert answer.status_code == 404
        assert answer.json["detail"].endswith("not found")
    assert site.delete("/tasks/nobody").status_code == 404
    assert site.post("/evaluate?wait=never", json=payload("a", kernel())).status_code == 400
    elsewhere = site.post("/evaluate", json=payload("a", kernel(), device_preference="cuda:9"))
    assert (
        elsewhere.status_code,
        "cuda:<index> of an online GPU" in elsewhere.json["message"],
    ) == (400, True)


def test_errors_are_no_pages(site: FlaskClient) -> None:
    said = [site.get("/kernelgym/nothing"), site.put("/evaluate", headers={"Accept": "*/*"})]
    assert [(each.status_code, each.is_json) for each in said] == [(404, True), (405, True)]


def test_a_name_may_hold_any_text(site: FlaskClient) -> None:
    post(site, "problems/1_relu?#%2e", wait=0)
    for path in ("status", "results", "workflow/results"):
        assert (
            site.get(f"/{path}/problems%2F1_relu%3F%23%252e").json["task_id"]
            == "problems/1_relu?#%2e"
        )
    assert site.delete("/tasks/problems%2F1_relu%3F%23%252e").status_code == 200


def test_a_request_without_waiting_is_answered_at_once(site: FlaskClient) -> None:
    answer = post(site, "a", wait=0)
    assert (answer.status_code, answer.json["status"], answer.json["metadata"]) == (
        200,
        "pending",
        None,
    )
    assert site.get("/status/a").json["status"] == "pending"
    assert site.get("/queue/status").json["pending"] == 1
    assert site.get("/health").json["queue_status"]["pending"] == 1


def test_monitoring_tells_what_is_so(
    site: FlaskClient, client: Client, fake_worker: Popen[bytes]
) -> None:
    post(site, "a")
    (worker_id,) = site.get("/workers/status").json
    worker = site.get("/workers/status").json[worker_id]
    assert list(worker) == ["device", "status", "last_heartbeat", "node_id", "hostname"]
    assert (worker["device"], worker["status"]) == ("cpu", "online")
    assert (
        site.get("/monitoring/worker-health").json["workers"][worker_id]["cuda_error_shutdown"]
        is False
    )
    assert site.get("/health").json["total_processed"] == 1
    assert site.get("/kernelgym/metrics").json["performance_metrics"]["throughput_per_hour"] == 1
    assert site.get("/kernelgym/").json["name"] == "KernelGym"
    assert site.get("/kernelgym/status/a").json == site.get("/status/a").json
    assert site.get("/monitoring/retry-queue").json["retry_queue_size"] == 0

    known = f"worker_id={worker_id}&device=cpu"
    assert site.post(f"/worker/register?{known}").json["node_id"] == worker["node_id"]
    assert site.post(f"/worker/heartbeat?{known}").json["success"] is True
    assert site.post("/worker/register?worker_id=x&device=cuda:0").status_code == 409
    assert site.post("/worker/register").status_code == 400
    assert (
        site.post(f"/worker/evict_from_lb?worker_id={worker_id}")
        .json["message"]
        .endswith("evicted from LB")
    )
    with client.database.begin() as connection:
        assert [device.state for device in devices.listed(connection)] == ["draining"]
    assert site.post("/node/allocate?hostname=GPU-7.example.org").json["node_id"] == "gpu-7"
    assert (
        site.post(f"/node/allocate?hostname=other&node_name={worker['node_id']}").status_code == 409
    )
    assert site.post("/monitoring/clear-error-history/abc").json["status"] == "success"


def test_a_token_may_stand_in_the_url(site: FlaskClient, client: Client) -> None:
    with client.database.begin() as connection:
        account = users.add(connection, name="ada", role=Role.ADMIN, password_hash="none")
        _, token = tokens.add(
            connection, user_id=account.user_id, name="t", scopes=[Scope.READ], expires_at=None
        )
    time.sleep(authentication.LOOK_S)  # until the web has noticed that there are users
    nobody = site.get("/health")
    assert (nobody.status_code, "token" in nobody.json["detail"]) == (401, True)
    assert (
        site.get("/health", auth=("any", token)).json["status"] == "healthy"
    )  # http://any:TOKEN@host
    forbidden = site.post("/evaluate", json=payload("a", kernel()), auth=("any", token))
    assert (forbidden.status_code, "submit" in forbidden.json["detail"]) == (403, True)


def test_a_name_is_its_users_own(
    site: FlaskClient, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "LOOK_S", 0.0)
    auth = []
    with client.database.begin() as connection:
        for name in ("ada", "ben"):
            account = users.add(connection, name=name, role=Role.ADMIN, password_hash="none")
            scopes = [Scope.READ, Scope.SUBMIT]
            auth.append(
                (name, tokens.add(connection, user_id=account.user_id, name="t", scopes=scopes)[1])
            )
    for each in auth:
        body = payload("test-001", kernel(f"of {each[0]}"))
        assert site.post("/evaluate?wait=0", json=body, auth=each).status_code == 200
    with client.database.begin() as connection:
        assert sum(jobs.counts(connection).values()) == 2
    site.delete("/tasks/test-001", auth=auth[0])
    assert site.get("/results/test-001", auth=auth[0]).json["status"] == "failed"
    assert site.get("/results/test-001", auth=auth[1]).json["status"] == "pending"


def test_a_name_is_stored_before_the_message_leaves(
    site: FlaskClient, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stored later, its reference to the job locks the job's row while a worker claims it."""
    sent = []

    def publish(_broker: Any, messages: Any) -> None:
        with client.database.begin() as connection:
            named = kernelgym.get(connection, "", ["a"])
        sent.append(len(messages) == len(named) == 1)

    monkeypatch.setattr("app.sending.messages.publish", publish)
    post(site, "a", wait=0)
    assert sent == [True]


def test_validation_runs_nothing(site: FlaskClient) -> None:
    good = "class Model:\n    pass\n"
    answer = site.post(
        "/debug/validate", json=payload("v", "class ModelNew:\n    pass", reference_code=good)
    ).json
    assert (answer["valid"], answer["errors"], answer["kernel"]["entry_point"]) == (
        True,
        [],
        "ModelNew",
    )
    assert answer["request_info"]["timeout"] == 60
    answer = site.post(
        "/debug/validate", json=payload("v", "def broken(:\n   pass", reference_code=good)
    ).json
    assert (answer["valid"], answer["reference"]["valid"], answer["kernel"]["valid"]) == (
        False,
        True,
        False,
    )
    simple = {
        "workflow": "kernel_simple",
        "cases": INLINE,
        "kernel_code": "class FastNew:\n    pass",
    }
    answer = site.post(
        "/debug/validate", json=by_cases("v", **simple | {"entry_point": "FastNew"})
    ).json
    assert (answer["valid"], answer["kernel"]["entry_point"], answer["workflow"]) == (
        True,
        "FastNew",
        "kernel_simple",
    )
    assert not {"reference", "cache", "resources"} & set(answer)
    misspelt = {"cases": None, "cases_code": "def my_get_cases(): ...", "entry_point": "ModelNew"}
    answer = site.post("/debug/validate", json=by_cases("v", **simple | misspelt)).json
    assert answer["errors"] == [
        "cases: expected a function get_cases, found my_get_cases",
        "kernel: expected a class ModelNew, found FastNew",
    ]
    assert site.get("/status/v").status_code == 404


def test_many_clients_at_once_are_one_job_a_name(settings: Settings, client: Client) -> None:
    with opened(settings) as app, ThreadPoolExecutor(8) as pool:
        codes = list(
            pool.map(lambda _: post(app.test_client(), "same", wait=0).status_code, range(24))
        )
    assert set(codes) == {200}
    with client.database.begin() as connection:
        assert sum(jobs.counts(connection).values()) == 1
