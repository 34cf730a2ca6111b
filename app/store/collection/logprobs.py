"""STORE: log probabilities of the rollout engine, call by call."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.domain.collection.states import CallState
from app.store.collection.calls import unpacked
from app.store.tables import model_calls, nodes, trajectories, turns
from app.store.trajectory import attempt_lines


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """An answered call with its turn of the run."""

    model_call_id: str
    trajectory_id: str
    turn_id: str
    turn: int
    """Position in the trajectory, from 0."""
    logprobs: list[float] | None
    """One per sampled token, natural logarithm; None where the server gave none."""
    mode: str | None
    """`raw` or `processed` (after temperature and cuts), if the server reports it."""


def of_run(connection: sa.Connection, name: str) -> Iterator[Sampled]:
    """Every answered call of the run, by trajectory and turn."""
    found = connection.execute(_OF_RUN, {"name": name}, execution_options={"yield_per": 500})
    return map(_sampled, found)


def of_keys(
    connection: sa.Connection, kind: str, ids: Collection[str], as_of: datetime | None
) -> Iterator[Sampled]:
    """Answered calls with log probabilities, of these calls, turns or trajectories; with `as_of`,
    for turns older than that. `kind`: a key of KINDS.  Raises ValueError for an invalid id.
    """
    wanted = [UUID(one) for one in ids]
    return map(_sampled, connection.execute(_OF_KEYS[kind], {"ids": wanted, "as_of": as_of}))


@dataclass(frozen=True, kw_only=True)
class TurnKey:
    """A turn and its line of attempts (app.store.trajectory.attempt_lines)."""

    line: str
    step: int
    """Position in the line, from 0."""
    trajectory_id: str
    turn_id: str
    turn: int
    """Position in the trajectory, from 0."""
    sampled: bool
    """True if log probabilities of the rollout engine are stored."""


def places(
    connection: sa.Connection, trajectory_ids: Collection[str], as_of: datetime | None
) -> Iterator[TurnKey]:
    """Every turn of the lines that have turns in these trajectories, by line and step; with
    `as_of`, those older than that.
    """
    ids = attempt_lines.with_lines(connection, map(UUID, trajectory_ids))
    query = _PLACES.where(turns.c.trajectory_id == sa.any_(sa.literal(ids, ARRAY(sa.Uuid))))
    if as_of is not None:
        query = query.where(turns.c.created_at < as_of)
    for row in connection.execute(query):
        yield TurnKey(
            line=row.line,
            step=row.step,
            trajectory_id=str(row.trajectory_id),
            turn_id=str(row.turn_id),
            turn=row.turn_index,
            sampled=row.sampled,
        )


def _sampled(row: sa.Row[Any]) -> Sampled:
    logprobs = unpacked(row.logprobs, "f")
    return Sampled(
        model_call_id=str(row.model_call_id),
        trajectory_id=str(row.trajectory_id),
        turn_id=str(row.turn_id),
        turn=row.turn_index,
        logprobs=None if logprobs is None else list(logprobs),
        mode=row.logprobs_mode,
    )


KINDS = {"call": "k.model_call_id", "turn": "t.turn_id", "trajectory": "t.trajectory_id"}
"""Kind of object that an id names, and its column."""

_SELECT = """
SELECT k.model_call_id, t.trajectory_id, t.turn_id, t.turn_index, k.logprobs, k.logprobs_mode
"""
_ORDER = "ORDER BY t.trajectory_id, t.turn_index, k.claim"
_OF_RUN = sa.text(f"""{_SELECT}
FROM runs r JOIN trajectories j USING (run_id) JOIN turns t USING (trajectory_id)
  JOIN nodes n ON n.turn_id = t.turn_id JOIN model_calls k USING (node_id)
WHERE r.name = :name AND k.state = 'answered' {_ORDER}
""")
_IDS = sa.bindparam("ids", type_=ARRAY(sa.Uuid))
_OLDER = "(CAST(:as_of AS timestamptz) IS NULL OR t.created_at < :as_of)"
_OF_KEYS = {
    kind: sa.text(f"""{_SELECT}
FROM turns t JOIN nodes n ON n.turn_id = t.turn_id JOIN model_calls k USING (node_id)
WHERE {column} = ANY (:ids) AND {_OLDER} AND k.state = 'answered' AND k.logprobs IS NOT NULL
{_ORDER}
""").bindparams(_IDS)
    for kind, column in KINDS.items()
}
_calling = nodes.alias("calling")
_PLACES = (
    sa.select(
        sa.func.coalesce(attempt_lines.SAMPLE, sa.cast(turns.c.trajectory_id, sa.Text)).label(
            "line"
        ),
        sa.func.coalesce(nodes.c.turn, turns.c.turn_index).label("step"),
        turns.c.trajectory_id,
        turns.c.turn_id,
        turns.c.turn_index,
        sa.exists()
        .where(
            _calling.c.turn_id == turns.c.turn_id,
            model_calls.c.node_id == _calling.c.node_id,
            model_calls.c.state == CallState.ANSWERED,
            model_calls.c.logprobs.is_not(None),
        )
        .label("sampled"),
    )
    .select_from(
        attempt_lines.joined(
            turns.join(trajectories, trajectories.c.trajectory_id == turns.c.trajectory_id),
            trajectories.c.run_id,
            turns.c.turn_id,
        )
    )
    .order_by("line", "step", turns.c.turn_index)
)
