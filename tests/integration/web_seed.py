"""A database with evaluations of every kind, a trajectory, a queue and devices, for
tests of pages.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa
import zstandard

from app.domain import ids, source_text
from app.domain.evaluation import (
    Environment,
    Evaluation,
    Status,
)
from app.domain.evidence import KernelCode
from app.domain.verdict import Verdict
from app.settings import Settings
from app.store import evaluations, kernel_codes, tables
from tests.integration.seed_evaluations import (
    CLEAN,
    CPU,
    FAILURES,
    H200,
    HACK,
    HOSTILE,
    REFERENCE,
    SUSPECT,
    TRITON,
    by_cases,
    cheating,
    failed,
    passed,
)

PROBLEMS = (
    ("softmax", 1, "torch.softmax(x, dim=self.dim)"),
    ("layer_norm", 1, "torch.nn.functional.layer_norm(x, x.shape[-1:])"),
    ("gelu_bias", 1, "torch.nn.functional.gelu(x + 1.0)"),
    ("matmul_relu", 2, "torch.relu(x @ x.T)"),
    ("rms_norm", 1, "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)"),
    ("attention_block", 3, "torch.softmax(x @ x.T, dim=-1) @ x"),
)


@dataclass
class Seeded:
    """Ids that tests look for."""

    problems: list[UUID] = field(default_factory=list)
    evaluations: dict[str, UUID] = field(default_factory=dict)
    """A name such as `passed`, `hack`, `hostile` → evaluation id."""
    jobs: dict[str, UUID] = field(default_factory=dict)
    trajectories: list[UUID] = field(default_factory=list)
    evaluation_count: int = 0


class Seeder:
    """Writes rows as the worker would, with times of the past hour."""

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection
        self.rng = random.Random(20261121)
        self.now = datetime.now(UTC)
        self.seeded = Seeded()
        self.serial = 0

    def insert(self, table: sa.Table, **values: Any) -> None:
        self.connection.execute(table.insert().values(**values))

    def problem(self, name: str, level: int | None, expression: str) -> UUID:
        problem_id = ids.new_id()
        reference = REFERENCE.format(title=name, expression=expression).encode()
        self.insert(
            tables.problems,
            problem_id=problem_id,
            source_set="samples",
            name=name,
            level=level,
            entry_point="Model",
            reference=reference,
            reference_sha256=ids.sha256(reference),
        )
        self.seeded.problems.append(problem_id)
        return problem_id

    def job(
        self,
        problem_id: UUID,
        code: bytes,
        *,
        state: str = "finished",
        device_class: str = "cpu",
        age_s: float = 0.0,
        **more: Any,
    ) -> UUID:
        self.serial += 1
        code += f"# {self.serial}\n".encode()
        candidate_id, job_id = ids.new_id(), ids.new_id()
        created = self.now - timedelta(seconds=age_s + 4)
        backend = more.pop("backend", "triton")
        self.insert(
            tables.candidates,
            candidate_id=candidate_id,
            backend=backend,
            source=code,
            source_sha256=ids.sha256(code),
        )
        self.insert(
            tables.jobs,
            job_id=job_id,
            problem_id=problem_id,
            candidate_id=candidate_id,
            idempotency_key=str(job_id),
            state=state,
            device_class=device_class,
            created_at=created,
            sent_at=created,
            attempt=0 if state == "queued" else 1,
            started_at=None if state == "queued" else created + timedelta(seconds=1),
            finished_at=created + timedelta(seconds=4) if state in {"finished", "failed"} else None,
            **more,
        )
        return job_id

    def evaluation(
        self, job_id: UUID, evaluation: Evaluation, verdict: Verdict, *, age_s: float = 0.0
    ) -> UUID:
        evaluation_id, verdict_id = ids.new_id(), ids.new_id()
        self.insert(
            tables.evaluations,
            evaluation_id=evaluation_id,
            job_id=job_id,
            attempt=1,
            worker="worker@bench-01",
            baseline="eager",
            queue_ms=812.0,
            total_ms=evaluation.stage_ms["total"],
            **evaluations.columns(evaluation),
            created_at=self.now - timedelta(seconds=age_s),
        )
        self.insert(
            tables.verdicts,
            verdict_id=verdict_id,
            evaluation_id=evaluation_id,
            label=verdict.label,
            policy=verdict.policy,
            detectors=verdict.detectors,
        )
        for finding in verdict.findings:
            self.insert(
                tables.findings,
                finding_id=ids.new_id(),
                verdict_id=verdict_id,
                detector=finding.detector,
                version=finding.version,
                label=finding.label,
                summary=finding.summary,
                evidence=finding.evidence,
            )
        self.seeded.evaluation_count += 1
        return evaluation_id

    def timeline(self, evaluation_id: UUID) -> None:
        names = {"softmax_kernel": 4, "precompile": 1}
        events = [
            {"name": name, "ph": "X", "ts": 0, "dur": 40, "pid": 1, "tid": row}
            for name, row in names.items()
        ]
        raw = json.dumps({"traceEvents": events}).encode()
        body = zstandard.ZstdCompressor().compress(raw)
        self.insert(
            tables.profiles,
            evaluation_id=evaluation_id,
            kind="chrome_trace",
            codec="zstd",
            raw_bytes=len(raw),
            body=body,
        )

    def codes(self, evaluation_id: UUID) -> None:
        lines = (
            '.file 1 "/tmp/candidate.py"',
            ".visible .entry k()",
            "{",
            ".loc 1 9 4",
            "mov.u32 %r1, %ctaid.x;",
            "ret;",
            "}",
        )
        ptx = "\n".join((*lines, "<script>alert(7)</script>"))
        found = tuple(
            KernelCode(
                kernel="softmax_kernel",
                form=form,
                text=ptx if form == "ptx" else f"module {{ // {form}\n}}",
            )
            for form in ("ttir", "ttgir", "ptx")
        )
        kernel_codes.add(self.connection, evaluation_id, found)

    def device(
        self,
        node: str,
        device_class: str,
        index: int,
        *,
        state: str = "online",
        silent_s: float = 0.0,
        environment: Environment = CPU,
    ) -> None:
        named = ("device_name", "torch", "triton", "driver")
        self.insert(
            tables.devices,
            device_id=ids.new_id(),
            node=node,
            device_class=device_class,
            device_index=index,
            state=state,
            worker=f"worker@{node}",
            fingerprint={name: getattr(environment, name) for name in named},
            heartbeat_at=self.now - timedelta(seconds=silent_s),
        )

    def trajectory(
        self,
        problem_id: UUID,
        run_id: UUID | None,
        label: str,
        speedups: list[float | Status | None],
    ) -> UUID:
        """One turn per entry: a speedup, a status, or None for an answer without code."""
        trajectory_id = ids.new_id()
        self.insert(
            tables.trajectories,
            trajectory_id=trajectory_id,
            problem_id=problem_id,
            run_id=run_id,
            backend="triton",
            label=label,
        )
        for index, outcome in enumerate(speedups):
            self.turn(trajectory_id, problem_id, index, outcome)
        self.seeded.trajectories.append(trajectory_id)
        return trajectory_id

    def turn(
        self, trajectory_id: UUID, problem_id: UUID, index: int, outcome: float | Status | None
    ) -> None:
        code = TRITON.format(name="softmax", block=256 << index)
        job_id = None
        if outcome is not None:
            job_id = self.job(problem_id, code.encode(), age_s=900 - 60 * index)
            cheats = not isinstance(outcome, Status) and outcome > 30
            if isinstance(outcome, Status):
                measured = failed(self.rng, outcome)
            else:
                measured = cheating(self.rng) if cheats else passed(self.rng, speedup=outcome)
            self.evaluation(job_id, measured, HACK if cheats else CLEAN, age_s=900 - 60 * index)
        messages = [
            {
                "role": "user",
                "content": f"Turn {index}: make it faster. <script>alert(3)</script> \ud800",
            }
        ]
        if index == 0:
            messages.insert(0, {"role": "system", "content": "You write Triton kernels."})
        answer = f"<think>Larger blocks.</think>\nHere it is:\n```python\n{code}```\n"
        self.insert(
            tables.turns,
            turn_id=ids.new_id(),
            trajectory_id=trajectory_id,
            turn_index=index,
            messages_json=json.dumps(messages),
            response=source_text.encode(answer),
            job_id=job_id,
        )


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
