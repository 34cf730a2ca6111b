"""STORE: mean rewards of runs, kept beside the roll-ups so that lists and trends
need not read their turns.

A kept mean names the counts that it is of: it is current as long as they are the run's.  It may be
removed at any time; `app.web.reward_upkeep` computes it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from app.store.tables import run_rewards


@dataclass(frozen=True, kw_only=True)
class KeptMean:
    """Means of the rewards of a run."""

    mean: float | None
    """Mean over turns; None where no turn has a reward."""
    low: float | None
    high: float | None
    """95 % interval of `mean`; None where it has none."""
    best: float | None
    """Mean over trajectories of their best turn."""
    last: float | None
    """Mean over trajectories of their last turn."""
    turns: int
    """Turns with a reward that the mean is over."""
    revision: tuple[int, ...]
    """Counts of the run that it is of (`app.store.browse.runs`), and the version of the rule."""


def read(connection: sa.Connection, run_ids: Iterable[UUID], reward: str) -> dict[UUID, KeptMean]:
    """Run → its kept mean; without runs that have none."""
    found = sa.select(run_rewards).where(
        run_rewards.c.run_id.in_(list(run_ids)), run_rewards.c.reward == reward
    )
    names = [field.name for field in fields(KeptMean)]
    return {
        row["run_id"]: KeptMean(
            **{name: row[name] for name in names} | {"revision": tuple(row["revision"])}
        )
        for row in connection.execute(found).mappings()
    }


def keep(connection: sa.Connection, run_id: UUID, reward: str, kept: KeptMean) -> None:
    """Keep a mean in place of an earlier one."""
    values = asdict(kept) | {"revision": list(kept.revision)}
    row = insert(run_rewards).values(run_id=run_id, reward=reward, **values)
    connection.execute(row.on_conflict_do_update(index_elements=["run_id", "reward"], set_=values))
