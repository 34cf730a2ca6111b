"""STORE: live workers that use the same node name or device as another worker.

Two hosts with one name would share device ids, heartbeats, pinned jobs, drains and quarantines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from app.domain.device import DeviceId
from app.domain.worker_instance import WorkerInstance
from app.store import tables
from app.store.queue import devices

_d = tables.devices.c


@dataclass(frozen=True, kw_only=True)
class OtherWorker:
    """Another worker with a recent heartbeat."""

    device: DeviceId
    instance: WorkerInstance
    address: str | None
    """Address from which it connects to PostgreSQL; None for a socket on the same host."""
    heartbeat_at: datetime


def of(connection: sa.Connection, device: DeviceId, own: WorkerInstance) -> list[OtherWorker]:
    """Workers that serve the same device, or any device under the same node name
    from another machine.
    """
    columns = (_d.device_class, _d.node, _d.device_index, _d.instance, _d.address, _d.heartbeat_at)
    heard = sa.select(*columns).where(
        _d.node == device.node, _d.instance.is_not(None), ~devices.silent()
    )
    found = [
        OtherWorker(
            device=DeviceId(device_class=row.device_class, node=row.node, index=row.device_index),
            instance=WorkerInstance.parse(row.instance),
            address=row.address,
            heartbeat_at=row.heartbeat_at,
        )
        for row in connection.execute(heard.order_by(_d.device_class, _d.device_index))
    ]
    others = (each for each in found if each.instance != own)
    return [
        each for each in others if each.device == device or each.instance.machine != own.machine
    ]


def shared_names(known: Iterable[devices.Device]) -> dict[str, list[str]]:
    """Node names under which workers of several machines serve → the addresses of those workers."""
    machines: dict[str, dict[str, str]] = defaultdict(dict)
    for each in known:
        if each.instance is not None and each.is_heard:
            machine = WorkerInstance.parse(each.instance).machine
            machines[each.node].setdefault(machine, each.address or "the database's host")
    return {node: list(found.values()) for node, found in machines.items() if len(found) > 1}
