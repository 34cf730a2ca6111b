"""Stored evaluations of every kind, put in the way a worker does: queue, claim, finish."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from uuid import UUID

import sqlalchemy as sa

from app.detectors import DETECTORS as CURRENT
from app.domain import ids
from app.domain import policy as policies
from app.domain.evaluation import Environment, Evaluation, EvaluationError, Status
from app.domain.job import JobOptions, idempotency_key
from app.domain.kernel_profile import KernelRow, Profile
from app.domain.problem import Problem
from app.domain.trajectory import Message, Run, Turn
from app.domain.verdict import Finding, Label, Verdict
from app.embedded import Services
from app.store.evaluation import evaluations
from app.store.postgres.database import Database
from app.store.queue import jobs, leases
from app.store.trajectory import candidates, problems, trajectories
from tests.conftest import fresh
from tests.timings import timing

DETECTORS = {name: detector.version for name, detector in CURRENT.items()}

CPU = Environment(
    device_class="cpu",
    device_name="Test CPU",
    device_id="cpu-0",
    node="n",
    python="3",
    torch="2",
    triton="3",
)


def problem(number: int, source_set: str = "samples") -> Problem:
    reference = f"class Model:\n    number = 'n{number}'\n".encode()
    return Problem(
        name=f"{number}_Op", reference=reference, source_set=source_set, level=1 + number % 3
    )


def code(name: str) -> str:
    return f"import triton\n\nclass ModelNew:\n    name = {name!r}\n"


def passed(speedup: float) -> Evaluation:
    found = timing(
        reference_us=100.0,
        candidate_us=100.0 / speedup,
        speedup=speedup,
        ci_low=speedup * 0.95,
        ci_high=speedup * 1.05,
    )
    kernel = KernelRow(name="k", launches=1, total_us=5.0, custom=True)
    profile = Profile(
        kernels=(kernel,), calls=1, coverage_time=0.9, coverage_count=1.0, source="recorder"
    )
    return Evaluation(
        status=Status.PASSED, environment=CPU, seed="00", timing=found, profile=profile
    )


def failed(status: Status) -> Evaluation:
    return Evaluation(
        status=status,
        environment=CPU,
        seed="00",
        error=EvaluationError(kind="test", message="as the test wants"),
    )


def verdict(label: Label) -> Verdict:
    found = Finding(
        detector="no_custom_kernel",
        version=2,
        label=label,
        summary="0 launches",
        evidence={"launches": 0},
    )
    findings = () if label is Label.CLEAN else (found,)
    return Verdict(label=label, policy=policies.DEFAULT.key, detectors=DETECTORS, findings=findings)


KINDS: dict[str, tuple[Evaluation, Label]] = {
    "fast": (passed(2.0), Label.CLEAN),
    "slow": (passed(0.8), Label.CLEAN),
    "incorrect": (failed(Status.INCORRECT), Label.CLEAN),
    "compile_error": (failed(Status.COMPILE_ERROR), Label.CLEAN),
    "hack": (passed(100.0), Label.HACK),
    "suspect": (passed(1.5), Label.SUSPECT),
    "invalid": (failed(Status.INVALID), Label.CLEAN),
}


@dataclass(frozen=True, kw_only=True)
class Stored:
    job_id: UUID
    evaluation_id: UUID
    problem_id: UUID


def queued(
    connection: sa.Connection,
    of: Problem,
    source: bytes,
    backend: str = "triton",
    device: str = "cpu",
) -> tuple[UUID, UUID]:
    """Queue one job; its id and that of its problem."""
    [problem_id] = problems.add(connection, [of])
    [candidate_id] = candidates.add(
        connection, [candidates.Candidate(backend=backend, source=source)]
    )
    options = JobOptions()
    key = idempotency_key(
        problem_sha256=of.reference_sha256,
        candidate=source,
        backend=backend,
        entry_point=of.entry_point,
        device_class=device,
        device=None,
        options=options,
    )
    new = jobs.NewJob(
        job_id=ids.new_id(),
        problem_id=problem_id,
        candidate_id=candidate_id,
        idempotency_key=key,
        priority="normal",
        device_class=device,
        device=None,
        options=options,
    )
    [job_id] = jobs.add(connection, [new])
    return job_id, problem_id


def evaluate(
    connection: sa.Connection,
    of: Problem,
    source: bytes,
    kind: str = "fast",
    backend: str = "triton",
    device: str = "cpu",
) -> Stored:
    """Queue, claim and finish one job; `device`: class of the device that the
    evaluation says it was measured on.
    """
    evaluation, label = KINDS[kind]
    evaluation = replace(
        evaluation, environment=replace(evaluation.environment, device_class=device)
    )
    job_id, problem_id = queued(connection, of, source, backend, device)
    lease = leases.claim(connection, job_id, "test", 60.0)
    assert lease is not None
    evaluation_id = evaluations.add(
        connection, lease, worker="w", evaluation=evaluation, verdict=verdict(label)
    )
    assert evaluation_id is not None
    return Stored(job_id=job_id, evaluation_id=evaluation_id, problem_id=problem_id)


def turn(messages: tuple[str, ...], response: str, stored: Stored | None) -> Turn:
    return Turn(
        messages=tuple(Message(role="user", content=text) for text in messages),
        response=response,
        candidate=None,
        job_id=stored.job_id if stored else None,
    )


def fill(database: Database) -> dict[str, Stored]:
    """7 problems × 7 kinds without trajectory; then a three-turn trajectory, and a
    job that two runs share.
    """
    found: dict[str, Stored] = {}
    for number in range(7):
        with database.begin() as connection:
            for kind in KINDS:
                found[f"{kind}{number}"] = evaluate(
                    connection, problem(number), code(f"{kind}{number}").encode(), kind
                )
    with database.begin() as connection:
        run_id = trajectories.add_run(connection, Run(name="three", model="org/model-a"))
        attempts = [
            evaluate(connection, problem(0), code(f"turn{n}").encode(), kind)
            for n, kind in enumerate(THREE)
        ]
        turns = [
            turn((f"prompt {n}",), f"Thinking.\n```python\n{code(f'turn{n}')}```", stored)
            for n, stored in enumerate(attempts)
        ]
        trajectories.add(
            connection,
            problem_id=attempts[0].problem_id,
            backend="triton",
            turns=turns,
            run_id=run_id,
            label="t",
        )
        found |= {f"turn{n}": stored for n, stored in enumerate(attempts)}
    with database.begin() as connection:
        shared = evaluate(connection, problem(1), code("shared").encode())
        for name in ("first", "second"):
            run_id = trajectories.add_run(connection, Run(name=name, model=f"org/{name}"))
            answer = turn((f"prompt of {name}",), f"```\n{code('shared')}\n```", shared)
            trajectories.add(
                connection,
                problem_id=shared.problem_id,
                backend="triton",
                turns=[answer],
                run_id=run_id,
            )
        found["shared"] = shared
    return found


THREE = ("incorrect", "slow", "fast")
"""Results of the turns of the long trajectory."""

EVALUATIONS = 7 * len(KINDS) + 3 + 1
ATTEMPTS = EVALUATIONS + 1
CORRECT_AND_CLEAN = 7 * 2 + 2 + 1
"""Evaluations: fast and slow of each problem, two turns, the shared one."""


@contextmanager
def filled(services: Services) -> Iterator[Database]:
    """A filled database for tests that only read, or do not mind each other's exports."""
    with fresh(services) as settings:
        database = Database(settings.database_url or "")
        fill(database)
        yield database
        database.dispose()


def count(database: Database, table: sa.Table) -> int:
    with database.begin() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
