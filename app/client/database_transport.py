"""ENQUEUE: the way into the service over its database and its broker."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any
from uuid import UUID

from celery import Celery

from app import broker
from app.client.outage import Outage
from app.client.submission import Submission
from app.client.transport import UnknownJobError, check_known
from app.client.waiting import Waiting
from app.collect import control, report
from app.collect import start as starting
from app.domain.collection import spec as specs
from app.domain.job import TERMINAL, JobState
from app.domain.problem import Problem
from app.domain.request import MissingError, Request
from app.domain.result import Result
from app.domain.rollout import Rollout
from app.domain.trajectory import Run, Trajectory, Turn
from app.enqueue import enqueue, enqueue_rollouts, enqueue_trajectory
from app.settings import Settings
from app.store.evaluation import evaluations
from app.store.postgres.database import Database, DatabaseUnavailableError
from app.store.queue import jobs, queue_depth
from app.store.queue.job_notifications import Notices
from app.store.trajectory import problems, trajectories

POLL_S = 2.0
"""Period in seconds at which a waiting client reads the database, in case the
announcement of a result was lost.
"""
STARTS_S = 25.0
"""Seconds that a worker may take to start before jobs without one are told of."""
RETRY_S = 0.5
"""Pause in seconds before a call that PostgreSQL did not answer is tried again."""
BATCH = 500
"""Results read at once: each may be some hundred kilobytes."""


class Local:
    """Transport within this process.  Connections are opened when first used."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._resting: list[Notices] = []
        """Connections for announcements that no call uses at the moment."""
        self._closed = False
        self._outage = Outage()
        """Absence of PostgreSQL."""

    @cached_property
    def database(self) -> Database:
        """Opened when first used."""
        assert self.settings.database_url is not None
        return Database(self.settings.database_url)

    @cached_property
    def broker(self) -> Celery:
        """Opened when first used."""
        assert self.settings.broker_url is not None
        return broker.make_app(self.settings.broker_url)

    def close(self) -> None:
        """Close the connections; a wait that still runs closes its own at its end."""
        self._closed = True
        while self._resting:
            self._resting.pop().close()
        if "database" in self.__dict__:
            self.database.dispose()
        if "broker" in self.__dict__:
            self.broker.close()

    def submit(self, submissions: Sequence[Submission]) -> list[UUID]:
        """Rows and messages, some thousands a second."""
        job_ids = enqueue(
            self.database, self.broker, [submission.request() for submission in submissions]
        )
        self._outage.end()
        return job_ids

    def submit_rollouts(self, rollouts: Sequence[Rollout]) -> list[UUID]:
        """Store rollouts in one transaction."""
        return enqueue_rollouts(self.database, self.broker, rollouts)

    def over(self, job_ids: Sequence[UUID], timeout_s: float | None) -> Iterator[list[UUID]]:
        """Woken by announcements.  Raises DatabaseUnavailableError after an outage that lasts."""
        pending = set(job_ids)
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        begun = look_at = time.monotonic()
        waiting = Waiting(len(pending), timeout_s)
        with self._notices() as notices:
            while pending:
                now = time.monotonic()
                try:
                    if now >= look_at:
                        # first, so that nothing ends unheard between looking and listening
                        notices.listen()
                        ended = self._ended(pending)
                        look_at = now + POLL_S
                        if not ended and (now > begun + STARTS_S or now > deadline):
                            waiting.note(self._unserved(pending))
                    else:
                        ended = notices.wait(max(0.0, min(look_at, deadline) - now)) & pending
                    self._outage.end()
                except DatabaseUnavailableError:
                    if not self._outage.may_pass():
                        raise
                    time.sleep(RETRY_S)
                    look_at, ended = now, set()
                pending -= ended
                if ended:
                    yield list(ended)
                if pending and now > deadline:
                    raise waiting.in_vain(len(pending))

    @contextmanager
    def _notices(self) -> Iterator[Notices]:
        """A connection of its own for each caller, kept for the next one: opening it
        costs more than a short wait.
        """
        try:
            notices = self._resting.pop()
        except IndexError:  # not asked for before: another thread may take the last one
            notices = Notices(self.database)
        try:
            yield notices
        finally:
            if self._closed:
                notices.close()
            else:
                notices.rest()
                self._resting.append(notices)

    def results(self, job_ids: Sequence[UUID]) -> list[Result]:
        """Results from the database."""
        found: dict[UUID, evaluations.JobRecord] = {}
        for start in range(0, len(job_ids), BATCH):
            found |= self._records(job_ids[start : start + BATCH])
        check_known(job_ids, found)
        return [
            found[job_id].result(self._url(found[job_id]), self.settings.reward)
            for job_id in job_ids
        ]

    def _records(self, job_ids: Sequence[UUID]) -> dict[UUID, evaluations.JobRecord]:
        """Records of the jobs that exist, tried again during an outage as in `over`."""
        while True:
            try:
                with self.database.read() as connection:
                    found = evaluations.job_records(connection, job_ids)
            except DatabaseUnavailableError:
                if not self._outage.may_pass():
                    raise
                time.sleep(RETRY_S)
            else:
                self._outage.end()
                return dict(found)

    def cancel(self, job_id: UUID, for_all: bool) -> JobState:
        """A queued job at once, a running one within seconds."""
        with self.database.begin() as connection:
            found = jobs.withdraw(connection, job_id, for_all=for_all)
        if found is None:
            raise UnknownJobError(f"no job {job_id}")
        return found.state

    def submit_trajectory(
        self, request: Request, turns: Sequence[Turn], run: Run | None, label: str | None
    ) -> Trajectory:
        """All or nothing.  Raises RunConflictError where a run of that name says
        something else about itself.
        """
        return self.get_trajectory(
            enqueue_trajectory(
                self.database, self.broker, request=request, turns=turns, run=run, label=label
            )
        )

    def get_trajectory(self, trajectory_id: UUID) -> Trajectory:
        """A trajectory from the database."""
        with self.database.begin() as connection:
            found = trajectories.get(connection, trajectory_id)
        if found is None:
            raise LookupError(f"no trajectory {trajectory_id}")
        return found

    def add_run(self, run: Run) -> None:
        """Store a run if it is new."""
        with self.database.begin() as connection:
            trajectories.add_run(connection, run)

    def problem(self, problem_id: UUID) -> Problem:
        """A problem from the database."""
        with self.database.read() as connection:
            found = problems.get(connection, problem_id)
        if found is None:
            raise MissingError(f"no problem {problem_id}")
        return found

    def add_problem(self, problem: Problem) -> UUID:
        """Id of a problem, by content."""
        with self.database.begin() as connection:
            return problems.add(connection, [problem])[0]

    def collect(self, spec: Mapping[str, Any]) -> UUID:
        """Rows, then messages."""
        return starting.start(self.database, self.broker, specs.parse(spec))

    def plan_collection(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Plan of a collection, from the stored problems."""
        with self.database.begin() as connection:
            return starting.outline(connection, specs.parse(spec))

    def collection(self, name: str, *, full: bool) -> dict[str, Any]:
        """State of a collection from the database."""
        with self.database.begin() as connection:
            return report.summary(connection, name) if full else report.progress(connection, name)

    def collections(self) -> list[dict[str, Any]]:
        """States of all collections from the database."""
        with self.database.begin() as connection:
            return report.listed(connection)

    def change_collection(self, name: str, action: str, by: str) -> dict[str, Any]:
        """Change the state of a collection at once."""
        control.change(self.database, self.broker, name, action, by)
        return self.collection(name, full=False)

    def _unserved(self, pending: set[UUID]) -> dict[str, int]:
        with self.database.read() as connection:
            return queue_depth.unserved(connection, list(pending))

    def _ended(self, pending: set[UUID]) -> set[UUID]:
        with self.database.read() as connection:
            states = jobs.states(connection, list(pending))
        check_known(pending, states)
        return {job_id for job_id, state in states.items() if state in TERMINAL}

    def _url(self, record: evaluations.JobRecord) -> str | None:
        """Where people look at it."""
        if record.evaluation_id is None:
            return None
        return f"{self.settings.web_url.rstrip('/')}/evaluations/{record.evaluation_id}"
