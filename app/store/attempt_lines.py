"""STORE: lines of attempts: the units of figures over turns, of returns and of advantages.

A line is a trajectory, or an evaluation that no turn asked for.  A sample of a collection is one
line whatever its prompts show: a prompt that is not the whole conversation before it begins a new
trajectory (histories `window` and `best_so_far`, the strategy `windowed`), and no new sample.
Trainers with a row for each turn (Kevin, SkyRL's step-wise trajectories, prime-rl's branching
rollouts) take returns and baselines over such samples, too.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

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


def trajectories_beside(given: sa.ColumnElement[bool]) -> sa.Select[tuple[Any]]:
    """Ids of the trajectories that hold turns of the same samples as those turns which the
    condition selects, these turns' own among them.
    """
    samples = (
        sa.select(nodes.c.rollout_id, nodes.c.sample)
        .select_from(
            turns.join(nodes, nodes.c.turn_id == turns.c.turn_id).join(
                collections, collections.c.collection_id == nodes.c.collection_id
            )
        )
        .where(given, collections.c.spec["strategy"]["name"].astext.in_(LINEAR))
        .distinct()
        .cte("samples")
    )
    others, members = nodes.alias("others"), turns.alias("members")
    return (
        sa.select(members.c.trajectory_id)
        .distinct()
        .select_from(
            samples.join(
                others,
                sa.and_(
                    others.c.rollout_id == samples.c.rollout_id,
                    others.c.sample == samples.c.sample,
                ),
            ).join(members, members.c.turn_id == others.c.turn_id)
        )
    )
