"""Rate through KernelGYM's protocol over HTTP beside the rate in process, the same
number of requests in flight.

    python -m tests.bench.kernelgym_rate --seconds 0.1 --slots 2 --flight 16 --requests 160
    python -m tests.bench.kernelgym_rate --device h200 --slots 8 --requests 96 --rounds 2

A real worker with evaluations that only wait for `--seconds`; with `--device`, evaluations of small
Triton kernels on a device of that class.  Both ways take turns in one run, so that other load on
the machine meets both.  Prints JSON; to reach: 95 % of the rate in process.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from subprocess import Popen
from typing import Any

from app import embedded
from app.client import Client
from app.domain.job import REWARD_BUDGET_S
from app.domain.zoo import Case
from app.settings import Settings
from tests import zoo
from tests.bench.api import REFERENCE, Caller, _served
from tests.bench.several_devices import KERNELS
from tests.integration import fakes

PATIENCE_S = 300
"""For one evaluation with its wait behind the others in flight."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.1, help="of one evaluation")
    parser.add_argument(
        "--device", help="class of a device that evaluates; by default nothing is evaluated"
    )
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--flight", type=int, default=16)
    parser.add_argument("--requests", type=int, default=160, help="of each round")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="assay-bench-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o711)
        settings = replace(
            Settings.from_env({}), state_dir=Path(folder) / "state", slots=given.slots
        )
        with (
            embedded.Services(settings) as services,
            _served(services.settings) as (port, _),
            Client(services.settings) as client,
        ):
            worker = started(services.settings, given.device)
            try:
                measure(client, Caller(port, PATIENCE_S), given)
            finally:
                worker.terminate()
                worker.wait()


def started(settings: Settings, device_class: str | None) -> Popen[bytes]:
    if device_class is None:
        return embedded.start_worker(settings, module=fakes.WORKER)
    return embedded.start_worker(settings, device_class=device_class)


@dataclass(frozen=True)
class Asked:
    """One evaluation: sources, and the status that it is to have."""

    name: str
    reference: str
    candidate: str
    backend: str
    status: str


def asked(number: int, way: str, given: argparse.Namespace) -> Asked:
    """Each with a source of its own."""
    name = f"{way} {number}"
    if given.device is None:
        return Asked(name, REFERENCE, f"slow {given.seconds}\nwrong {name}", "torch", "incorrect")
    case = small_kernels()[number % len(KERNELS)]
    return Asked(
        name, case.reference.decode(), f"{case.candidate.decode()}\n# {name}\n", "triton", "passed"
    )


@cache
def small_kernels() -> list[Case]:
    cases = {case.name: case for case in zoo.cases()}
    return [cases[f"honest/{name}_triton"] for name in KERNELS]


def measure(client: Client, call: Caller, given: argparse.Namespace) -> None:
    """A round to warm up, then the rounds that count."""
    gpu = given.device or "cpu"

    def in_process(one: Asked) -> None:
        job = client.submit(
            reference=one.reference,
            candidate=one.candidate,
            backend=one.backend,
            gpu=gpu,
            **options(gpu),
        )
        assert job.wait(timeout_s=PATIENCE_S)["status"] == one.status

    def over_http(one: Asked) -> None:
        body = {"task_id": one.name, "reference_code": one.reference, "kernel_code": one.candidate}
        told = call(
            "POST", "/evaluate", {**body, "device_preference": given.device, "timeout": PATIENCE_S}
        )[1]
        assert (told["status"], told["correctness"]) == ("completed", one.status == "passed"), told

    ways: dict[str, Callable[[Asked], None]] = {"in_process": in_process, "kernelgym": over_http}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for round_ in range(given.rounds + 1):
        for name, ask in ways.items():
            wanted = [asked(number, f"{name} {round_}", given) for number in range(given.requests)]
            began = time.perf_counter()
            # New threads each time: the web closes connections that idle for a round.
            with ThreadPoolExecutor(given.flight) as pool:
                list(pool.map(ask, wanted))
            rates[name].append(given.requests / (time.perf_counter() - began))
    found = {f"{name}_per_s": statistics.median(each[1:]) for name, each in rates.items()}
    ratios = [
        http / own
        for own, http in zip(rates["in_process"][1:], rates["kernelgym"][1:], strict=True)
    ]
    told = {
        "bench": "kernelgym_rate",
        **vars(given),
        **found,
        "ratio": statistics.median(ratios),
        "ratios": ratios,
    }
    print(json.dumps({**told, "load_average": os.getloadavg()[0], "cpus": os.cpu_count()}))


def options(device_class: str) -> dict[str, Any]:
    """Options that KernelGYM's protocol asks for by default."""
    profile = {} if device_class == "cpu" else {"profile": "full"}
    return {"timing_budget_s": REWARD_BUDGET_S, "deadline_s": PATIENCE_S, **profile}


if __name__ == "__main__":
    main()
