"""The worker of one endpoint: `celery -A workers.generator.app worker -P gevent`, with
settings from ASSAY_* variables.

Every task is a greenlet: a call that waits for a model costs some kilobytes.  The endpoint's key is
read from the environment of this process and goes nowhere else.
"""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

from celery import signals

from app import broker, routing, worker_start
from app.settings import Settings, located
from app.telemetry import logs
from app.watchdog import Watchdog
from workers.generator.caller import Caller
from workers.generator.maintenance import Maintenance

PREFETCH = 4
"""Messages taken for each greenlet.  With one, kombu stops reading while every greenlet is busy,
and looks again only after two seconds.
"""
QUIET = ("celery.worker.strategy", "celery.app.trace")
"""Loggers that write two lines for every message: rows say more."""

_log = logging.getLogger(__name__)

settings = located(Settings.from_env())
logs.configure(settings.log_format)
assert settings.broker_url is not None
_endpoint = settings.endpoint or ""
_queue = routing.generate_queue(_endpoint)
app = broker.make_app(settings.broker_url, queues=[_queue])
app.conf.task_time_limit = None  # the pool has none; a call ends by its own time-outs
app.conf.worker_prefetch_multiplier = PREFETCH
app.amqp.queues.select([_queue])

_caller = Caller(settings, _endpoint, app)
_maintenance = Maintenance(settings, _endpoint, app, _caller)


@app.task(name=routing.CALL)
def call() -> None:
    """Make the call that is due."""
    _caller.call()


@app.task(name=routing.DECIDE)
def decide(rollout_id: str) -> None:
    """Decide the rollout's next step."""
    _caller.decide(UUID(rollout_id))


@signals.setup_logging.connect
def _log_as_configured(**_: object) -> None:
    logs.configure(settings.log_format)
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


@signals.worker_init.connect
def _check_tables(**_: object) -> None:
    """Refuse to serve tables of another version: calls would be paid for and not stored."""
    assert settings.database_url is not None
    worker_start.require_own_tables(settings.database_url)


@signals.worker_ready.connect
def _start(**_: Any) -> None:
    _maintenance.start()
    Watchdog(settings.log_format).start()


@signals.worker_shutdown.connect
def _stop(**_: Any) -> None:
    _maintenance.stop()
    _caller.close()
