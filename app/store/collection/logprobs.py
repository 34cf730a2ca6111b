"""STORE: log probabilities of the rollout engine, call by call."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from app.store.collection.calls import unpacked


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
    """A turn that a trajectory has."""

    trajectory_id: str
    turn_id: str
    turn: int
    sampled: bool
    """True if log probabilities of the rollout engine are stored."""


def places(
    connection: sa.Connection, trajectory_ids: Collection[str], as_of: datetime | None
) -> Iterator[TurnKey]:
    """Every turn of these trajectories, by trajectory and turn; with `as_of`, those older than
    that.
    """
    wanted = [UUID(one) for one in trajectory_ids]
    for row in connection.execute(_PLACES, {"ids": wanted, "as_of": as_of}):
        yield TurnKey(
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
_PLACES = sa.text(f"""
SELECT t.trajectory_id, t.turn_id, t.turn_index, EXISTS (
  SELECT FROM nodes n JOIN model_calls k USING (node_id)
  WHERE n.turn_id = t.turn_id AND k.state = 'answered' AND k.logprobs IS NOT NULL
) AS sampled
FROM turns t WHERE t.trajectory_id = ANY (:ids) AND {_OLDER} ORDER BY t.trajectory_id, t.turn_index
""").bindparams(_IDS)  # noqa: S608 (a condition of our own)
