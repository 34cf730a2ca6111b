"""STORE: outcomes behind figures over many evaluations: one an attempt, in the order
of its line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import sqlalchemy as sa

from app.domain import filter_language as filters
from app.domain.filter_language import Expression
from app.domain.metric_samples import COUNTED, Counted, MetricSample
from app.domain.verdict import Label, is_credited
from app.store.evaluation import evaluation_rows
from app.store.filter import filter_sql
from app.store.tables import (
    attempts,
    candidates,
    evaluations,
    jobs,
    problems,
    runs,
    trajectories,
    turns,
    verdicts,
)
from app.store.trajectory import attempt_lines

_OF_DEVICE = frozenset({"gpu", "device", "baseline", "protocol", "backend"})
"""Fields that an answer without code has no value of, because it was never run."""

_JOINED = attempt_lines.joined(
    attempts.join(problems, problems.c.problem_id == attempts.c.problem_id)
    .outerjoin(evaluations, evaluations.c.evaluation_id == attempts.c.evaluation_id)
    .outerjoin(jobs, jobs.c.job_id == evaluations.c.job_id)
    .outerjoin(candidates, candidates.c.candidate_id == jobs.c.candidate_id)
    .outerjoin(verdicts, evaluation_rows.CURRENT)
    .outerjoin(turns, turns.c.turn_id == attempts.c.turn_id)
    .outerjoin(trajectories, trajectories.c.trajectory_id == attempts.c.trajectory_id)
    .outerjoin(runs, runs.c.run_id == attempts.c.run_id)
)


@dataclass(frozen=True, kw_only=True)
class Attempted:
    """One attempt that counts."""

    run: str | None
    model: str | None
    source_set: str
    level: int | None
    line: str
    """Key of its line (app.store.trajectory.attempt_lines)."""
    turn: int | None
    """Place in the line."""
    device: str | None
    """Device class; of an answer without code that of the other answers of its line,
    else of its run.
    """
    backend: str | None
    policy: str | None
    passed: bool
    """True if every call was right, independent of the verdict."""
    label: Label | None
    """None of an answer without code."""
    outcome: MetricSample


def attempted(
    connection: sa.Connection, expression: Expression, counted: Counted = COUNTED
) -> list[Attempted]:
    """Every attempt that a filter finds and that counts; a hack is not correct.

    Conditions of the filter on device and backend do not keep answers without code
    away: they belong to their run.
    """
    columns = {
        **{name: evaluation_rows.COLUMNS[name] for name in ("run", "model", "source_set", "level")},
        "problem_id": attempts.c.problem_id,
        "line": attempt_lines.KEY,
        "turn": attempt_lines.TURN,
        "device": evaluations.c.device_class,
        "backend": sa.func.coalesce(candidates.c.backend, trajectories.c.backend),
        "policy": verdicts.c.policy,
        "evaluation_id": attempts.c.evaluation_id,
        "valid": attempts.c.valid,
        "correct": attempts.c.correct,
        "label": attempts.c.label,
        "speedup": attempts.c.speedup,
    }
    query = (
        sa.select(*(column.label(name) for name, column in columns.items()))
        .select_from(_JOINED)
        .where(_kept(expression))
        .order_by(
            attempt_lines.KEY,
            attempt_lines.TURN,
            attempts.c.created_at,
            attempts.c.attempt_id,
        )
    )
    records = connection.execute(query, execution_options={"yield_per": 5_000})
    found = [
        _attempted(record)
        for record in records
        if counted.counts(has_code=record.evaluation_id is not None, valid=record.valid)
    ]
    return _with_devices(found)


def _kept(expression: Expression) -> sa.ColumnElement[bool]:
    """The filter; its conditions on the device alone are not asked of answers without code."""
    without_code = evaluations.c.evaluation_id.is_(None)
    kept = [
        (
            sa.or_(without_code, filter_sql.compile(part))
            if _only_of_device(part)
            else filter_sql.compile(part)
        )
        for part in filter_sql.parts_of(expression)
    ]
    return sa.and_(*kept)


def _only_of_device(expression: Expression) -> bool:
    names = filters.names(expression)
    return bool(names) and names <= _OF_DEVICE


def _attempted(record: sa.Row[tuple[object, ...]]) -> Attempted:
    correct = is_credited(correct=record.correct, label=record.label)
    return Attempted(
        run=record.run,
        model=record.model,
        source_set=record.source_set,
        level=record.level,
        line=record.line,
        turn=record.turn,
        device=record.device,
        backend=record.backend,
        policy=record.policy,
        passed=record.correct,
        label=None if record.label is None else Label(record.label),
        outcome=MetricSample(
            problem=str(record.problem_id),
            correct=correct,
            speedup=record.speedup if correct else None,
        ),
    )


def _with_devices(found: list[Attempted]) -> list[Attempted]:
    """Answers without code get the device, and the policy, that most other answers of their line
    have, else of their run.
    """
    of_line, of_run = _usual(found, "line"), _usual(found, "run")
    return [one if one.label is not None else _with_device(one, of_line, of_run) for one in found]


_Usual = dict[str | None, tuple[str | None, str | None]]
"""Line or run → its most frequent device and policy."""


def _with_device(one: Attempted, of_line: _Usual, of_run: _Usual) -> Attempted:
    usual = of_line.get(one.line) or of_run.get(one.run, (None, None))
    return replace(one, device=usual[0], policy=usual[1])


def _usual(found: Iterable[Attempted], name: str) -> _Usual:
    seen: dict[str | None, Counter[tuple[str | None, str | None]]] = {}
    for one in found:
        if one.label is not None:
            seen.setdefault(getattr(one, name), Counter())[one.device, one.policy] += 1
    return {
        key: min(pairs, key=lambda pair: (-pairs[pair], str(pair))) for key, pairs in seen.items()
    }
