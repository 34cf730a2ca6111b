"""STORE: turns of runs with the measurements that rewards are computed from, evaluated or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from app.domain import reward
from app.domain.collection.stop_reasons import UNFINISHED
from app.domain.job import JobState
from app.store.dataset import export_attempts
from app.store.evaluation import evaluation_rows
from app.store.postgres import arrow
from app.store.tables import (
    collection_rollouts,
    evaluations,
    jobs,
    nodes,
    problems,
    runs,
    trajectories,
    turns,
    verdicts,
)
from app.store.trajectory import attempt_lines

_MEASURED = {
    "status": pa.string(),
    "valid": pa.bool_(),
    "compiled": pa.bool_(),
    "correct": pa.bool_(),
    "verdict": pa.string(),
    "speedup": pa.float64(),
    "coverage_time": pa.float64(),
    "coverage_count": pa.float64(),
}
_CELL = ("device_class", "protocol", "baseline")


@dataclass(frozen=True, kw_only=True)
class StoredTurn:
    """One turn of a run."""

    run: str
    problem: str
    """Name of the problem; its id is in `problem_id`."""
    problem_id: str
    backend: str
    trajectory_id: str
    turn_id: str
    turn: int
    """Position in the trajectory, from 0."""
    line: str
    """Key of the line of attempts (app.store.trajectory.attempt_lines) of returns and baselines."""
    step: int
    """Position in the line, from 0."""
    response_bytes: int
    evaluation_id: str | None
    """None without an evaluation."""
    has_code: bool
    """True if the answer's code was submitted; False: the answer had none."""
    unfinished: bool
    """True for a turn of a collected rollout that has not come to its end, or was ended by a fault,
    a budget or a user: it belongs to no group.
    """
    result: dict[str, object] | None
    """Keys of a result (app.domain.result) that rewards read; None unless it was
    evaluated and judged.
    """
    cell: tuple[str, str, str] | None
    """Device class, protocol and baseline of the evaluation."""

    @property
    def rewarded(self) -> Mapping[str, object] | None:
        """Result that the turn's reward is computed from, also of an answer without code; None
        while there is none.
        """
        return self.result if self.has_code else reward.WITHOUT_CODE


def of_runs(
    connection: sa.Connection,
    names: Sequence[str],
    *,
    as_of: datetime | None = None,
    replay: bool = False,
) -> list[StoredTurn]:
    """Every turn of the named runs, by trajectory and position; of all runs without names.

    With `as_of`, turns and evaluations older than it; with `replay`, too, verdicts
    and reviews as they were then.
    """
    query = _QUERY
    if names:
        query = query.where(runs.c.name.in_(names))
    if as_of is not None:
        query = query.where(turns.c.created_at < as_of)
    prefix = export_attempts.as_it_was(as_of) if replay and as_of is not None else ""
    query = query.select_from(_joined(as_of))
    return [
        _stored(record)
        for batch in arrow.batches(connection, query, _SCHEMA, prefix=prefix)
        for record in batch.to_pylist()
    ]


def missing(connection: sa.Connection, names: Sequence[str]) -> list[str]:
    """Names that no run has, in their order."""
    known = set(connection.scalars(sa.select(runs.c.name).where(runs.c.name.in_(names))))
    return [name for name in names if name not in known]


def _joined(as_of: datetime | None) -> sa.FromClause:
    measured: list[sa.ColumnElement[bool]] = [evaluations.c.job_id == jobs.c.job_id]
    if as_of is not None:
        measured.append(evaluations.c.created_at < as_of)
    source = (
        turns.join(trajectories, trajectories.c.trajectory_id == turns.c.trajectory_id)
        .join(runs, runs.c.run_id == trajectories.c.run_id)
        .join(problems, problems.c.problem_id == trajectories.c.problem_id)
        .outerjoin(jobs, jobs.c.job_id == turns.c.job_id)
        .outerjoin(evaluations, sa.and_(*measured))
        .outerjoin(verdicts, evaluation_rows.CURRENT)
    )
    return attempt_lines.joined(source, trajectories.c.run_id, turns.c.turn_id)


_collected = nodes.alias("collected")
_unfinished = (
    sa.exists()
    .where(
        _collected.c.turn_id == turns.c.turn_id,
        collection_rollouts.c.rollout_id == _collected.c.rollout_id,
    )
    .where(sa.func.coalesce(collection_rollouts.c.stop_reason.in_(sorted(UNFINISHED)), sa.true()))
)
"""True for a turn of a rollout that goes on, or that a fault, a budget or a user ended."""

_COLUMNS: dict[str, tuple[sa.ColumnElement[Any], pa.DataType]] = {
    "run": (runs.c.name, pa.string()),
    "problem": (problems.c.name, pa.string()),
    "problem_id": (trajectories.c.problem_id, pa.string()),
    "backend": (trajectories.c.backend, pa.string()),
    "trajectory_id": (trajectories.c.trajectory_id, pa.string()),
    "turn_id": (turns.c.turn_id, pa.string()),
    "turn": (turns.c.turn_index, pa.int64()),
    "line": (
        sa.func.coalesce(attempt_lines.SAMPLE, sa.cast(trajectories.c.trajectory_id, sa.Text)),
        pa.string(),
    ),
    "step": (sa.func.coalesce(nodes.c.turn, turns.c.turn_index), pa.int64()),
    "response_bytes": (sa.func.octet_length(turns.c.response), pa.int64()),
    "evaluation_id": (evaluations.c.evaluation_id, pa.string()),
    "has_code": (turns.c.job_id.is_not(None), pa.bool_()),
    "unfinished": (_unfinished, pa.bool_()),
    "judged": (
        sa.func.coalesce(
            sa.and_(jobs.c.state == JobState.FINISHED, evaluation_rows.LABEL.is_not(None)),
            sa.false(),
            type_=sa.Boolean,
        ),
        pa.bool_(),
    ),
    **{name: (evaluation_rows.COLUMNS[name], kind) for name, kind in _MEASURED.items()},
    **{name: (evaluation_rows.COLUMNS[name], pa.string()) for name in _CELL},
}
_SCHEMA = pa.schema([(name, kind) for name, (_, kind) in _COLUMNS.items()])
_QUERY = sa.select(*(column.label(name) for name, (column, _) in _COLUMNS.items())).order_by(
    runs.c.name, problems.c.name, trajectories.c.trajectory_id, turns.c.turn_index
)


def _stored(record: dict[str, Any]) -> StoredTurn:
    judged = record["judged"]
    told = (
        "run",
        "problem",
        "problem_id",
        "backend",
        "trajectory_id",
        "turn_id",
        "turn",
        "line",
        "step",
        "response_bytes",
    )
    return StoredTurn(
        **{name: record[name] for name in (*told, "evaluation_id", "has_code", "unfinished")},
        result={name: record[name] for name in _MEASURED} if judged else None,
        cell=tuple(record[name] for name in _CELL) if judged else None,
    )
