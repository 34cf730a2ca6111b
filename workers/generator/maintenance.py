"""Beside the calls of a worker: leases are extended, lost messages sent again, and
the evaluators' queue is watched.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

from celery import Celery

from app.broker import BrokerUnavailableError
from app.collect import sweep
from app.domain.collection.call import EndpointConfig
from app.domain.request import RequestError
from app.endpoints.caller import key_of
from app.settings import Settings
from app.store.collection import calls, endpoints, lifecycle, workers
from app.store.postgres.database import DatabaseUnavailableError
from app.store.queue import queue_depth
from workers.generator.caller import Caller

FEW, MINUTES = 64, 10.0
"""Evaluations that may wait before new rollouts begin: so many in any case, else the
work of so many minutes.
"""

_log = logging.getLogger(__name__)


class Maintenance:
    """Two threads (greenlets, in the worker) that live as long as it does."""

    def __init__(self, settings: Settings, endpoint: str, broker: Celery, caller: Caller) -> None:
        self._settings = settings
        self._endpoint = endpoint
        self._broker = broker
        self._caller = caller
        self._over = threading.Event()

    def start(self) -> None:
        """Start both threads; the first sweep is immediate."""
        for act, period_s in (
            (self._extend, self._settings.lease_s / 4),
            (self._sweep, self._settings.sweep_s),
        ):
            threading.Thread(target=self._repeat, args=(act, period_s), daemon=True).start()

    def stop(self) -> None:
        """End both threads at their next period, and record that the worker has left."""
        self._over.set()
        try:
            with self._caller.database.begin() as connection:
                workers.leave(connection, self._caller.owner)
        except DatabaseUnavailableError as error:
            _log.warning("the departure of this worker could not be recorded: %s", error)

    def _repeat(self, act: Callable[[], None], period_s: float) -> None:
        """Act until the worker stops.  An unexpected error ends the worker: without extended leases
        its calls would be made, and paid, twice.
        """
        try:
            self._act_each_period(act, period_s)
        except Exception:
            if self._over.is_set():
                raise  # a worker that stops closes connections under it
            _log.critical("unexpected error: ending, to be started again", exc_info=True)
            os._exit(os.EX_TEMPFAIL)

    def _act_each_period(self, act: Callable[[], None], period_s: float) -> None:
        while True:
            try:
                act()
            except (DatabaseUnavailableError, BrokerUnavailableError) as error:
                _log.warning("trying again in %.1f s: %s", period_s, error)
            if self._over.wait(period_s):
                return

    def _extend(self) -> None:
        held = list(self._caller.in_flight)
        if held:
            with self._caller.database.begin() as connection:
                calls.extend(connection, self._caller.owner, held, self._settings.lease_s)

    def _sweep(self) -> None:
        with self._caller.database.begin() as connection:
            workers.beat(
                connection,
                worker=self._caller.owner,
                endpoint=self._endpoint,
                in_flight=len(self._caller.in_flight),
                has_key=_has_key(endpoints.get(connection, self._endpoint)),
            )
            classes = lifecycle.device_classes(connection, self._endpoint)
            self._caller.first_turns = all(
                _has_room(queue_depth.look(connection, each)) for each in classes
            )
        sent = sweep.sweep(
            self._caller.database, self._broker, self._endpoint, waiting=self._caller.owed
        )
        if sent:
            _log.info("the sweep sent %d messages again", sent)


def _has_key(config: EndpointConfig) -> bool:
    try:
        key_of(config)
    except RequestError:
        return False
    return True


def _has_room(waiting: queue_depth.QueueDepth) -> bool:
    return waiting.total < max(FEW, MINUTES * 60 * waiting.per_s)
