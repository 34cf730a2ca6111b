"""Several devices of one host: evaluations a minute, alone and together, and the
device of each job.

    python -m tests.bench.several_devices [--device h200] [--devices 2] [--slots 8] [--jobs 64]
    python -m tests.bench.several_devices --device cpu --slots 1 --jobs 4

Starts servers and a worker per device of its own, prints one line of JSON, and ends with 1 where a
job ran where it should not, or did not pass.  `--jobs` is for each device that is in service:

    one          pinned to the first device; the others idle
    pinned       in turn to each device
    shared       by class: a free device takes the next
    quarantined  by class, and some pinned to the last device; an eighth into them `assay workers
                 quarantine` takes that one out: the others do the rest, and jobs pinned there wait
                 for `assay workers resume`
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from app import embedded, gpus, routing
from app.client import Client, Submission
from app.domain.device import DeviceId
from app.settings import Settings
from app.store import tables
from app.store.queue import devices
from tests import zoo
from tests.processes import pool_processes

KERNELS = ("row_softmax", "layer_norm", "scaled_add", "rms_norm", "moments", "transposed_scale")
"""Problems with a small honest Triton kernel."""
READY_S = 120.0
"""Seconds for a worker to import torch and to report its device."""
PHASE_S = 300.0
LEASE_S = 4.0
"""A worker looks four times as often whether its device is still in service."""
STOPPED = "stopped and queued again"
"""Log line of a worker for a job that its quarantined device gave back."""
ASSAY = (sys.executable, "-c", "from app.cli import main; main()")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The bench's arguments."""

    device_class: str
    devices: int
    slots: int
    jobs: int
    budget_s: float


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A job that came to its end."""

    device: str
    status: str
    started_at: datetime


@dataclass(kw_only=True)
class Phase:
    """Results of some jobs."""

    jobs: int
    seconds: float
    per_minute: float
    ran: dict[str, int]
    """Jobs by device."""
    statuses: dict[str, int]
    elsewhere: int
    """Pinned jobs that ran on another device."""

    @property
    def ok(self) -> bool:
        return not self.elsewhere and self.statuses == {"passed": self.jobs}


@dataclass(kw_only=True)
class Quarantine:
    """Results of the jobs while a device was out of service."""

    device: str
    by_class: Phase
    over_before: int
    """Jobs by class that were over when the device was taken out."""
    started_later: dict[str, int]
    """Jobs by device, started after that."""
    stopped: int
    """Jobs that the device was at and gave back."""
    pinned: int
    pinned_waited: int
    """Jobs pinned there that still waited when all others were over."""
    pinned_ran: dict[str, int]
    """And where all of them ran in the end."""

    @property
    def ok(self) -> bool:
        elsewhere = bool(self.started_later) and self.device not in self.started_later
        return self.by_class.ok and elsewhere and self.pinned_ran == {self.device: self.pinned}


class Site:
    """Workers for the devices of this host."""

    def __init__(self, settings: Settings, client: Client, plan: Plan) -> None:
        self.client = client
        self.plan = plan
        self.settings = settings
        self._numbers = count()
        self._kernels = {case.name: case for case in zoo.cases()}
        self._served_by: dict[int, str] = {}
        self.workers = [
            embedded.start_worker(settings, device_class=plan.device_class, device_index=index)
            for index in range(plan.devices)
        ]
        node = routing.node_name(os.uname().nodename)
        self.names = [
            DeviceId(device_class=plan.device_class, node=node, index=index).device
            for index in range(plan.devices)
        ]

    def wait_ready(self) -> list[devices.Device]:
        """Until every device is online and described."""
        deadline = time.monotonic() + READY_S
        while True:
            with self.client.database.begin() as connection:
                found = [
                    each
                    for each in devices.listed(connection)
                    if each.state == "online" and each.fingerprint
                ]
            if len(found) == self.plan.devices:
                return found
            if time.monotonic() > deadline or any(
                worker.poll() is not None for worker in self.workers
            ):
                raise RuntimeError(
                    f"expected {', '.join(self.names)} online, got {found}; {self.last_words()}"
                )
            time.sleep(0.1)

    def submit(self, pins: Sequence[str | None]) -> list[UUID]:
        """A job for each pin, each with a source of its own."""
        return [
            handle.job_id
            for handle in self.client.submit_many([self._submission(pin) for pin in pins])
        ]

    def _submission(self, pin: str | None) -> Submission:
        number = next(self._numbers)
        case = self._kernels[f"honest/{KERNELS[number % len(KERNELS)]}_triton"]
        return Submission(
            reference=case.reference,
            candidate=case.candidate + f"\n# variant {number}\n".encode(),
            gpu=self.plan.device_class,
            device=pin,
            options={"timing_budget_s": self.plan.budget_s},
        )

    def ran(self, job_ids: Sequence[UUID]) -> dict[UUID, Ran]:
        """Jobs that are over, with the process that stored their result."""
        for name, worker in zip(self.names, self.workers, strict=True):
            self._served_by |= dict.fromkeys(pool_processes(worker.pid), name)
        j, e = tables.jobs.c, tables.evaluations.c
        query = sa.select(j.job_id, j.state, j.started_at, e.worker, e.status)
        query = query.select_from(tables.jobs.outerjoin(tables.evaluations)).where(
            j.job_id.in_(job_ids), j.finished_at.is_not(None)
        )
        with self.client.database.begin() as connection:
            rows = list(connection.execute(query))
        return {
            row.job_id: Ran(
                device=self._served_by[int(row.worker.split(".")[1])] if row.worker else "nowhere",
                status=row.status or row.state,
                started_at=row.started_at,
            )
            for row in rows
        }

    def last_words(self) -> str:
        logs = sorted((self.settings.state_dir / "log").glob("worker-*.log"))
        return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-2000:]}" for log in logs)

    def stopped(self, name: str) -> int:
        index = self.names.index(name)
        log = self.settings.state_dir / "log" / f"worker-{self.plan.device_class}-{index}.log"
        return log.read_text(errors="replace").count(STOPPED)


def several(settings: Settings, plan: Plan) -> dict[str, Any]:
    """Every phase, one after the other; the printed line."""
    with Client(settings) as client, site(settings, client, plan) as running:
        found = running.wait_ready()
        first, last = running.names[0], running.names[-1]
        # The first evaluations of a worker fill its caches.
        phase(running, running.names * plan.slots)
        one = phase(running, [first] * plan.jobs)
        pinned = phase(running, running.names * plan.jobs)
        shared = phase(running, [None] * plan.jobs * plan.devices)
        quarantined = quarantine(running, last)
    busy = set(pinned.ran) == set(shared.ran) == set(running.names)
    return {
        "bench": "several_devices",
        **asdict(plan),
        "names": [_described(each) for each in found],
        "one": asdict(one),
        "pinned": asdict(pinned),
        "shared": asdict(shared),
        "pinned_over_one": pinned.per_minute / one.per_minute,
        "shared_over_one": shared.per_minute / one.per_minute,
        "quarantined": asdict(quarantined),
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "ok": busy and one.ok and pinned.ok and shared.ok and quarantined.ok,
    }


def phase(running: Site, pins: Sequence[str | None]) -> Phase:
    """A phase of jobs that are submitted at once, until the last is over."""
    began = time.perf_counter()
    job_ids = running.submit(pins)
    running.client.wait(job_ids, timeout_s=PHASE_S)
    return weigh(running, job_ids, pins, time.perf_counter() - began)


def weigh(
    running: Site, job_ids: Sequence[UUID], pins: Sequence[str | None], seconds: float
) -> Phase:
    ran = running.ran(job_ids)
    wanted = dict(zip(job_ids, pins, strict=True))
    return Phase(
        jobs=len(job_ids),
        seconds=seconds,
        per_minute=60 * len(job_ids) / seconds,
        ran=_by_device(ran.values()),
        statuses=dict(Counter(each.status for each in ran.values())),
        elsewhere=sum(wanted[job_id] not in (None, each.device) for job_id, each in ran.items()),
    )


def quarantine(running: Site, sick: str) -> Quarantine:
    """Jobs by class, and some that are pinned to the device that is taken out of
    service among them.
    """
    plan = running.plan
    pins: list[str | None] = [None] * (plan.jobs * plan.devices)
    began = time.perf_counter()
    job_ids = running.submit(pins)
    _wait_for(running, job_ids, max(1, len(job_ids) // 8))
    order(running.settings, "quarantine", sick, "--reason", "to see what becomes of its jobs")
    with running.client.database.begin() as connection:
        taken_out = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
    over_before = len(running.ran(job_ids))
    held = running.submit([sick] * plan.slots)
    running.client.wait(job_ids, timeout_s=PHASE_S)
    by_class = weigh(running, job_ids, pins, time.perf_counter() - began)
    later = _by_device(
        each for each in running.ran(job_ids).values() if each.started_at > taken_out
    )
    waited = len(held) - len(running.ran(held))
    order(running.settings, "resume", sick)
    running.client.wait(held, timeout_s=PHASE_S)
    return Quarantine(
        device=sick,
        by_class=by_class,
        over_before=over_before,
        started_later=later,
        stopped=running.stopped(sick),
        pinned=len(held),
        pinned_waited=waited,
        pinned_ran=_by_device(running.ran(held).values()),
    )


def order(settings: Settings, *words: str) -> None:
    """`assay workers …`, as an operator says it."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")
    }
    command = [*ASSAY, "workers", *words]
    subprocess.run(
        command, env=environment | settings.to_env(), check=True, stdout=subprocess.DEVNULL
    )


def _wait_for(running: Site, job_ids: Sequence[UUID], enough: int) -> None:
    for number, _ in enumerate(running.client.over(job_ids, timeout_s=PHASE_S), start=1):
        if number >= enough:
            return


def _by_device(ran: Iterable[Ran]) -> dict[str, int]:
    return dict(sorted(Counter(each.device for each in ran).items()))


def _described(device: devices.Device) -> dict[str, str]:
    """Facts by which a reader sees that these are two devices."""
    bound = {} if device.device_class == "cpu" else gpus.binding(device.device_index)
    return {"device": device.device, "name": device.fingerprint["device_name"], **bound}


@contextmanager
def site(settings: Settings, client: Client, plan: Plan) -> Iterator[Site]:
    running = Site(settings, client, plan)
    try:
        yield running
    finally:
        for worker in running.workers:
            worker.terminate()
        for worker in running.workers:
            worker.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", help="kind of device: cpu, h200 …")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=8, help="for each device")
    parser.add_argument(
        "--budget", type=float, default=0.08, help="timing budget of one evaluation, in seconds"
    )
    parser.add_argument(
        "--state", type=Path, help="new folder for data and logs that stay; else none of it does"
    )
    given = parser.parse_args()
    if given.devices < 2:
        parser.error(f"--devices: expected at least 2, got {given.devices}")
    plan = Plan(
        device_class=given.device,
        devices=given.devices,
        slots=given.slots,
        jobs=given.jobs,
        budget_s=given.budget,
    )
    with ExitStack() as stack:
        if given.state is None:
            folder = Path(
                stack.enter_context(
                    tempfile.TemporaryDirectory(prefix="assay-bench-", dir="/var/tmp")
                )
            )
            folder.chmod(0o711)
        state = given.state or folder / "state"
        settings = Settings(state_dir=state, slots=plan.slots, lease_s=LEASE_S, sweep_s=1.0)
        services = stack.enter_context(embedded.Services(settings))
        report = several(services.settings, plan)
    print(json.dumps(report))
    sys.exit(0 if report["ok"] else 1)


if __name__ == "__main__":
    main()
