"""The straight line of one job: claim, isolate, judge, store.

Runs in every pool process of a worker, which has credentials and no torch.  No database connection is held while
the device works; a thread extends the lease meanwhile."""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from types import TracebackType
from typing import TypeVar
from uuid import UUID

from app import judge
from app.domain import policy as policies
from app.domain import source
from app.domain.verdict import Subject
from app.settings import Settings
from app.store import devices, evaluations, jobs
from app.store.session import Connection, Database, DatabaseUnavailableError
from workers import isolate

INFRASTRUCTURE = "infrastructure"
"""`error_kind` of a job that our own machinery failed `max_attempts` times."""
INTERNAL = "internal"
"""`error_kind` of a job on which our own code raised what it should not: trying again would raise it again."""

LONGEST_PAUSE_S = 2.0
"""Between two attempts to reach PostgreSQL."""

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Evaluator:
    """What one pool process needs, from its first job to its end."""

    def __init__(self, settings: Settings, node: str) -> None:
        assert settings.database_url is not None
        self._settings = settings
        self._node = node
        self._database = Database(settings.database_url)
        self._slots = settings.slots
        self._isolator = isolate.Isolator(settings.device_class, node, settings.device_index, self._slots)
        self._described = False

    def prepare(self) -> None:
        """Launch the referee now, so that the first job does not wait for torch.  A failure is logged, and the first
        job tries again.  Call it in the thread that evaluates: the referee dies with its parent."""
        try:
            self._isolator.launch()
        except isolate.InfrastructureError as error:
            self._log_unready(error)
        else:
            threading.Thread(target=self._wait_ready, name="prepare", daemon=True).start()

    def _wait_ready(self) -> None:
        try:
            self._isolator.wait_ready()
        except isolate.CancelledError:
            return  # together with the first job
        except isolate.InfrastructureError as error:
            self._log_unready(error)
        else:
            self._describe()

    def _log_unready(self, error: isolate.InfrastructureError) -> None:
        settings = self._settings
        device = f"{settings.device_class} {settings.device_index}"
        _log.error("no evaluations on %s yet: %s; the next job tries again", device, error)

    def close(self) -> None:
        """End the referee and close every connection."""
        self._isolator.close()
        self._database.dispose()

    def evaluate(self, job_id: UUID) -> None:
        """Evaluate the job, unless it is done or somebody else is at it.  However this ends, the job's row says it."""
        owner = f"{self._node}.{os.getpid()}.{secrets.token_hex(4)}"
        lease_s, attempts = self._settings.lease_s, self._settings.max_attempts
        lease = self._patiently(lambda connection: jobs.claim(connection, job_id, owner, lease_s, attempts))
        if lease is None:
            _log.info("job %s is not to be had: done, cancelled or running elsewhere", job_id)
            return
        try:
            self._evaluate(lease)
        except isolate.InfrastructureError as error:
            self._release(lease, error)
        except Exception as error:
            message = source.printable(f"{type(error).__name__}: {error}")
            self._patiently(lambda connection: jobs.fail(connection, lease, INTERNAL, message))
            raise

    def _evaluate(self, lease: jobs.Lease) -> None:
        with Heartbeat(self._database, lease, self._settings.lease_s, self._isolator.cancel) as heartbeat:
            try:
                measured = self._isolator.run(lease.job)
            except isolate.CancelledError:
                heartbeat.stop()
                self._stopped(lease, heartbeat)
                return
            self._describe()
            subject = Subject(
                evaluation=measured.evaluation,
                backend=lease.job.backend,
                candidate=lease.job.candidate,
                reference=lease.job.reference,
            )
            verdict = judge.judge(subject, policies.find(lease.job.options.policy))
            stored = self._patiently(
                lambda connection: evaluations.add(
                    connection,
                    lease,
                    worker=lease.owner,
                    evaluation=measured.evaluation,
                    verdict=verdict,
                    timeline=measured.timeline,
                )
            )
        if stored is None:
            _log.warning(
                "job %s: result of attempt %d refused, the lease was lost", lease.job.job_id, lease.job.attempt
            )
        else:
            _log.info("job %s: %s, %s", lease.job.job_id, measured.evaluation.status, verdict.label)

    def _stopped(self, lease: jobs.Lease, heartbeat: Heartbeat) -> None:
        """After the isolator was stopped: by whoever asked for it, or because the lease was lost."""
        if heartbeat.lost:
            _log.warning("job %s: stopped, the lease of attempt %d was lost", lease.job.job_id, lease.job.attempt)
            return
        self._patiently(lambda connection: jobs.stopped(connection, lease))
        _log.info("job %s: cancelled", lease.job.job_id)

    def _release(self, lease: jobs.Lease, error: Exception) -> None:
        message = source.printable(str(error))
        state = self._patiently(
            lambda connection: jobs.release(connection, lease, self._settings.max_attempts, INFRASTRUCTURE, message)
        )
        _log.warning("job %s: attempt %d: %s; now %s", lease.job.job_id, lease.job.attempt, error, state or "elsewhere")

    def _describe(self) -> None:
        """Tell once what device this is, after the referee has found out and the worker has registered it."""
        environment = self._isolator.environment
        if self._described or environment is None:
            return
        fingerprint = asdict(environment) | {"slots": self._slots}
        self._described = self._patiently(
            lambda connection: devices.describe(
                connection,
                node=self._node,
                device_class=self._settings.device_class,
                device_index=self._settings.device_index,
                fingerprint=fingerprint,
            )
        )

    def _patiently(self, act: Callable[[Connection], _T]) -> _T:
        """Act in a transaction, and again until PostgreSQL is there: what was measured is worth waiting for.

        Celery's time limit is the end of it; then the lease lapses and the job runs again."""
        pause_s = 0.1
        while True:
            try:
                with self._database.begin() as connection:
                    return act(connection)
            except DatabaseUnavailableError as error:
                _log.warning("trying again in %.1f s: %s", pause_s, error)
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


class Heartbeat:
    """Extends a lease while the device works, and stops the work when it is cancelled or somebody else's."""

    def __init__(self, database: Database, lease: jobs.Lease, lease_s: float, stop_work: Callable[[], None]) -> None:
        self._database = database
        self._lease = lease
        self._lease_s = lease_s
        self._stop_work = stop_work
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self.lost = False
        """Whether somebody else may be at the job."""

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """No beat, and so no `stop_work`, after this returns: the isolator's next job is another's."""
        self._over.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._over.wait(self._lease_s / 4):
            try:
                with self._database.begin() as connection:
                    pulse = jobs.extend_lease(connection, self._lease, self._lease_s)
            except DatabaseUnavailableError as error:
                _log.warning("job %s: lease not extended: %s", self._lease.job.job_id, error)
                continue
            self.lost = not pulse.held
            if not pulse.held or pulse.cancel_requested:
                self._stop_work()
