"""Maintenance by a worker's main process: the sweep of lost messages, the device's heartbeat, the
pulses of its pool processes, and the subscription to its queues.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Iterable
from typing import Any

from celery import Celery
from celery.worker import state

from app import broker as messages
from app import routing, sending
from app.broker import BrokerUnavailableError
from app.domain.device import CLOSED, DeviceId
from app.domain.worker_instance import WorkerInstance
from app.settings import Settings
from app.store.postgres.database import WORKER_IDLE_S, Database, DatabaseUnavailableError
from app.store.queue import devices
from workers.worker import pulse

GRACE_SWEEPS = 2
"""Sweep periods after which an undelivered message counts as lost."""

STUCK_S = 60.0
"""Seconds without work, while messages wait in its queue, after which a worker has lost its broker
without noticing (celery#8091, #10302); its supervisor starts it again.
"""

STANDSTILL_S = 600.0
"""Seconds without progress after which a thread of the main process counts as blocked for ever:
longer than any transaction waits, and than the sweep takes to send a whole queue again.
"""

_log = logging.getLogger(__name__)


class Maintenance:
    """A thread that lives as long as the worker.  It retries while PostgreSQL or
    Redis cannot be reached.
    """

    def __init__(
        self,
        settings: Settings,
        broker: Celery,
        consumer: Any,
        *,
        device: DeviceId,
        instance: WorkerInstance,
        pulses: pulse.Pulses,
    ) -> None:
        """`consumer`: Celery's consumer in this process, which is `instance`."""
        assert settings.database_url is not None
        self._settings = settings
        self._broker = broker
        self._device = device
        self._instance = instance
        self._registered = False
        self._worker = f"{device.device_class}-{device.index}@{device.node}"
        self._queues = tuple(routing.served(self._device))
        self._iterations = EventLoopIterations(consumer)
        self._listener = QueueListener(consumer, self._queues)
        self._idle = IdleDetector(STUCK_S)
        self._pool = consumer.pool
        self._pulse_check = pulse.PulseCheck(pulses.read, pulse.SILENT_S)
        self._database = Database(settings.database_url, worker_idle_s=WORKER_IDLE_S)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)
        self._round_at = time.monotonic()

    def is_well(self) -> bool:
        """Test whether this thread makes progress.  Thread-safe."""
        return time.monotonic() - self._round_at < STANDSTILL_S

    def start(self) -> None:
        """Start the thread, which sends the first heartbeat at once."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and mark the device as left."""
        self._over.set()
        self._thread.join()
        try:
            with self._database.begin() as connection:
                devices.leave(connection, worker=self._worker, instance=self._instance)
        except DatabaseUnavailableError as error:
            _log.warning("the device is not marked as left: %s", error)
        self._database.dispose()

    def _run(self) -> None:
        """Run the maintenance loop.  An unexpected error ends the worker: without this thread its
        device would count as silent and lost messages would stay lost, while the worker would still
        take jobs.
        """
        try:
            self._loop()
        except devices.TakenError as error:
            _log.critical("%s: ending (`assay doctor` names hosts that share a name)", error)
            os._exit(os.EX_TEMPFAIL)
        except Exception:  # noqa: BLE001 (it is logged, and the process ends)
            _log.critical("unexpected error: ending, to be started again", exc_info=True)
            os._exit(os.EX_TEMPFAIL)

    def _loop(self) -> None:
        while True:
            self._round_at = time.monotonic()
            self._iterations.request()
            self._kill_silent()
            try:
                self._heartbeat()
                self._sweep()
                if self._listener.open:
                    self._watch()
            except (DatabaseUnavailableError, BrokerUnavailableError) as error:
                _log.warning("trying again in %.1f s: %s", self._settings.sweep_s, error)
                self._iterations.note()  # the event loop waits for Redis, too
            if self._over.wait(self._settings.sweep_s):
                return

    def _heartbeat(self) -> None:
        with self._database.begin() as connection:
            found = devices.register(
                connection,
                self._device,
                worker=self._worker,
                refused=messages.refused(),
                instance=self._instance,
                again=self._registered,
            )
        self._registered = True
        if self._listener.set(found not in CLOSED):
            _log.warning(
                "%s is %s: %s",
                self._device,
                found,
                "taking jobs" if self._listener.open else "no new jobs",
            )

    def _sweep(self) -> None:
        sent = sending.send_lost(
            self._database,
            self._broker,
            grace_s=GRACE_SWEEPS * self._settings.sweep_s,
            limits=self._settings.limits,
        )
        if sent:
            _log.info("the sweep sent %d messages again", sent)

    def _kill_silent(self) -> None:
        """Kill pool processes without a pulse.  Their jobs are claimed again, and Celery starts
        other processes.
        """
        for pid in self._pulse_check.silent(self._pool.info["processes"], time.monotonic()):
            _log.critical("pool process %d: no pulse for %.0f s: killing it", pid, pulse.SILENT_S)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _watch(self) -> None:
        """End the worker if its event loop is blocked, or if it is idle although messages wait."""
        waiting = sum(messages.depth(self._broker, queue) for queue in self._queues)
        if self._iterations.have_stopped():
            _log.critical(
                "the event loop has been blocked for %.0f s: ending, to be started again",
                STANDSTILL_S,
            )
            os._exit(os.EX_TEMPFAIL)
        if self._idle.stuck(time.monotonic(), waiting=waiting, busy=bool(state.active_requests)):
            _log.critical(
                "idle for %.0f s beside %d waiting messages: ending, to be started again",
                STUCK_S,
                waiting,
            )
            # its pool processes end with it, and the jobs that they held are claimed again
            os._exit(os.EX_TEMPFAIL)


class QueueListener:
    """Subscribes to the worker's queues and unsubscribes from them.  A claim for a closed device is
    refused anyway (app/store/queue/scheduling.py); without a subscription other workers get the
    messages.
    """

    def __init__(self, consumer: Any, queues: Iterable[str]) -> None:
        self._consumer = consumer
        self._queues = list(queues)
        self.open = True

    def set(self, is_open: bool) -> bool:
        """Subscribe or unsubscribe; returns whether that is a change.  Thread-safe."""
        if is_open == self.open:
            return False
        self.open = is_open
        self._consumer.call_soon(self._apply, is_open)
        return True

    def _apply(self, is_open: bool) -> None:
        """Select queues, in the thread of Celery's event loop.  The selection
        survives a connection to Redis.
        """
        selection = self._consumer.app.amqp.queues
        if is_open:
            selection.select(self._queues)
        else:
            selection.deselect(self._queues)
        if self._consumer.task_consumer is None:
            return  # between two connections; the next one uses the selection
        for queue in self._queues:
            if is_open:
                self._consumer.add_task_queue(queue)
            else:
                self._consumer.cancel_task_queue(queue)


class EventLoopIterations:
    """Iterations of Celery's event loop, by which the maintenance thread detects a blocked loop."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._latest_at = time.monotonic()

    def request(self) -> None:
        """Make the loop record its next iteration.  Thread-safe; the request is lost if the
        connection to Redis is.
        """
        self._consumer.call_soon(self.note)

    def note(self) -> None:
        """Record an iteration."""
        self._latest_at = time.monotonic()

    def have_stopped(self) -> bool:
        """Test whether there was none for STANDSTILL_S.  A worker that shuts down waits for its
        jobs outside of the loop.
        """
        stops = state.should_stop is not None  # its exit code, which may be 0
        return not stops and time.monotonic() - self._latest_at > STANDSTILL_S


class IdleDetector:
    """Detects a worker that has done nothing for too long."""

    def __init__(self, stuck_s: float) -> None:
        self._stuck_s = stuck_s
        self._idle_since: float | None = None

    def stuck(self, now_s: float, *, waiting: int, busy: bool) -> bool:
        """Test whether every check of the last `stuck_s` seconds found messages
        waiting and none in work.
        """
        if busy or not waiting:
            self._idle_since = None
            return False
        if self._idle_since is None:
            self._idle_since = now_s
        return now_s - self._idle_since >= self._stuck_s
