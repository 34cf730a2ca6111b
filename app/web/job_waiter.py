"""BROWSE: many requests wait for jobs over one connection that listens.

PostgreSQL announces every job that comes to its end (app.store.queue.job_notifications).  One
thread of this process hears it and wakes the clients that wait for that job, so that 500 clients
cost 500 greenlets and one connection.  Jobs with a lost announcement are found by a query every
LOOK_S seconds, for all that is waited for in one query.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from uuid import UUID

from app.domain.job import TERMINAL
from app.store.postgres.database import Database, DatabaseUnavailableError
from app.store.queue import jobs
from app.store.queue.job_notifications import Notices

LOOK_S = 2.0
"""Seconds between two looks at the jobs themselves."""
HEAR_S = 0.5
"""Longest time in which a new waiter's connection is not yet looked after, in seconds."""
LINGER_S = 5.0
"""The connection is kept this long after the last waiter has gone, in seconds."""
RETRY_S = 0.5
"""Pause before PostgreSQL is asked again after an error, in seconds."""


class StoppingError(RuntimeError):
    """This server is about to stop: waiting clients ask again, and another one answers."""


class Ended:
    """The jobs of one waiter, as they end."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[UUID | None] = queue.SimpleQueue()

    def put(self, job_id: UUID | None) -> None:
        """A job has ended; None where the server stops."""
        self._queue.put(job_id)

    def next(self, timeout_s: float) -> UUID | None:
        """A job that has ended, within `timeout_s` seconds; None where there was
        none.  Raises StoppingError.
        """
        try:
            job_id = self._queue.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            return None
        if job_id is None:
            self._queue.put(None)  # for every further call
            raise StoppingError("the server is stopping")
        return job_id


class Watch:
    """Wakes the threads that wait for a job.  Safe for threads; one per process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._waiters: defaultdict[UUID, set[Ended]] = defaultdict(set)
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self._stopping = False

    def over(self, job_id: UUID, timeout_s: float) -> bool:
        """Return whether the job is over, or does not exist, within `timeout_s` seconds.

        Raises DatabaseUnavailableError, and StoppingError where it is not over and
        this server stops.
        """
        with self.ends([job_id]) as ended:
            return bool(self._looked([job_id])) or ended.next(timeout_s) is not None

    @contextmanager
    def ends(self, job_ids: Iterable[UUID]) -> Iterator[Ended]:
        """A queue into which each of the jobs is put when it ends from here on;
        perhaps more than once.
        """
        ended = Ended()
        chosen = set(job_ids)
        with self._lock:
            if self._stopping:
                ended.put(None)
            for job_id in chosen:
                self._waiters[job_id].add(ended)
            if self._thread is None:
                self._start()
        try:
            yield ended
        finally:
            with self._lock:
                for job_id in chosen:
                    self._waiters[job_id].discard(ended)
                    if not self._waiters[job_id]:
                        del self._waiters[job_id]

    def stop(self) -> None:
        """Wake all waiting threads, now and from here on: they get a StoppingError."""
        with self._lock:
            self._stopping = True
            for waiters in self._waiters.values():
                for ended in waiters:
                    ended.put(None)

    def close(self) -> None:
        """Stop listening.  A thread that still waits is woken by its own time limit."""
        self._closed.set()
        thread = self._thread
        if thread is not None:
            thread.join()

    def _start(self) -> None:
        """Start the thread that listens.  The caller holds the lock."""
        if not self._closed.is_set():
            self._thread = threading.Thread(target=self._work, name="waiting", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        """Listen; another thread goes on after an unexpected error, which ends this
        one and is logged.
        """
        expected = False
        try:
            self._listen()
            expected = True
        finally:
            if not expected:
                self._closed.wait(RETRY_S)
                with self._lock:
                    self._thread = None
                    if self._waiters:
                        self._start()

    def _listen(self) -> None:
        """Listen until LINGER_S after the last waiting thread."""
        look_at = 0.0
        idle_since = time.monotonic()
        with Notices(self._database) as notices:
            while not self._closed.is_set():
                now = time.monotonic()
                with self._lock:
                    pending = list(self._waiters)
                    if pending:
                        idle_since = now
                    elif now - idle_since > LINGER_S:
                        self._thread = None
                        return
                try:
                    if now >= look_at:
                        # first, so that nothing ends unheard between looking and listening
                        notices.listen()
                        self._wake(self._looked(pending))
                        look_at = now + LOOK_S
                    self._wake(notices.wait(HEAR_S))
                except DatabaseUnavailableError:
                    self._closed.wait(RETRY_S)
                    look_at = 0.0

    def _looked(self, job_ids: list[UUID]) -> set[UUID]:
        """Jobs that are over, or not there."""
        if not job_ids:
            return set()
        with self._database.read() as connection:
            states = jobs.states(connection, job_ids)
        return {job_id for job_id in job_ids if job_id not in states or states[job_id] in TERMINAL}

    def _wake(self, job_ids: set[UUID]) -> None:
        with self._lock:
            for job_id in job_ids:
                for ended in self._waiters.get(job_id, ()):
                    ended.put(job_id)
