"""BROWSE: mean rewards of many runs: read from the database, and computed again
where the run has changed.

A view computes for BUDGET_S at most; a thread of the process does the others, and
the next view has them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from uuid import UUID

import flask

from app.store.browse.runs import RunRow
from app.store.figures import run_rewards
from app.store.figures.run_rewards import KeptMean
from app.store.postgres.database import Database, DatabaseUnavailableError
from app.web import request_context, reward_figures

_log = logging.getLogger(__name__)

BUDGET_S = 0.05
"""Seconds that one view spends on means that are not kept."""
RULE = 2
"""Version of the rule of `reward_figures`, with which kept means become old."""


class Upkeep:
    """One thread at a time, which computes the means that views found to be missing."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._waiting: dict[tuple[UUID, str], RunRow] = {}
        self._is_running = False

    def ask(self, rows: Sequence[RunRow], reward: str) -> None:
        """Have the means of these runs kept, soon."""
        with self._lock:
            self._waiting |= {(row.run_id, reward): row for row in rows}
            if self._is_running or not self._waiting:
                return
            self._is_running = True
        threading.Thread(target=self._work, name="rewards", daemon=True).start()

    def _work(self) -> None:
        try:
            while (asked := self._next()) is not None:
                row, reward = asked
                try:
                    compute(self._database, row, reward)
                except DatabaseUnavailableError as error:
                    _log.warning("%s", error)
        except BaseException:  # the next request starts another thread
            with self._lock:
                self._is_running = False
            raise

    def _next(self) -> tuple[RunRow, str] | None:
        with self._lock:
            self._is_running = bool(self._waiting)
            if not self._waiting:
                return None
            key = next(iter(self._waiting))
            return self._waiting.pop(key), key[1]


def install(app: flask.Flask, database: Database) -> None:
    """Give `app` its upkeep."""
    app.extensions["assay.rewards"] = Upkeep(database)


def compute(database: Database, row: RunRow, reward: str) -> KeptMean:
    """Compute the mean reward of a run's turns as its counts are in `row`, and keep it."""
    with database.begin() as connection:
        figures = reward_figures.of_run(connection, row.run_id, reward)
        turn = figures.turn
        found = KeptMean(
            mean=turn.value,
            low=turn.interval.low if turn.interval else None,
            high=turn.interval.high if turn.interval else None,
            best=figures.best.value,
            last=figures.last.value,
            turns=turn.of,
            revision=_revision(row),
        )
        run_rewards.keep(connection, row.run_id, reward, found)
    return found


def _revision(row: RunRow) -> tuple[int, ...]:
    """Numbers that a kept mean is of: the run's counts, and the rule."""
    return (*row.counts.revision, RULE)


def means(rows: Sequence[RunRow], reward: str) -> tuple[dict[UUID, KeptMean], int]:
    """Run → mean reward of a turn, the kept one where a newer one is still being
    computed; and how many are.
    """
    database = request_context.database()
    with database.snapshot() as connection:
        found = run_rewards.read(connection, [row.run_id for row in rows], reward)
    end = time.monotonic() + BUDGET_S
    late = []
    for row in rows:
        if row.counts.attempts and (
            row.run_id not in found or found[row.run_id].revision != _revision(row)
        ):
            if time.monotonic() < end:
                found[row.run_id] = compute(database, row, reward)
            else:
                late.append(row)
    flask.current_app.extensions["assay.rewards"].ask(late, reward)
    return found, len(late)
