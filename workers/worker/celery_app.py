"""The worker of one device: `celery -A workers.worker.celery_app worker`, configured
by ASSAY_* variables.

The main process consumes messages, sweeps, and reports that the device is alive.  Its pool
processes, one per slot, evaluate one job at a time.  On the CPU each has a referee of its own;
those of a GPU share one.  No process here imports torch.
"""

from __future__ import annotations

import gc
import logging
import signal
import socket
from typing import Any

from billiard.process import current_process
from celery import signals

from app import broker, routing, worker_start
from app.domain.device import DeviceId
from app.settings import Settings, located
from app.store.postgres.database import Database
from app.telemetry import logs, tracing
from app.watchdog import Watchdog
from workers.sandbox import syscalls
from workers.worker import referee_client, sole_worker, timers
from workers.worker.job_evaluator import JobEvaluator
from workers.worker.maintenance import Maintenance
from workers.worker.pulse import Pulses

_log = logging.getLogger(__name__)

settings = located(Settings.from_env())
logs.configure(settings.log_format)  # before Celery warns of anything
node = routing.node_name(socket.gethostname())
_device = DeviceId(device_class=settings.device_class, node=node, index=settings.device_index)
_queues = tuple(routing.served(_device))
assert settings.broker_url is not None
app = broker.make_app(settings.broker_url, queues=_queues)
app.conf.worker_concurrency = settings.concurrency
app.amqp.queues.select(list(_queues))

_evaluator: JobEvaluator | None = None
_maintenance: Maintenance | None = None
_pulses = Pulses(settings.concurrency)
_instance = sole_worker.own_instance()


@app.task(name=routing.EVALUATE, bind=True)
def evaluate(task: Any) -> None:
    """Evaluate the job that is due.  The message permits one claim for its queue."""
    assert _evaluator is not None
    _evaluator.evaluate(task.request.delivery_info["routing_key"])


@signals.setup_logging.connect
def _log_as_configured(**_: object) -> None:
    logs.configure(settings.log_format)


@signals.worker_init.connect
def _check_tables(**_: object) -> None:
    """Refuse to serve tables of another version: results that they do not take would
    fail their jobs for good.
    """
    assert settings.database_url is not None
    worker_start.require_own_tables(settings.database_url)


@signals.worker_init.connect
def _require_sole_worker(**_: object) -> None:
    """Refuse to serve a device, or under a node name, that another live worker uses."""
    assert settings.database_url is not None
    database = Database(settings.database_url, connections=1)
    try:
        sole_worker.require(database, _device, _instance, sweep_s=settings.sweep_s)
    except sole_worker.DuplicateWorkerError as error:
        _log.critical("%s", error)
        raise SystemExit(worker_start.INSUFFICIENT) from error
    finally:
        database.dispose()


@signals.worker_init.connect
def _try_sandbox(**_: object) -> None:
    """Refuse to serve if a candidate could do a forbidden act.  Tested once for all slots, before
    the pool processes are forked.
    """
    try:
        holes = referee_client.require_sandbox(allow_weak=settings.allow_weak_sandbox)
    except referee_client.InfrastructureError as error:
        _log.critical("%s", error)
        raise SystemExit(worker_start.INSUFFICIENT) from error
    if holes:
        _log.warning("serving with a weak sandbox, as allowed: %s", "; ".join(holes))
    gc.collect()
    gc.freeze()  # garbage collection skips objects made so far: pool processes share their memory


@signals.worker_process_init.connect
def _open(**_: object) -> None:
    """Prepare a pool process, which is killed when its worker ends, and its referee with it.

    Celery kills a pool process that is silent for its first four seconds.
    """
    global _evaluator
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    _pulses.start(current_process().index)  # type: ignore[attr-defined]  # its slot in the pool
    tracing.configure("assay-worker")
    _evaluator = JobEvaluator(settings, node, app)
    _evaluator.prepare()


@signals.worker_process_shutdown.connect
def _close(**_: object) -> None:
    if _evaluator is not None:
        _evaluator.close()


@signals.worker_ready.connect
def _start_maintenance(sender: Any, **_: object) -> None:
    global _maintenance
    _maintenance = Maintenance(
        settings, app, sender, device=_device, instance=_instance, pulses=_pulses
    )
    _maintenance.start()
    Watchdog(settings.log_format, well=_maintenance.is_well).start()
    sender.timer.call_repeatedly(timers.PERIOD_S, timers.forget_cancelled, (sender.timer,))


@signals.worker_shutdown.connect
def _stop_maintenance(**_: object) -> None:
    if _maintenance is not None:
        _maintenance.stop()
