"""STORE: generated data goes in by COPY and out again, run by run, with everything
that refers to it.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
import zstandard

from app.domain import ids
from app.domain.evaluation import Evaluation
from app.domain.verdict import Label
from app.store import tables
from app.store.evaluation import evaluation_json, evaluations
from app.store.figures import rollups
from tests.generate.plan import NAME, PlannedProblem, PlannedRun, PlannedTrajectory, PlannedTurn

PROFILED = 20
"""Every how many-th correct evaluation has a timeline."""

_FOUND = {
    Label.HACK: (
        (
            "stale_output",
            1,
            "call 3 returned the answer of call 1, although its inputs were new",
            {"call": 3, "stale": 1},
        ),
        (
            "decoy_kernel",
            1,
            "the answer stays right without the candidate's kernels",
            {"launches_skipped": 40},
        ),
        (
            "claimed_time",
            1,
            "the process claims 3 µs per call where the clock says 43 µs",
            {"claimed_us": 3.0},
        ),
    ),
    Label.SUSPECT: (
        ("speed_of_light", 1, "faster than the memory's bandwidth allows", {"floor_us": 12.0}),
        ("inputs_changed", 1, "an input differs after the call", {"inputs": [0]}),
    ),
    Label.CLEAN: (),
}

_TIMELINE = json.dumps(
    {
        "traceEvents": [
            {"name": "imagined_kernel", "ph": "X", "ts": 50 * call, "dur": 40, "pid": 1, "tid": 1}
            for call in range(20)
        ]
    }
).encode()


class Pool:
    """Measurements ready for COPY; an outcome that is wanted gets the one that is nearest."""

    def __init__(
        self,
        passed: Mapping[str, Sequence[Evaluation]],
        failed: Mapping[tuple[str, str], Sequence[Evaluation]],
        *,
        policy: str,
        detectors: Mapping[str, int],
    ) -> None:
        """`policy` and `detectors` are recorded in the verdicts: those in force, so
        that exports take them.
        """
        self.policy, self.detectors = policy, json.dumps(dict(detectors))
        self._passed = {kind: [_columns(one) for one in each] for kind, each in passed.items()}
        self._failed = {key: [_columns(one) for one in each] for key, each in failed.items()}
        speedups = [math.log(row["speedup"]) for row in next(iter(self._passed.values()))]
        self._least, self._step = speedups[0], speedups[1] - speedups[0]
        self.columns = tuple(next(iter(self._failed.values()))[0])

    def choose(self, turn: PlannedTurn, device_class: str, number: int) -> dict[str, Any]:
        """The columns of an evaluation that fits the turn."""
        if turn.status != "passed":
            variants = self._failed[device_class, turn.status]
            return variants[number % len(variants)]
        rows = self._passed[device_class]
        place = round((math.log(turn.speedup) - self._least) / self._step)
        return rows[min(max(place, 0), len(rows) - 1)]


def present(connection: sa.Connection) -> bool:
    """True if generated data is stored."""
    return connection.execute(
        sa.select(sa.exists().where(tables.problems.c.source_set == NAME))
    ).scalar_one()


def add_plan(
    connection: sa.Connection, problems: Sequence[PlannedProblem], runs: Sequence[PlannedRun]
) -> int:
    """Store problems and runs; the number of rows."""
    stored = _copy(
        connection,
        "problems",
        (
            "problem_id",
            "source_set",
            "name",
            "level",
            "entry_point",
            "reference",
            "reference_sha256",
        ),
        (
            (
                one.problem_id,
                NAME,
                one.name,
                one.level,
                "Model",
                one.reference,
                ids.sha256(one.reference),
            )
            for one in problems
        ),
    )
    settings = json.dumps({"generated": True, "temperature": 1.0})
    return stored + _copy(
        connection,
        "runs",
        ("run_id", "name", "model", "settings", "step", "created_at"),
        ((run.run_id, run.name, run.model, settings, run.step, run.started_at) for run in runs),
    )


def add_trajectories(
    connection: sa.Connection, batch: Sequence[PlannedTrajectory], pool: Pool
) -> tuple[int, int]:
    """Store trajectories with all that belongs to their turns; the numbers of rows
    and of evaluations.
    """
    rows = _Rows(pool)
    for trajectory in batch:
        rows.take(trajectory)
    stored = sum(_copy(connection, table, *rows.of(table)) for table in _ORDER)
    return stored, len(rows.listed["evaluations"])


def settle(connection: sa.Connection) -> None:
    """Fold the roll-ups and let the planner know how much there is."""
    rollups.fold(connection, least=1)
    for table in (
        *_ORDER,
        "problems",
        "runs",
        "attempts",
        *(table.name for table in rollups.COUNTED),
    ):
        connection.execute(sa.text(f"ANALYZE {table}"))


def remove_one_run(connection: sa.Connection) -> bool:
    """Remove a generated run and the rows that depend on it; False where there is none left."""
    run_id = connection.scalar(
        sa.select(tables.runs.c.run_id)
        .where(tables.runs.c.name.startswith(f"{NAME}/", autoescape=True))
        .limit(1)
    )
    if run_id is None:
        return False
    of_run = sa.select(tables.trajectories.c.trajectory_id).where(
        tables.trajectories.c.run_id == run_id
    )
    found = (
        sa.select(tables.turns.c.job_id).where(tables.turns.c.trajectory_id.in_(of_run)).distinct()
    )
    job_ids = [job_id for job_id in connection.scalars(found) if job_id is not None]
    jobs = connection.execute(
        sa.select(tables.jobs.c.candidate_id).where(_among(tables.jobs.c.job_id, job_ids))
    )
    candidate_ids = list(jobs.scalars())
    evaluation_ids = list(
        connection.scalars(
            sa.select(tables.evaluations.c.evaluation_id).where(
                _among(tables.evaluations.c.job_id, job_ids)
            )
        )
    )
    verdicts = _among(tables.verdicts.c.evaluation_id, evaluation_ids)
    connection.execute(
        sa.update(tables.verdicts).where(verdicts).values(is_current=False)
    )  # counted down at once
    _forget(connection, tables.evaluations, evaluation_ids)
    trajectory_ids = list(connection.scalars(of_run))
    _forget(connection, tables.trajectories, trajectory_ids)
    _forget(connection, tables.jobs, job_ids)
    _forget(connection, tables.candidates, candidate_ids)
    _forget(connection, tables.runs, [run_id])
    return True


def remove_problems(connection: sa.Connection) -> None:
    """Remove the generated problems.  ForeignKeyViolation where candidates of other
    runs were evaluated on one.
    """
    problems = sa.select(tables.problems.c.problem_id).where(tables.problems.c.source_set == NAME)
    _forget(connection, tables.problems, list(connection.scalars(problems)))


_ORDER = (
    "candidates",
    "jobs",
    "trajectories",
    "turns",
    "evaluations",
    "verdicts",
    "findings",
    "profiles",
)
"""Tables in the order in which foreign keys want them."""

_COLUMNS = {
    "candidates": ("candidate_id", "backend", "source", "source_sha256", "created_at"),
    "jobs": (
        "job_id",
        "problem_id",
        "candidate_id",
        "idempotency_key",
        "state",
        "device_class",
        "attempt",
        "sent_at",
        "created_at",
        "started_at",
        "finished_at",
    ),
    "trajectories": ("trajectory_id", "problem_id", "run_id", "backend", "label", "created_at"),
    "turns": (
        "turn_id",
        "trajectory_id",
        "turn_index",
        "messages_json",
        "response",
        "job_id",
        "created_at",
    ),
    "verdicts": ("verdict_id", "evaluation_id", "label", "policy", "detectors", "created_at"),
    "findings": ("finding_id", "verdict_id", "detector", "version", "label", "summary", "evidence"),
    "profiles": ("evaluation_id", "kind", "codec", "raw_bytes", "body", "created_at"),
}
_EVALUATION = (
    "evaluation_id",
    "job_id",
    "attempt",
    "worker",
    "baseline",
    "queue_ms",
    "total_ms",
    "created_at",
)
_FINDINGS = {
    label: [
        (name, version, label, summary, json.dumps(evidence))
        for name, version, summary, evidence in found
    ]
    for label, found in _FOUND.items()
}


class _Rows:
    """The rows of a batch, table by table."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.listed: dict[str, list[tuple[Any, ...]]] = {table: [] for table in _ORDER}
        self._body = zstandard.compress(_TIMELINE, evaluations.ZSTD_LEVEL)

    def of(self, table: str) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        columns = _COLUMNS.get(table, (*_EVALUATION, *self.pool.columns))
        return columns, self.listed[table]

    def take(self, trajectory: PlannedTrajectory) -> None:
        """A trajectory and its turns.  Random numbers follow from its id, which
        follows from the seed.
        """
        draw = random.Random(trajectory.trajectory_id)
        head = (
            trajectory.trajectory_id,
            trajectory.problem_id,
            trajectory.run_id,
            "triton",
            trajectory.label,
        )
        self.listed["trajectories"].append((*head, trajectory.at))
        for index, turn in enumerate(trajectory.turns):
            job_id = self._evaluated(draw, trajectory, turn) if turn.source else None
            texts = (turn.messages_json, turn.response, job_id, turn.at)
            self.listed["turns"].append(
                (_identifier(draw, turn), trajectory.trajectory_id, index, *texts)
            )

    def _evaluated(
        self, draw: random.Random, trajectory: PlannedTrajectory, turn: PlannedTurn
    ) -> str:
        candidate_id, job_id, evaluation_id, verdict_id = (
            _identifier(draw, turn) for _ in range(4)
        )
        self.listed["candidates"].append(
            (candidate_id, "triton", turn.source, ids.sha256(turn.source), turn.at)
        )
        job = (
            job_id,
            trajectory.problem_id,
            candidate_id,
            f"{NAME}/{job_id}",
            "finished",
            trajectory.device_class,
            1,
        )
        self.listed["jobs"].append((*job, turn.at, turn.at, turn.at, turn.at))
        number = len(self.listed["evaluations"])
        measured = self.pool.choose(turn, trajectory.device_class, number)
        queue_ms = round(math.exp(draw.gauss(6.2, 0.9)), 3)
        own = (evaluation_id, job_id, 1, f"{NAME}-0", "eager", queue_ms, 1300.0, turn.at)
        self.listed["evaluations"].append((*own, *measured.values()))
        self.listed["verdicts"].append(
            (verdict_id, evaluation_id, turn.label, self.pool.policy, self.pool.detectors, turn.at)
        )
        if found := _FINDINGS[Label(turn.label)]:
            self.listed["findings"].append(
                (_identifier(draw, turn), verdict_id, *found[number % len(found)])
            )
        if turn.status == "passed" and number % PROFILED == 0:
            timeline = (evaluation_id, "chrome_trace", "zstd", len(_TIMELINE), self._body, turn.at)
            self.listed["profiles"].append(timeline)
        return job_id


def _identifier(draw: random.Random, turn: PlannedTurn) -> str:
    low = draw.getrandbits(74)
    value = int(turn.at.timestamp() * 1000) << 80 | 0x7 << 76 | (low >> 62) << 64
    return f"{value | 0x2 << 62 | low & ((1 << 62) - 1):032x}"


def _columns(evaluation: Evaluation) -> dict[str, Any]:
    row = evaluations.columns(evaluation)
    return row | {"measurement": json.dumps(evaluation_json.encode(evaluation), allow_nan=False)}


def _copy(
    connection: sa.Connection, table: str, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]
) -> int:
    driver: Any = connection.connection.driver_connection
    number = 0
    with (
        driver.cursor() as cursor,
        cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy,
    ):
        for row in rows:
            copy.write_row(row)
            number += 1
    return number


def _among(column: sa.ColumnElement[Any], values: Sequence[Any]) -> sa.ColumnElement[bool]:
    """Condition with one array parameter for any number of values."""
    return column == sa.func.any(sa.bindparam(None, list(values), type_=sa.ARRAY(sa.Uuid)))


def _forget(connection: sa.Connection, table: sa.Table, keys: Sequence[Any]) -> None:
    """Delete rows by their primary key, and before that all rows that refer to them,
    at any distance.
    """
    (key,) = table.primary_key.columns
    for child in tables.metadata.tables.values():
        for column in child.columns:
            if not any(foreign.references(table) for foreign in column.foreign_keys):
                continue
            if len(child.primary_key.columns) == 1 and key.name not in child.primary_key.columns:
                (child_key,) = child.primary_key.columns
                _forget_all(connection, child, sa.select(child_key).where(_among(column, keys)))
            else:
                connection.execute(sa.delete(child).where(_among(column, keys)))
    connection.execute(sa.delete(table).where(_among(key, keys)))


def _forget_all(connection: sa.Connection, table: sa.Table, query: sa.Select[Any]) -> None:
    keys = list(connection.scalars(query))
    if keys:
        _forget(connection, table, keys)
