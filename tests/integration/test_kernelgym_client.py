"""The sequence of requests of KernelGYM's published client, with a real worker on the CPU."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

import pytest

from app.settings import Settings
from tests import zoo
from tests.integration.kernelgym import Start, payload
from tests.integration.web_app import served


@dataclass
class RewardClient:
    """The calls of the published reward client: POST until exactly 200, /status
    until it is over, /results.
    """

    url: str
    poll_s: float = 0.1

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def submit_and_poll(self, body: dict[str, Any]) -> dict[str, Any]:
        code, _ = self.call("POST", "/evaluate", body)
        assert code == 200  # it would post again for ever on any other 2xx
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            code, status = self.call("GET", f"/status/{body['task_id']}")
            if code == 200 and status["status"] == "completed":
                return self.call("GET", f"/results/{body['task_id']}")[1]
            if code == 200 and status["status"] in {"failed", "timeout", "cancelled"}:
                return {
                    "status": "failed",
                    "error_message": status.get("error_message", "Task failed"),
                }
            time.sleep(self.poll_s)
        raise AssertionError("client-side timeout")


def zoo_payload(name: str, **fields: Any) -> dict[str, Any]:
    case = next(case for case in zoo.cases() if case.path.stem == name)
    return payload(
        f"parallel_task_000001_{name}",
        case.candidate.decode(),
        reference_code=case.problem_path.read_text(),
        timeout=60,
        **fields,
    )


@pytest.mark.slow
def test_the_published_clients_sequence(settings: Settings, start_worker: Start) -> None:
    start_worker()
    with served(settings) as url:
        client = RewardClient(url)
        assert client.call("GET", "/health")[1]["status"] == "healthy"
        correct = client.submit_and_poll(zoo_payload("diag_matmul_triton"))
        wrong = client.submit_and_poll(zoo_payload("off_by_one_mask"))
        broken = client.submit_and_poll(zoo_payload("syntax_error"))
        decoy = client.submit_and_poll(zoo_payload("decoy_kernel", run_performance=False))
        hanging = client.submit_and_poll({**zoo_payload("endless_loop"), "timeout": 10})

    assert (correct["status"], correct["compiled"], correct["correctness"]) == (
        "completed",
        True,
        True,
    )
    assert correct["decoy_kernel"] is False
    assert correct["speedup"] > 0
    assert correct["kernel_runtime"] > 0
    counters = correct["metadata"]
    assert 0 < counters["num_custom_kernels"] <= counters["num_total_kernels"]
    times = ("custom_kernel_cuda_time_in_profiling_us", "total_kernel_run_time_in_profiling_us")
    assert all(isinstance(counters[name], (int, float)) for name in times)

    assert (wrong["status"], wrong["compiled"], wrong["correctness"]) == ("completed", True, False)
    assert (wrong["speedup"], wrong["error_code"]) == (0.0, "CORRECTNESS_ERROR")
    assert broken["status"] == "failed"
    assert "SyntaxError" in broken["error_message"]  # not "Task failed" alone
    assert (decoy["status"], decoy["decoy_kernel"], decoy["speedup"]) == ("completed", True, 0.0)
    assert hanging["status"] == "failed"
    assert "10" in hanging["error_message"]
