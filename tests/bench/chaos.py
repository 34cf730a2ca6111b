"""Losses of many jobs when everything that runs them is killed at random, every few seconds.

    python -m tests.bench.chaos [--jobs 300] [--seed 1] [--every 5] [--workers 2] [--pretend]
    python -m tests.bench.chaos --device h200 --slots 8 --workers 1 --jobs 400 --storm 300

Killed with SIGKILL: workers, pool processes, referees, all that a referee has started (zygotes of
candidates and of builders, stopwatch, the process that keeps cores awake, wardens, and the confined
processes of candidates and references), Redis, Redis with all its data, PostgreSQL, and the web
server.  Workers, web and servers are started again at once, as `assay up` does; the rest is for the
workers to start again.  Limits on attempts are those of production.

Starts servers of its own on this machine and prints one line of JSON; ends with 1 where a job was
lost, stored twice, failed, or scored otherwise than it should be.

The evaluations are real (a small problem, half of the candidates wrong); with `--pretend`
the workers only wait.  With `--storm` the kills end after so many seconds, and the
remaining jobs are done in peace.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import os
import random
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass, field
from pathlib import Path
from uuid import UUID

import sqlalchemy as sa

from app.broker import BrokerUnavailableError
from app.client import Client, Submission
from app.domain.job import TERMINAL
from app.embedded import Services
from app.settings import Settings
from app.store import tables
from app.store.postgres.database import DatabaseUnavailableError
from app.store.queue import devices
from tests.bench.chaos_site import PATIENCE_S, Plan, Site, site
from tests.bench.state_folders import state_folder

CHUNK = 50


@dataclass(kw_only=True)
class Report:
    """Result of a run."""

    bench: str = "chaos"
    jobs: int
    seed: int
    pretend: bool
    seconds: float = 0.0
    kills: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    """Jobs that had come to no end when none had for PATIENCE_S: of themselves, or
    because kills left no time.
    """
    failed: int = 0
    """Jobs that our faults used up; they are not scored."""
    stored_twice: int = 0
    wrongly_scored: int = 0
    """Jobs with another status than their candidates deserve."""
    ran_again: int = 0
    """Jobs of which an attempt was lost and another one counted."""
    quarantined: int = 0
    """Devices that their workers have taken out of service, so that jobs wait for a person."""
    web_answers: bool = False
    load: float = 0.0
    cpus: int | None = None

    @property
    def ok(self) -> bool:
        return (
            not (self.lost or self.failed or self.stored_twice or self.wrongly_scored)
            and self.web_answers
        )


def storm(plan: Plan, folder: Path) -> Report:
    """Kill until every job is over; the figures."""
    report = Report(jobs=plan.jobs, seed=plan.seed, pretend=plan.pretend, cpus=os.cpu_count())
    began = time.monotonic()
    settings = Settings(state_dir=folder, lease_s=2.0, sweep_s=0.5, slots=plan.slots)
    with (
        Services(settings) as services,
        Client(services.settings) as client,
        site(services.settings, plan) as running,
    ):
        job_ids: list[UUID] = []
        submitter = threading.Thread(
            target=submit, args=(client, running.port, plan, job_ids), daemon=True
        )
        submitter.start()
        kills_until_over(running, client, plan, submitter)
        report.seconds = round(time.monotonic() - began, 1)
        weigh(report, client, plan, job_ids)
        report.web_answers = answers_in_time(running)
        report.kills = dict(running.kills)
    report.load = os.getloadavg()[0]
    return report


def kills_until_over(
    running: Site, client: Client, plan: Plan, submitter: threading.Thread
) -> None:
    """Returns once every job is over, or none has been for too long."""
    rng = random.Random(plan.seed)
    peace = time.monotonic() + plan.storm_s
    next_kill = time.monotonic() + plan.every_s
    over, last_progress = 0, time.monotonic()
    while over < plan.jobs and time.monotonic() < last_progress + PATIENCE_S:
        running.supervise()
        enough = plan.kills is not None and running.kills.total() >= plan.kills
        if next_kill < time.monotonic() < peace and not enough:
            running.kill_something()
            next_kill = time.monotonic() + plan.every_s * rng.uniform(0.5, 1.5)
        now_over = count_over(client, before=over)
        if now_over > over:
            over, last_progress = now_over, time.monotonic()
        time.sleep(0.1)
    submitter.join(PATIENCE_S)
    running.supervise()


def submit(client: Client, port: int, plan: Plan, job_ids: list[UUID]) -> None:
    """All of it, in chunks, in turn from Python and over HTTP, each until it is accepted: the
    same submission twice is one job.
    """
    wanted = plan.submissions()
    for number, start in enumerate(range(0, len(wanted), CHUNK)):
        chunk = wanted[start : start + CHUNK]
        while True:
            try:
                if number % 2:
                    job_ids += over_http(port, chunk)
                else:
                    job_ids += [handle.job_id for handle in client.submit_many(chunk)]
                break
            except (
                DatabaseUnavailableError,
                BrokerUnavailableError,
                OSError,
                http.client.HTTPException,
            ):
                time.sleep(0.2)


def over_http(port: int, chunk: list[Submission]) -> list[UUID]:
    """Ids of the jobs.  Raises OSError (URLError is one) where the web server is
    away or cannot serve.
    """
    names = ("reference", "candidate", "backend", "gpu", "options")
    items = [{name: getattr(one, name) for name in names} for one in chunk]
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/evaluations:batch",
        data=json.dumps({"items": items}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        return [UUID(item["accepted"]["job_id"]) for item in json.load(response)["items"]]


def count_over(client: Client, before: int) -> int:
    j = tables.jobs.c
    try:
        with client.database.begin() as connection:
            query = (
                sa.select(sa.func.count())
                .select_from(tables.jobs)
                .where(j.state.in_(sorted(TERMINAL)))
            )
            return int(connection.execute(query).scalar_one())
    except DatabaseUnavailableError:
        return before


def weigh(report: Report, client: Client, plan: Plan, job_ids: list[UUID]) -> None:
    """Look at every row."""
    j, e = tables.jobs.c, tables.evaluations.c
    with client.database.begin() as connection:
        query = sa.select(j.job_id, j.state, j.attempt, e.status, e.evaluation_id)
        rows = list(
            connection.execute(query.select_from(tables.jobs.outerjoin(tables.evaluations)))
        )
        report.quarantined = sum(
            device.state == "quarantined" for device in devices.listed(connection)
        )
    found = {row.job_id: row for row in rows}
    report.lost = plan.jobs - sum(row.state in TERMINAL for row in found.values())
    report.failed = sum(row.state == "failed" for row in rows)
    report.stored_twice = len(rows) - len(found) + len(job_ids) - len(set(job_ids))
    report.wrongly_scored = sum(
        found[job_id].status is not None and found[job_id].status != plan.expected(number)
        for number, job_id in enumerate(job_ids)
        if job_id in found
    )
    report.ran_again = sum(row.attempt > 1 for row in rows)


def answers_in_time(running: Site) -> bool:
    deadline = time.monotonic() + 30
    while not (answered := running.web_answers()) and time.monotonic() < deadline:
        running.supervise()
        time.sleep(0.2)
    return answered


def leave(number: int, _frame: object) -> None:
    """Once, so that nothing interrupts the stopping of our servers."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=float, default=5.0, help="mean seconds between two kills")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--pretend", action="store_true")
    parser.add_argument("--device", default="cpu", help="class of the workers' devices")
    parser.add_argument(
        "--slots", type=int, help="of each worker; by default as many as its device is worth"
    )
    parser.add_argument(
        "--storm",
        type=float,
        default=math.inf,
        help="seconds of kills; by default until all is over",
    )
    given = parser.parse_args()
    plan = Plan(
        jobs=given.jobs,
        seed=given.seed,
        every_s=given.every,
        storm_s=given.storm,
        workers=given.workers,
        pretend=given.pretend,
        device_class=given.device,
        slots=given.slots,
    )
    signal.signal(signal.SIGTERM, leave)
    with state_folder() as folder:
        report = storm(plan, folder)
    print(json.dumps(asdict(report)))
    sys.exit(0 if report.ok else 1)


if __name__ == "__main__":
    main()
