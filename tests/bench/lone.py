"""Lone requests through each interface, one after the other, on an idle worker: milliseconds beyond the evaluation.

    python -m tests.bench.lone [--requests 200] [--only kernelgym …]

The worker is a real one with an isolator that pretends (tests/integration/fake_worker.py): an evaluation takes no time,
so that all that is measured is the way there and back.  Prints one line of JSON for each interface; ends with 1 where a
figure is above LIMIT_MS.  A lost permission looks like a request of 5 s and more: it waits for the sweep."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.client import Client
from app.embedded import Services
from app.settings import Settings
from tests.bench.week import TESTS, Site

LIMIT_MS = {"p50": 30.0, "p99": 150.0}
REFERENCE = "import torch\nclass Model: ...\n"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--only", nargs="*", choices=list(INTERFACES), default=list(INTERFACES))
    given = parser.parse_args()
    os.environ["PYTHONPATH"] = str(TESTS / "integration")
    folder = Path(tempfile.mkdtemp(prefix="assay-bench-", dir="/var/tmp"))
    folder.chmod(0o711)
    slow = False
    try:
        with Services(Settings(state_dir=folder)) as services, Client(services.settings) as client:
            site = Site(services.settings, client)
            try:
                site.wait()
                for name in given.only:
                    found = measured(site, name, given.requests)
                    slow = slow or any(found[f"{key}_ms"] > limit for key, limit in LIMIT_MS.items())
                    print(json.dumps({"bench": "lone", "interface": name, **found}), flush=True)
            finally:
                site.close()
    finally:
        shutil.rmtree(folder)
    sys.exit(1 if slow else 0)


def measured(site: Site, name: str, requests: int) -> dict[str, Any]:
    """Figures of one interface; the first requests pay for connections and imports."""
    ask = INTERFACES[name]
    took = []
    for number in range(requests + 5):
        began = time.perf_counter()
        ask(site, f"{name}-{number}")
        took.append((time.perf_counter() - began) * 1000)
    ordered = sorted(took[5:])
    return {
        "requests": requests,
        "p50_ms": round(statistics.median(ordered), 1),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)], 1),
        "longest_ms": round(ordered[-1], 1),
        "load": os.getloadavg()[0],
        "cpus": os.cpu_count(),
    }


def _in_process(site: Site, name: str) -> None:
    result = site.client.submit(reference=REFERENCE, candidate=f"wrong {name}", backend="torch").wait(timeout_s=60)
    assert result["status"] == "incorrect", result


def _v1(site: Site, name: str) -> None:
    asked = {"reference": REFERENCE, "candidate": f"wrong {name}", "backend": "torch"}
    accepted = _call(site, "POST", "/v1/evaluations", asked)
    answer = _call(site, "GET", f"/v1/evaluations/{accepted['job_id']}?wait=60")
    assert answer["status"] == "incorrect", answer


def _kernelgym(site: Site, name: str) -> None:
    body = {
        "task_id": name,
        "reference_code": REFERENCE,
        "kernel_code": f"wrong as {name} may be",
        "backend": "triton",
        "num_correct_trials": 5,
        "num_perf_trials": 100,
        "timeout": 60,
        "priority": "normal",
        "entry_point": "Model",
    }
    answer = _call(site, "POST", "/evaluate?wait=60", body)
    assert answer["status"] == "completed", answer


def _openrlhf(site: Site, name: str) -> None:
    body = {"query": [f"{REFERENCE}{_response(name)}"], "prompts": [REFERENCE], "labels": [REFERENCE]}
    answer = _call(site, "POST", "/compat/openrlhf/get_reward", body)
    assert len(answer["rewards"]) == 1, answer


def _slime(site: Site, name: str) -> None:
    body = {"prompt": "p", "response": _response(name), "label": REFERENCE}
    answer = _call(site, "POST", "/compat/slime/reward", body)
    assert answer["status"] == "incorrect", answer


def _response(name: str) -> str:
    return f"```python\nwrong as {name} may be\n```"


def _call(site: Site, method: str, path: str, body: object = None) -> Any:
    """The answer's JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=120)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json"})
        response = connection.getresponse()
        told = response.read()
    finally:
        connection.close()
    assert response.status < 300, told[:300]
    return json.loads(told)


INTERFACES: dict[str, Callable[[Site, str], None]] = {
    "client": _in_process,
    "v1": _v1,
    "kernelgym": _kernelgym,
    "openrlhf": _openrlhf,
    "slime": _slime,
}

if __name__ == "__main__":
    main()
