"""STORE: figures of a run in progress: counts from roll-ups, rewards of its latest turns, jobs
that are open.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.domain import metrics, reward
from app.domain.job import JobState
from app.store.figures import reward_samples
from app.store.tables import attempt_counts, attempts, evaluations, jobs, runs

RECENT = 1_000
"""Single submissions of a run without trajectories over which its rewards are averaged."""
LATEST = 2_000
"""Evaluations of the whole service that monitoring looks at, and answers without code beside
them.
"""
MOST_RUNS = 50
"""Runs in the metrics: each is a label of several series."""

_COUNTED = ("attempts", "correct", "passed", "hacks", "suspects", "timed", "log_speedup_e9")
_MEASURED = ("valid", "status", "compiled", "correct", "speedup", "coverage_time", "coverage_count")


@dataclass(frozen=True, kw_only=True)
class Figures:
    """One run, as it is now."""

    queued: int
    running: int
    attempts: int
    """Answers, those without code among them."""
    correct: int
    """Right on every call, and no hack."""
    hacks: int
    suspects: int
    hack_ratio: float | None
    """Hacks among the answers; None without answers."""
    mean_speedup: float | None
    """Geometric mean over attempts that are right, no hack, and timed."""
    rewards: dict[str, float]
    """Mean of each reward over the latest turns (`reward_samples`), those without code among them,
    as the run's pages have it; over single submissions in a run without trajectories.
    """
    last_evaluation_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Recent:
    """A run among the latest evaluations of the service."""

    run: str
    evaluations: int
    """Valid ones among the latest."""
    hack_ratio: float | None
    """Share of hacks in the whole run, as in `Figures`."""
    rewards: dict[str, float]
    """Mean of each reward over those evaluations and the run's answers without code of that time,
    which are failures as in `Figures`.
    """


def of_run(connection: sa.Connection, run_id: UUID) -> Figures:
    """The figures of a run; zeros and None for a run without answers."""
    number = _counts(connection, [run_id])[run_id]
    states = _open(connection, run_id)
    return Figures(
        queued=states.get(JobState.QUEUED, 0),
        running=states.get(JobState.RUNNING, 0),
        attempts=number["attempts"],
        correct=number["correct"],
        hacks=number["hacks"],
        suspects=number["suspects"],
        hack_ratio=_hack_ratio(number),
        mean_speedup=(
            math.exp(number["log_speedup_e9"] / 1e9 / number["timed"]) if number["timed"] else None
        ),
        rewards=_rewards(_latest_results(connection, run_id)),
        last_evaluation_at=connection.scalar(_last_evaluation(run_id)),
    )


def _counts(connection: sa.Connection, run_ids: Sequence[UUID]) -> dict[UUID, dict[str, int]]:
    """Run → number of its answers by _COUNTED."""
    totals = [sa.func.sum(attempt_counts.c[name]).label(name) for name in _COUNTED]
    run_id = attempt_counts.c.run_id
    query = sa.select(run_id, *totals).where(run_id.in_(run_ids)).group_by(run_id)
    found = {each: dict.fromkeys(_COUNTED, 0) for each in run_ids}
    for row in connection.execute(query).mappings():
        found[row["run_id"]] = {name: int(row[name]) for name in _COUNTED}
    return found


def _hack_ratio(number: Mapping[str, int]) -> float | None:
    return metrics.hack_rate(number["hacks"], number["attempts"]).value


def _latest_results(connection: sa.Connection, run_id: UUID) -> list[Mapping[str, Any]]:
    samples, _ = reward_samples.latest(connection, run_id)
    if samples:
        return [sample.result for sample in samples]
    single = _measured().where(attempts.c.run_id == run_id)
    newest = single.order_by(attempts.c.created_at.desc()).limit(RECENT)
    return list(connection.execute(newest).mappings())  # type: ignore[arg-type]  # names are keys


def _last_evaluation(run_id: UUID) -> sa.Select[Any]:
    """Moment of the evaluation of the latest valid attempt with code."""
    newest = _measured().where(attempts.c.run_id == run_id).order_by(attempts.c.created_at.desc())
    return newest.with_only_columns(evaluations.c.created_at).limit(1)


def latest(connection: sa.Connection) -> list[Recent]:
    """The runs among the latest answers of the service, that with most of them first."""
    newest = sa.select(evaluations.c.evaluation_id, evaluations.c.created_at)
    window = newest.order_by(
        evaluations.c.created_at.desc(), evaluations.c.evaluation_id.desc()
    ).limit(LATEST)
    read = connection.execute(window).all()
    since = read[-1].created_at if len(read) == LATEST else None
    measured = _by_run(connection, [row.evaluation_id for row in read])
    silent = _without_code(connection, since)
    answers = {run_id: len(measured[run_id]) + silent[run_id] for run_id in {*measured, *silent}}
    most = sorted(answers, key=lambda run_id: (-answers[run_id], run_id))[:MOST_RUNS]
    names = _names(connection, most)
    number = _counts(connection, most)
    return [
        Recent(
            run=names[run_id],
            evaluations=len(measured[run_id]),
            hack_ratio=_hack_ratio(number[run_id]),
            rewards=_rewards([*measured[run_id], *[reward.WITHOUT_CODE] * silent[run_id]]),
        )
        for run_id in most
    ]


def _by_run(
    connection: sa.Connection, evaluation_ids: Sequence[UUID]
) -> defaultdict[UUID, list[Mapping[str, Any]]]:
    """Run → input of rewards from its valid attempts with these evaluations."""
    query = (
        _measured()
        .add_columns(attempts.c.run_id)
        .where(attempts.c.run_id.is_not(None))
        .where(attempts.c.evaluation_id == sa.any_(sa.literal(evaluation_ids, ARRAY(sa.Uuid))))
    )
    found: defaultdict[UUID, list[Mapping[str, Any]]] = defaultdict(list)
    for row in connection.execute(query).mappings():
        found[row["run_id"]].append(row)  # type: ignore[arg-type]  # names are keys
    return found


def _without_code(connection: sa.Connection, since: datetime | None) -> Counter[UUID]:
    """Run → number of its answers without code among the latest ones of the service, `since` a
    moment where there is one.
    """
    a = attempts.c
    latest = sa.select(a.run_id).where(a.evaluation_id.is_(None), a.run_id.is_not(None))
    if since is not None:
        latest = latest.where(a.created_at >= since)
    return Counter(connection.scalars(latest.order_by(a.created_at.desc()).limit(LATEST)))


def _names(connection: sa.Connection, run_ids: Sequence[UUID]) -> dict[UUID, str]:
    query = sa.select(runs.c.run_id, runs.c.name).where(runs.c.run_id.in_(run_ids))
    return {row.run_id: row.name for row in connection.execute(query)}


def _measured() -> sa.Select[Any]:
    """Input of rewards, from attempts that are valid evaluations."""
    columns = [evaluations.c[name] for name in _MEASURED]
    return (
        sa.select(*columns, attempts.c.label.label("verdict"), evaluations.c.created_at)
        .select_from(
            attempts.join(evaluations, evaluations.c.evaluation_id == attempts.c.evaluation_id)
        )
        .where(attempts.c.valid)
    )


def _rewards(rows: Iterable[Mapping[str, Any] | sa.RowMapping]) -> dict[str, float]:
    """Mean of each reward, with the standard options."""
    values: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, value in reward.every(row).items():  # type: ignore[arg-type]
            values[name].append(value)
    return {name: fmean(each) for name, each in sorted(values.items())}


def _open(connection: sa.Connection, run_id: UUID) -> dict[str, int]:
    states = (JobState.QUEUED, JobState.RUNNING)
    query = sa.select(jobs.c.state, sa.func.count()).where(
        jobs.c.run_id == run_id, jobs.c.state.in_(states)
    )
    return {row[0]: row[1] for row in connection.execute(query.group_by(jobs.c.state))}
