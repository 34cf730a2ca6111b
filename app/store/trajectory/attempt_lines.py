"""STORE: lines of attempts: the units of figures over turns, of returns and of advantages.

A line is a trajectory, or an evaluation that no turn asked for.  A sample of a collection is one
line whatever its prompts show: a prompt that is not the whole conversation before it begins a new
trajectory (histories `window` and `best_so_far`, the strategy `windowed`), and no new sample.
Trainers with a row for each turn (Kevin, SkyRL's step-wise trajectories, prime-rl's branching
rollouts) take returns and baselines over such samples, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.domain.collection.strategies import LINEAR
from app.store.tables import attempts, collections, nodes, turns

SAMPLE: sa.ColumnElement[str] = (
    sa.cast(nodes.c.rollout_id, sa.Text) + "/" + sa.cast(nodes.c.sample, sa.Text)
)
"""Key of the sample that a turn belongs to; NULL of a turn that no such collection asked for."""

KEY: sa.ColumnElement[str] = sa.func.coalesce(
    SAMPLE, sa.cast(sa.func.coalesce(attempts.c.trajectory_id, attempts.c.attempt_id), sa.Text)
)
"""Key of an attempt's line; the query is from `joined`."""

TURN: sa.ColumnElement[int] = sa.func.coalesce(nodes.c.turn, attempts.c.turn_index)
"""Place in its line; NULL of an evaluation that no turn asked for."""


def joined(
    source: sa.FromClause,
    run_id: sa.ColumnElement[Any] = attempts.c.run_id,
    turn_id: sa.ColumnElement[Any] = attempts.c.turn_id,
) -> sa.FromClause:
    """The source, which has these columns, with the nodes of samples beside it."""
    return source.outerjoin(
        collections,
        sa.and_(
            collections.c.run_id == run_id,
            collections.c.spec["strategy"]["name"].astext.in_(LINEAR),
        ),
    ).outerjoin(
        nodes,
        sa.and_(nodes.c.turn_id == turn_id, nodes.c.collection_id == collections.c.collection_id),
    )


def with_lines(connection: sa.Connection, trajectory_ids: Iterable[UUID]) -> list[UUID]:
    """These trajectories, and all others with turns of the same samples of collections."""
    own = set(trajectory_ids)
    one, other = nodes.alias("one"), nodes.alias("other")
    mine, theirs = turns.alias("mine"), turns.alias("theirs")
    same = sa.and_(other.c.rollout_id == one.c.rollout_id, other.c.sample == one.c.sample)
    beside = (
        sa.select(theirs.c.trajectory_id)
        .select_from(mine)
        .join(one, one.c.turn_id == mine.c.turn_id)
        .join(
            collections,
            sa.and_(
                collections.c.collection_id == one.c.collection_id,
                collections.c.spec["strategy"]["name"].astext.in_(LINEAR),
            ),
        )
        .join(other, same)
        .join(theirs, theirs.c.turn_id == other.c.turn_id)
        .where(mine.c.trajectory_id == sa.any_(sa.literal(list(own), ARRAY(sa.Uuid))))
    )
    return sorted(own.union(connection.scalars(beside.distinct())))
