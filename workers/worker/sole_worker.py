"""Check that no other live worker uses the device or the node name of this one."""

from __future__ import annotations

import logging
import os
import time
from datetime import datetime
from pathlib import Path

from app import process_stat
from app.domain.device import DeviceId
from app.domain.worker_instance import WorkerInstance
from app.store.postgres.database import Database, DatabaseUnavailableError
from app.store.queue import other_workers

POLL_S = 0.5
"""Seconds between two reads of the other workers' heartbeats."""
SWEEPS = 3
"""Sweep periods without a heartbeat after which another worker counts as dead.  It may have been
killed in a container, where its process cannot be seen from here.
"""

_log = logging.getLogger(__name__)


class DuplicateWorkerError(RuntimeError):
    """Another live worker serves this device, or has the same node name on another machine."""


def own_instance() -> WorkerInstance:
    """The identity of this process."""
    return WorkerInstance(
        machine=Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        namespace=_namespace(),
        pid=os.getpid(),
        started=_started(os.getpid()) or "",
    )


def require(database: Database, device: DeviceId, own: WorkerInstance, *, sweep_s: float) -> None:
    """Return once no other live worker uses the device or its node name.  Raises
    DuplicateWorkerError if another worker's heartbeat advances.

    The heartbeat of a worker that was killed looks recent for a while.  A worker whose process is
    known to have ended is not waited for.
    """
    deadline = time.monotonic() + SWEEPS * sweep_s
    first: dict[WorkerInstance, datetime] = {}
    while True:
        found = [
            each
            for each in _recent_workers(database, device, own)
            if not _has_ended(each.instance, own)
        ]
        for each in found:
            if each.heartbeat_at != first.setdefault(each.instance, each.heartbeat_at):
                raise DuplicateWorkerError(_message(each, device, own))
        if not found or time.monotonic() > deadline:
            return
        time.sleep(POLL_S)


def _recent_workers(
    database: Database, device: DeviceId, own: WorkerInstance
) -> list[other_workers.OtherWorker]:
    """Other workers with a recent heartbeat; waits for PostgreSQL."""
    while True:
        try:
            with database.begin() as connection:
                return other_workers.of(connection, device, own)
        except DatabaseUnavailableError as error:
            _log.warning("trying again in %.1f s: %s", POLL_S, error)
            time.sleep(POLL_S)


def _message(other: other_workers.OtherWorker, device: DeviceId, own: WorkerInstance) -> str:
    from_where = f"from {other.address}" if other.address else "from the database's host"
    if other.instance.machine == own.machine:
        return (
            f"{device}: another worker on this machine serves it (process {other.instance.pid}):"
            " stop one of them"
        )
    return (
        f"node {device.node!r}: another machine uses this name, where a worker serves"
        f" {other.device} and reaches the database {from_where}: give each host a name of its own"
        " (its host name without the domain; Compose: NODE)"
    )


def _has_ended(instance: WorkerInstance, own: WorkerInstance) -> bool:
    """Test whether the process is known to have ended; False if it cannot be seen from here."""
    if (instance.machine, instance.namespace) != (own.machine, own.namespace):
        return False
    return _started(instance.pid) != instance.started


def _started(pid: int) -> str | None:
    """Start time of a process; None if there is none."""
    found = process_stat.fields(pid)
    if found is None or found[process_stat.STATE] == "Z":
        return None
    return found[process_stat.STARTED]


def _namespace() -> str:
    return Path("/proc/self/ns/pid").readlink().name.removeprefix("pid:").strip("[]")
