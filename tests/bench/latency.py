"""One request alone, through each interface: how long it takes beyond its evaluation.

    python -m tests.bench.latency [--requests 200] [--only client v1 reward kernelgym
    openrlhf slime]

Real servers and a real worker whose evaluation takes no time: the time measured is the
service's.  Each request is sent after the one before was answered, to an idle worker.  Prints
JSON, an object for each interface, with the load of the machine; to reach: p50 ≤ 30 ms and p99 ≤
150 ms.  Exits with 1 where one is beyond.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from app import embedded
from app.client import Client
from app.settings import Settings
from tests.bench.api import REFERENCE, Caller, _served
from tests.integration import fakes

P50_MS, P99_MS = 30.0, 150.0
WARM_UP = 10
LABEL = {"reference": REFERENCE, "backend": "torch"}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--only", nargs="*", help="interfaces; by default all")
    arguments = parser.parse_args()
    beyond = False
    with tempfile.TemporaryDirectory(prefix="assay-bench-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o711)
        settings = replace(Settings.from_env({}), state_dir=Path(folder) / "state")
        with (
            embedded.Services(settings) as services,
            _served(services.settings) as (port, _),
            Client(services.settings) as client,
        ):
            worker = embedded.start_worker(services.settings, module=fakes.WORKER)
            try:
                for name, ask in _interfaces(client, Caller(port)).items():
                    if name in (arguments.only or (name,)):
                        beyond |= _measured(name, ask, arguments.requests)
            finally:
                worker.terminate()
                worker.wait()
    sys.exit(int(beyond))


def _interfaces(client: Client, call: Caller) -> dict[str, Callable[[str], object]]:
    """Name → ask for the evaluation of a candidate and hold its result."""

    def submit(candidate: str) -> None:
        job = client.submit(reference=REFERENCE, candidate=candidate, backend="torch")
        assert job.wait(timeout_s=60)["status"] == "incorrect"

    def v1(candidate: str) -> None:
        body = {"reference": REFERENCE, "candidate": candidate, "backend": "torch"}
        _, told = call("POST", "/v1/evaluations", body)
        assert call("GET", f"{told['url']}?wait=60")[1]["status"] == "incorrect"

    def reward(candidate: str) -> None:
        body = {"reference": REFERENCE, "candidate": candidate, "backend": "torch"}
        assert call("POST", "/v1/reward", body)[1]["reward"] is not None

    def kernelgym(candidate: str) -> None:
        body = {
            "task_id": f"lone {time.time_ns()}",
            "reference_code": REFERENCE,
            "kernel_code": candidate,
        }
        assert call("POST", "/evaluate", body)[1]["status"] == "completed"

    def openrlhf(candidate: str) -> None:
        body = {
            "query": [f"```python\n{candidate}\n```"],
            "prompts": [""],
            "labels": [json.dumps(LABEL)],
        }
        assert call("POST", "/compat/openrlhf/get_reward", body)[1]["rewards"]

    def slime(candidate: str) -> None:
        body = {"response": f"```python\n{candidate}\n```", "label": json.dumps(LABEL)}
        assert call("POST", "/compat/slime/reward", body)[1]["status"] == "incorrect"

    listed = (submit, v1, reward, kernelgym, openrlhf, slime)
    return {"client" if each is submit else each.__name__: each for each in listed}


def _measured(name: str, ask: Callable[[str], object], requests: int) -> bool:
    """Print one interface; True if it misses its target."""
    took_ms = []
    for number in range(requests + WARM_UP):
        candidate = f"wrong {number}\nwrong for {name}"
        began = time.perf_counter()
        ask(candidate)
        took_ms.append(1000 * (time.perf_counter() - began))
    ordered = sorted(took_ms[WARM_UP:])
    p50, p99 = (ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.5, 0.99))
    found = {"p50_ms": p50, "p99_ms": p99, "most_ms": ordered[-1], "requests": requests}
    print(json.dumps({name: {**found, "load_average": os.getloadavg()[0]}}), flush=True)
    return p50 > P50_MS or p99 > P99_MS


if __name__ == "__main__":
    main()
