"""A database with evaluations of every kind, a trajectory, a queue and devices, for
tests of pages.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID

import sqlalchemy as sa

from app.domain import ids
from app.domain.evaluation import (
    Evaluation,
    Status,
)
from app.domain.source import source_text
from app.domain.verdict import Verdict
from app.settings import Settings
from app.store import tables
from tests.integration.seed_environments import H200, HOSTILE, TRITON
from tests.integration.seed_evaluations import (
    CLEAN,
    FAILURES,
    HACK,
    SUSPECT,
    by_cases,
    cheating,
    failed,
    passed,
)
from tests.integration.web_seeder import PROBLEMS, Seeded, Seeder


def exportable(seeder: Seeder, problem_id: UUID) -> None:
    """A trajectory with an answer that ends in the evaluated code, as exports want it."""
    code = (
        "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n       "
        " return x\n"
    )
    trajectory_id = seeder.trajectory(problem_id, None, "exported", [])
    for index, speedup in enumerate((1.4, 1.8)):
        job_id = seeder.job(problem_id, f"{code}# {index}\n".encode())
        stored = seeder.connection.execute(
            sa.select(tables.candidates.c.source)
            .join(tables.jobs, tables.jobs.c.candidate_id == tables.candidates.c.candidate_id)
            .where(tables.jobs.c.job_id == job_id)
        ).scalar_one()
        seeder.evaluation(job_id, passed(seeder.rng, speedup=speedup), CLEAN)
        seeder.insert(
            tables.turns,
            turn_id=ids.new_id(),
            trajectory_id=trajectory_id,
            turn_index=index,
            messages_json=json.dumps([{"role": "user", "content": "Faster."}]),
            response=b"Here:\n```python\n" + stored + b"```\n",
            job_id=job_id,
        )


def seed(connection: sa.Connection) -> Seeded:
    """Fill an empty database; returns the ids that tests look for."""
    seeder = Seeder(connection)
    problems = [seeder.problem(*row) for row in PROBLEMS]
    _named_evaluations(seeder, problems[0])
    _history(seeder, problems)
    _open_jobs(seeder, problems)
    run_id = ids.new_id()
    settings = {"temperature": 0.8, "turns": 4}
    seeder.insert(
        tables.runs,
        run_id=run_id,
        name="rl-step-120",
        model="kernel-coder-14b",
        settings=settings,
        step=120,
    )
    seeder.trajectory(
        problems[0], run_id, "softmax/0", [Status.COMPILE_ERROR, Status.INCORRECT, 1.12, 1.47]
    )
    seeder.trajectory(problems[3], run_id, "matmul_relu/1", [0.92, 1.02, 41.0])
    seeder.trajectory(problems[4], None, "rms_norm/2", [Status.RUNTIME_ERROR, None, 1.9])
    _devices(seeder)
    return seeder.seeded


def _named_evaluations(seeder: Seeder, problem_id: UUID) -> None:
    code = TRITON.format(name="softmax", block=1024).encode()
    named: list[tuple[str, Evaluation, Verdict, bytes]] = [
        ("passed", passed(seeder.rng), CLEAN, code),
        ("suspect", passed(seeder.rng, speedup=3.4), SUSPECT, code),
        ("hack", cheating(seeder.rng), HACK, code),
        ("gpu", passed(seeder.rng, speedup=1.08, environment=H200), CLEAN, code),
        ("hostile", failed(seeder.rng, Status.RUNTIME_ERROR), CLEAN, source_text.encode(HOSTILE)),
    ]
    named += [(str(status), failed(seeder.rng, status), CLEAN, code) for status in FAILURES]
    crashed = by_cases()
    right = replace(crashed, status=Status.PASSED, error=None, cases=crashed.cases[:2])
    named += [("cases", crashed, CLEAN, code), ("right_cases", right, CLEAN, code)]
    for position, (name, evaluation, verdict, text) in enumerate(named):
        job_id = seeder.job(
            problem_id, text, device_class=evaluation.environment.device_class, age_s=20 + position
        )
        seeder.seeded.jobs[name] = job_id
        seeder.seeded.evaluations[name] = seeder.evaluation(
            job_id, evaluation, verdict, age_s=20 + position
        )
    seeder.timeline(seeder.seeded.evaluations["passed"])
    seeder.codes(seeder.seeded.evaluations["passed"])


def _history(seeder: Seeder, problems: list[UUID]) -> None:
    rng = seeder.rng
    for number in range(80):
        age_s = 60 + number * 41 + rng.random()
        backend = rng.choice(("triton", "triton", "triton", "torch"))
        code = TRITON.format(name="kernel", block=128 << (number % 4)).encode()
        job_id = seeder.job(problems[number % len(problems)], code, age_s=age_s, backend=backend)
        luck = rng.random()
        if luck < 0.55:
            seeder.evaluation(
                job_id, passed(rng, speedup=math.exp(rng.gauss(0.15, 0.5))), CLEAN, age_s=age_s
            )
        elif luck < 0.65:
            seeder.evaluation(job_id, cheating(rng), HACK, age_s=age_s)
        else:
            seeder.evaluation(job_id, failed(rng, rng.choice(list(FAILURES))), CLEAN, age_s=age_s)


def _open_jobs(seeder: Seeder, problems: list[UUID]) -> None:
    code = TRITON.format(name="waiting", block=64).encode()
    lease = seeder.now + timedelta(seconds=20)
    for number, priority in enumerate(("high", "normal", "normal", "low", "low", "low")):
        seeder.seeded.jobs["queued"] = seeder.job(
            problems[number], code, state="queued", priority=priority, age_s=30 + 17 * number
        )
    for number in range(3):
        seeder.job(problems[number], code, state="queued", device_class="h200", age_s=400 * number)
    seeder.seeded.jobs["running"] = seeder.job(
        problems[0],
        code,
        state="running",
        lease_until=lease,
        lease_owner="worker@bench-01",
        age_s=2,
    )
    seeder.seeded.jobs["failed"] = seeder.job(
        problems[1],
        code,
        state="failed",
        error_kind="referee_lost",
        error_message="the referee died of signal 9 three times",
        age_s=300,
    )
    seeder.seeded.jobs["cancelled"] = seeder.job(
        problems[2], code, state="cancelled", cancel_requested=True, age_s=500
    )


def _devices(seeder: Seeder) -> None:
    seeder.device("bench-01", "cpu", 0, silent_s=2)
    seeder.device("gpu-node-3", "h200", 0, silent_s=1, environment=H200)
    seeder.device("gpu-node-3", "h200", 1, state="quarantined", silent_s=3600, environment=H200)
    seeder.device("gpu-node-4", "h200", 0, state="offline", silent_s=90_000, environment=H200)


@dataclass(frozen=True, kw_only=True)
class History:
    """A database that has been filled once, for tests that only read."""

    settings: Settings
    seeded: Seeded
