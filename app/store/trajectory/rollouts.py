"""STORE: rollouts of trainers: the problem that each is of, the run of its step, and
its trajectory of one turn.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from uuid import UUID

import sqlalchemy as sa

from app.domain import ids
from app.domain.problem import ADHOC, Problem
from app.domain.request import MissingError
from app.domain.rollout import Rollout
from app.domain.source import source_text
from app.store import tables
from app.store.postgres.jsonb import plain
from app.store.queue import jobs
from app.store.trajectory import problems

_p = tables.problems.c


def problems_of(connection: sa.Connection, rollouts: Sequence[Rollout]) -> list[Problem]:
    """The problem of each: the stored one of that id, else the stored one of that
    content, else the one that is told.

    An id of a problem with another reference than the given one is ignored: the trainer scores the
    reference it gives.  Raises RequestError where neither id nor content is known.
    """
    by_id = {
        one: problems.get(connection, one)
        for one in {each.problem_id for each in rollouts}
        if one is not None
    }
    by_content = _by_content(
        connection, [each.problem for each in rollouts if each.problem is not None]
    )
    found = []
    for each in rollouts:
        stored = by_id.get(each.problem_id) if each.problem_id is not None else None
        told = each.problem
        if stored is not None and (
            told is None or told.reference_sha256 == stored.reference_sha256
        ):
            found.append(stored)
        elif told is not None:
            found.append(by_content.get((told.reference_sha256, told.entry_point), told))
        else:
            raise MissingError(f"problem_id: expected one that is stored, got {each.problem_id}")
    return found


def _by_content(
    connection: sa.Connection, told: Iterable[Problem]
) -> dict[tuple[str, str], Problem]:
    """Stored problems of these references and entry points: of several, a named one
    before one that only came along.
    """
    hashes = sorted({problem.reference_sha256 for problem in told})
    if not hashes:
        return {}
    query = sa.select(tables.problems).where(_p.reference_sha256.in_(hashes))
    found: dict[tuple[str, str], Problem] = {}
    for row in connection.execute(
        query.order_by(_p.source_set == ADHOC, _p.created_at, _p.problem_id)
    ):
        problem = Problem(
            name=row.name,
            reference=row.reference,
            source_set=row.source_set,
            level=row.level,
            entry_point=row.entry_point,
        )
        found.setdefault((row.reference_sha256, row.entry_point), problem)
    return found


def add(
    connection: sa.Connection,
    rollouts: Sequence[Rollout],
    *,
    problem_ids: Sequence[UUID],
    run_ids: Sequence[UUID | None],
    job_ids: Sequence[UUID],
) -> None:
    """Store a trajectory of one turn for each, in the transaction that stores its job."""
    known = _known(connection, rollouts, job_ids)
    heads, turns = [], []
    for rollout, problem_id, run_id, job_id in zip(
        rollouts, problem_ids, run_ids, job_ids, strict=True
    ):
        if rollout.repeatable and known[job_id, run_id, rollout.label] > 0:
            known[job_id, run_id, rollout.label] -= 1
            continue
        trajectory_id = ids.new_id()
        heads.append(
            {
                "trajectory_id": trajectory_id,
                "problem_id": problem_id,
                "run_id": run_id,
                "backend": rollout.backend,
                "label": None if rollout.label is None else source_text.printable(rollout.label),
                "claims": plain(dict(rollout.claims)) or None,
            }
        )
        turns.append(
            {
                "turn_id": ids.new_id(),
                "trajectory_id": trajectory_id,
                "turn_index": 0,
                "messages_json": json.dumps(
                    [{"role": one.role, "content": one.content} for one in rollout.messages]
                ),
                "response": source_text.encode(rollout.answer),
                "job_id": job_id,
            }
        )
    if heads:
        connection.execute(sa.insert(tables.trajectories), heads)
        connection.execute(sa.insert(tables.turns), turns)


def _known(
    connection: sa.Connection, rollouts: Sequence[Rollout], job_ids: Sequence[UUID]
) -> Counter[tuple[UUID, UUID | None, str | None]]:
    """Number of stored rollouts of each job, run and label: asked only where a
    sender may ask again.
    """
    asked = [
        job_id for rollout, job_id in zip(rollouts, job_ids, strict=True) if rollout.repeatable
    ]
    if not asked:
        return Counter()
    jobs.lock(connection, asked)  # a transaction that stores the same one ends first
    joined = tables.turns.join(
        tables.trajectories, tables.trajectories.c.trajectory_id == tables.turns.c.trajectory_id
    )
    columns = (tables.turns.c.job_id, tables.trajectories.c.run_id, tables.trajectories.c.label)
    query = (
        sa.select(*columns, sa.func.count())
        .select_from(joined)
        .where(tables.turns.c.job_id.in_(asked))
    )
    return Counter(
        {
            (job_id, run_id, label): count
            for job_id, run_id, label, count in connection.execute(query.group_by(*columns))
        }
    )
