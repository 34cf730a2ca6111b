"""Rows of any kind, inserted one by one for tests of pages."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa
import zstandard

from app.domain import ids
from app.domain.evaluation import (
    Environment,
    Evaluation,
    Status,
)
from app.domain.evidence import KernelCode
from app.domain.source import source_text
from app.domain.verdict import Verdict
from app.store import tables
from app.store.evaluation import evaluations, kernel_codes
from tests.integration.seed_environments import CPU, REFERENCE, TRITON
from tests.integration.seed_evaluations import (
    CLEAN,
    HACK,
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

    def turn_of(self, job_id: UUID, trajectory_id: UUID) -> None:
        """The only turn of a trajectory, with an evaluation that exists already."""
        self.insert(
            tables.turns,
            turn_id=ids.new_id(),
            trajectory_id=trajectory_id,
            turn_index=0,
            messages_json="[]",
            response=b"",
            job_id=job_id,
        )
