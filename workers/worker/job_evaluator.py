"""Evaluation of one job by a pool process of a worker: claim it, have the referee measure it, judge
the evaluation, store both.

No database connection is held while the device works; a thread extends the lease meanwhile
(lease_extension.py).
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TypeVar
from uuid import UUID

from celery import Celery

from app import broker as messages
from app import judge
from app.collect import send
from app.domain import policy as policies
from app.domain.device import DeviceId
from app.domain.source import source_text
from app.domain.verdict import Subject, Verdict
from app.settings import Settings
from app.store.collection import trees
from app.store.evaluation import evaluations
from app.store.postgres.database import (
    WORKER_IDLE_S,
    Connection,
    Database,
    DatabaseUnavailableError,
)
from app.store.queue import devices, leases, scheduling
from app.store.trajectory import checks
from app.telemetry import logs, tracing
from workers.worker import referee_client
from workers.worker.lease_extension import LeaseExtension

FAULTS_IN_A_ROW, FAULTS_PER_SLOT = 10, 3
"""Consecutive evaluations that fail by Assay's fault until the device is quarantined: the first
number, or the second times the number of slots if that is more, because the end of one process may
cut short the evaluations of all slots.
"""

LONGEST_PAUSE_S = 2.0
"""Longest pause between two attempts to reach PostgreSQL, in seconds."""
REFUSED_PAUSE_S = 1.0
"""Seconds of pause after a message for a device that takes no jobs: until its worker has
unsubscribed, other workers may take the message.
"""
HELD_PAUSE_S = 0.02
"""Seconds of pause before a message is sent again because other transactions hold the rows of all
due jobs: it would return at once, and a thousand claims a second would delay those transactions.
"""

_START = "start"
"""Key of the fault of a referee that did not start before the first job."""

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class JobEvaluator:
    """Evaluates jobs in one pool process, with a referee that outlives a job."""

    def __init__(self, settings: Settings, node: str, broker: Celery) -> None:
        assert settings.database_url is not None
        self._settings = settings
        self._device = DeviceId(
            device_class=settings.device_class, node=node, index=settings.device_index
        )
        self._broker = broker
        self._database = Database(settings.database_url, worker_idle_s=WORKER_IDLE_S)
        self._slots = settings.concurrency
        self._referee = referee_client.RefereeClient(
            settings.device_class,
            node,
            settings.device_index,
            self._slots,
            allow_weak_sandbox=settings.allow_weak_sandbox,
        )
        self._described = False

    def prepare(self) -> None:
        """Launch the referee now, so that the first job does not wait for torch.  A failure is
        logged and counts as a fault of the device, and the first job tries again.  To be called
        in the thread that evaluates: the referee dies with it.
        """
        try:
            self._referee.launch()
        except referee_client.InfrastructureError as error:
            self._note_unready(error)
        else:
            threading.Thread(target=self._wait_ready, name="prepare", daemon=True).start()

    def _wait_ready(self) -> None:
        try:
            self._referee.wait_ready()
        except referee_client.CancelledError:
            return  # the first job was cancelled
        except referee_client.InfrastructureError as error:
            self._note_unready(error)
        else:
            self._describe()

    def _note_unready(self, error: referee_client.InfrastructureError) -> None:
        device = f"{self._device.device_class} {self._device.index}"
        _log.error("no evaluations on %s yet: %s; the next job tries again", device, error)
        self._retrying(lambda connection: devices.note_fault(connection, self._device, _START))

    def close(self) -> None:
        """End the referee and close all connections."""
        self._referee.close()
        self._database.dispose()

    def evaluate(self, queue: str) -> None:
        """Evaluate the job that is due on this device, if there is one.  The job's row
        records the outcome in every case.

        `queue`: queue of the message.  Its job may have been claimed before, or wait
        because others are due first.
        """
        claim = self._claim(queue)
        lease = claim.lease
        if lease is None:
            return
        with (
            logs.about(job_id=lease.job.job_id, device=self._device),
            tracing.span(
                "job.evaluate",
                lease.job.job_id,
                device=str(self._device),
                attempt=lease.job.attempt,
            ),
        ):
            try:
                self._evaluate(lease, claim.faults)
            except referee_client.DeviceUnhealthyError as error:
                self._quarantine(lease, error)
            except referee_client.InfrastructureError as error:
                self._release(lease, error)
            except Exception as error:
                message = source_text.printable(f"{type(error).__name__}: {error}")
                self._retrying(
                    lambda connection: leases.fail(connection, lease, leases.INTERNAL, message)
                )
                raise

    def _claim(self, queue: str) -> scheduling.Claim:
        owner = f"{self._device.node}.{os.getpid()}.{secrets.token_hex(4)}"
        terms = scheduling.ClaimSettings(
            owner=owner,
            lease_s=self._settings.lease_s,
            limits=self._settings.limits,
            ageing_s=self._settings.ageing_s,
        )
        claim = self._retrying(
            lambda connection: scheduling.claim(connection, self._device, queue, terms)
        )
        if claim.owed:
            if claim.lease is None and not claim.refused:
                time.sleep(HELD_PAUSE_S)
            self._republish(messages.Message(queue=queue))
        if claim.refused:
            _log.warning("%s takes no jobs: it is %s", self._device, claim.refused)
            time.sleep(REFUSED_PAUSE_S)
        elif claim.lease is None:
            again = "; the permission is given back" if claim.owed else ""
            _log.info("nothing that could be claimed is due in %s%s", queue, again)
        return claim

    def _republish(self, message: messages.Message) -> None:
        try:
            messages.publish(self._broker, [message])
        except messages.BrokerUnavailableError as error:
            _log.warning("a sweep will send the jobs that wait in %s: %s", message.queue, error)

    def _evaluate(self, lease: leases.Lease, faults: int) -> None:
        job_id = lease.job.job_id
        settings, referee = self._settings, self._referee
        with LeaseExtension(
            self._database,
            lease,
            self._device,
            settings.lease_s,
            referee.cancel,
            lambda: referee.more_s,
        ) as extension:
            try:
                with tracing.span("job.isolate", job_id):
                    measured = self._measured(lease)
            except referee_client.CancelledError:
                extension.stop()
                self._stopped(lease, extension)
                return
            self._describe()
            subject = Subject(
                evaluation=measured.evaluation,
                backend=lease.job.backend,
                candidate=lease.job.candidate,
                reference=lease.job.reference,
            )
            with tracing.span("job.judge", job_id):
                verdict = judge.judge(subject, policies.find(lease.job.options.policy))
            with tracing.span("job.store", job_id):
                stored, due = self._retrying(
                    lambda connection: self._stored(connection, lease, measured, verdict, faults)
                )
        send.decisions(self._broker, due)
        if stored is None:
            _log.warning(
                "job %s: result of attempt %d refused, the lease was lost",
                job_id,
                lease.job.attempt,
            )
        else:
            _log.info("job %s: %s, %s", job_id, measured.evaluation.status, verdict.label)

    def _measured(self, lease: leases.Lease) -> referee_client.Measured:
        """The referee's measurement.  If the job could not begin because a process of Assay's had
        ended, that process is started again and the job tried once more in the same attempt.
        """
        try:
            return self._referee.run(lease.job)
        except referee_client.InfrastructureError as error:
            if error.begun or isinstance(error, referee_client.DeviceUnhealthyError):
                raise
            _log.warning("job %s: could not begin, once more: %s", lease.job.job_id, error)
        return self._referee.run(lease.job)

    def _stored(
        self,
        connection: Connection,
        lease: leases.Lease,
        measured: referee_client.Measured,
        verdict: Verdict,
        faults: int,
    ) -> tuple[UUID | None, list[trees.Due]]:
        """Id of the stored evaluation or problem check, None if the lease is lost; and the
        collections that continue with it.
        """
        if faults:  # an evaluation that began before a fault does not reset the count
            devices.note_success(connection, self._device)
        if lease.job.options.check:
            return (
                checks.add(connection, lease, evaluation=measured.evaluation, verdict=verdict),
                [],
            )
        stored = evaluations.add(
            connection,
            lease,
            worker=lease.owner,
            evaluation=measured.evaluation,
            verdict=verdict,
            timeline=measured.timeline,
            codes=measured.codes,
        )
        return stored, trees.ended(connection, lease.job.job_id)

    def _stopped(self, lease: leases.Lease, extension: LeaseExtension) -> None:
        """Finish a job whose evaluation was stopped: on request, because the lease
        was lost, or for a quarantine.
        """
        if extension.lost:
            _log.warning(
                "job %s: stopped, the lease of attempt %d was lost",
                lease.job.job_id,
                lease.job.attempt,
            )
            return
        if extension.quarantined:
            self._retrying(lambda connection: leases.give_back(connection, lease))
            _log.warning(
                "job %s: stopped and queued again, %s is quarantined",
                lease.job.job_id,
                self._device,
            )
            return
        state = self._retrying(lambda connection: leases.stopped(connection, lease))
        _log.info("job %s: stopped, now %s", lease.job.job_id, state or "elsewhere")

    def _quarantine(self, lease: leases.Lease, error: referee_client.DeviceUnhealthyError) -> None:
        """Take the device out of service; its jobs run elsewhere, and no attempt is counted."""
        message = source_text.printable(str(error))

        def act(connection: Connection) -> str | None:
            by = f"worker {lease.owner}"
            devices.quarantine_at(connection, self._device, reason=message, changed_by=by)
            return leases.give_back_sick(connection, lease, message)

        state = self._retrying(act)
        _log.error(
            "%s is quarantined: %s; job %s is %s",
            self._device,
            message,
            lease.job.job_id,
            state or "elsewhere",
        )

    def _release(self, lease: leases.Lease, error: referee_client.InfrastructureError) -> None:
        """Queue the job again and count the fault against the device."""
        message = source_text.printable(str(error))

        def act(connection: Connection) -> str | None:
            faults = devices.note_fault(
                connection, self._device, str(lease.job.job_id) if error.begun else lease.owner
            )
            if faults >= max(FAULTS_IN_A_ROW, FAULTS_PER_SLOT * self._slots):
                reason = (
                    f"{faults} evaluations in a row failed by infrastructure faults; the last:"
                    f" {message}"
                )
                devices.quarantine_at(
                    connection, self._device, reason=reason, changed_by=f"worker {lease.owner}"
                )
            if not error.begun:
                return leases.give_back(connection, lease, faults=faults)
            limits = self._settings.limits
            return leases.release(
                connection, lease, limits, leases.INFRASTRUCTURE, message, cut_short=error.cut_short
            )

        state = self._retrying(act)
        _log.warning(
            "job %s: attempt %d: %s; now %s",
            lease.job.job_id,
            lease.job.attempt,
            error,
            state or "elsewhere",
        )

    def _describe(self) -> None:
        """Report the device's identity once the referee knows it and the worker has
        registered the device.
        """
        environment = self._referee.environment
        if self._described or environment is None:
            return
        fingerprint = asdict(environment) | {"slots": self._slots}
        self._described = self._retrying(
            lambda connection: devices.describe(connection, self._device, fingerprint)
        )

    def _retrying(self, act: Callable[[Connection], _T]) -> _T:
        """Run `act` in a transaction, repeated until PostgreSQL can be reached: a
        measurement is worth waiting for.

        Celery's time limit ends the attempts; then the lease lapses and the job runs again.
        """
        pause_s = 0.1
        while True:
            try:
                with self._database.begin() as connection:
                    return act(connection)
            except DatabaseUnavailableError as error:
                _log.warning("trying again in %.1f s: %s", pause_s, error)
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
