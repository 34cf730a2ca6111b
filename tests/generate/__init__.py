"""Plausible data in any amount: to try pages, filters and exports at scale, and to measure them.

`fill` stores the traces of campaigns of imaginary models: runs over training steps, trajectories
turn by turn, evaluations with every status, verdicts with findings.  Nothing of it was measured:
every problem of it is of the source set `generated`, every run's name begins with `generated/`, and
`remove` takes exactly that away again.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from app.detectors import DETECTORS
from app.domain import policy as policies
from app.store.postgres.database import Database
from tests.generate import campaign, outcomes, plan, store

__all__ = ["BATCH_TRAJECTORIES", "fill", "present", "remove"]

present = store.present

BATCH_TRAJECTORIES = 1_500
"""Trajectories stored in one transaction: about 15,000 evaluations."""


def fill(
    database: Database,
    evaluations: int,
    *,
    seed: int = 0,
    on_progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Store at least `evaluations` generated evaluations, a tenth as many
    trajectories; the number of rows stored.

    The same seed gives the same data but for its dates, which end now.  `on_progress` is
    called with the number of evaluations after every batch.  Raises ValueError where
    generated data is stored already.
    """
    with database.begin() as connection:
        if store.present(connection):
            raise ValueError(
                "generated data is stored already; `python -m tests.generate --forget` removes"
                f" source set {plan.NAME}"
            )
    versions = {name: detector.version for name, detector in DETECTORS.items()}
    pool = store.Pool(
        outcomes.passed(seed),
        outcomes.failed(seed),
        policy=policies.DEFAULT.key,
        detectors=versions,
    )
    planned = campaign.plan(evaluations, seed=seed, end=datetime.now(UTC))
    with database.begin() as connection:
        rows = store.add_plan(connection, planned.problems, planned.runs)
    done = 0
    for batch in campaign.batches(planned, BATCH_TRAJECTORIES):
        with database.begin() as connection:
            stored, evaluated = store.add_trajectories(connection, batch, pool)
        rows, done = rows + stored, done + evaluated
        on_progress(done)
    with database.begin() as connection:
        store.settle(connection)
    return rows


def remove(database: Database, *, on_progress: Callable[[int], None] = lambda _: None) -> int:
    """Remove everything generated, run by run, with its reviews and datasets; the
    number of runs.
    """
    removed = 0
    while True:
        with database.begin() as connection:
            if not store.remove_one_run(connection):
                store.remove_problems(connection)
                return removed
        removed += 1
        on_progress(removed)
