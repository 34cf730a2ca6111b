"""STORE: turns of collections with prompts that quote earlier attempts, as the histories `window`
and `best_so_far` and strategies with several parents do.

Such a turn begins a trajectory of its own, in which no earlier turn stands for the answers that its
prompt shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import sqlalchemy as sa

from app.domain.dataset.selection import Context
from app.domain.verdict import Label
from app.store.tables import nodes

Quotes = Mapping[tuple[str, int], Context]
"""(Trajectory, turn) → the narrowest context that admits every answer quoted by its prompt."""

_FOUND = """
    SELECT said.trajectory_id, said.turn_index, max(CASE
        WHEN shown.job_id IS NULL THEN 1
        WHEN measured.valid IS NOT TRUE OR judged.label IS NULL THEN 2
        WHEN coalesce(measured.human_verdict, judged.label) <> :clean THEN 2
        WHEN measured.correct THEN 0 ELSE 1 END) AS admitted
    FROM public.nodes AS asked
    JOIN public.turns AS said ON said.turn_id = asked.turn_id
    JOIN public.nodes AS shown
        ON shown.rollout_id = asked.rollout_id AND shown.key = ANY (asked.shown)
    LEFT JOIN evaluations AS measured
        ON measured.job_id = shown.job_id AND measured.created_at < :as_of
    LEFT JOIN verdicts AS judged ON judged.evaluation_id = measured.evaluation_id
        AND judged.is_current AND judged.policy = :policy
    WHERE NOT asked.continues AND shown.answer IS NOT NULL AND said.created_at < :as_of
    GROUP BY said.trajectory_id, said.turn_index"""
_ADMITTING = (Context.CLEAN, Context.WRONG, Context.ANY)


def found(
    connection: sa.Connection, policy: str, as_of: datetime, *, prefix: str = ""
) -> dict[tuple[str, int], Context]:
    """Turns older than `as_of` with quotes, see `Quotes`.

    A quoted answer without a verdict under the policy is admitted by `any` alone.  `prefix`: common
    table expressions that replace tables, see `app.store.dataset.export_attempts.as_it_was`.
    """
    values = {"clean": str(Label.CLEAN), "policy": policy, "as_of": as_of}
    rows = connection.execute(sa.text(prefix + _FOUND), values)
    return {(str(row.trajectory_id), row.turn_index): _ADMITTING[row.admitted] for row in rows}


def asks_alone(turn_id: sa.ColumnElement[object]) -> sa.ColumnElement[bool]:
    """Condition: the prompt of the turn shows no earlier attempt of a collection."""
    quoting = sa.select(nodes.c.node_id).where(
        nodes.c.turn_id == turn_id, sa.not_(nodes.c.continues), nodes.c.shown != sa.text("'{}'")
    )
    return sa.not_(sa.exists(quoting))
