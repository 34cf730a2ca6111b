"""STORE: devices, when their workers were last heard of, and whether they take jobs.

A state set by people or failed checks (draining, quarantined) stays until a person resumes it,
while workers come and go.  Every such change is kept with its reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from app.domain import choices, ids
from app.domain.device import CLOSED, DeviceId, DeviceState
from app.domain.worker_instance import WorkerInstance
from app.store import tables
from app.store.postgres import jsonb, moments, row_columns
from app.store.queue import leases

SILENT_S = 30.0
"""Seconds without a heartbeat after which a device is shown as offline."""

_d = tables.devices.c


@dataclass(frozen=True, kw_only=True)
class Device:
    """One device of one host, and the worker that serves it."""

    device_id: UUID
    node: str
    device_class: str
    device_index: int
    state: str
    """`online`, `offline` (signed off, or silent), `draining` or `quarantined`."""
    worker: str
    fingerprint: dict[str, Any]
    """The referee's environment: device, driver, library versions."""
    heartbeat_at: datetime
    reason: str | None = None
    """Reason for draining or quarantine."""
    changed_by: str | None = None
    """Author of the change: a user, or the worker itself."""
    changed_at: datetime | None = None
    faults: int = 0
    """Evaluations in a row that failed by Assay's fault; see `note_fault`."""
    refused_messages: int = 0
    """Since its worker began."""
    is_heard: bool = False
    """Whether its worker has been heard of lately, in service or not."""
    instance: str | None = None
    """The worker's process: app.domain.worker_instance."""
    address: str | None = None
    """Address from which the worker reaches PostgreSQL; None through a socket of the same host."""

    @property
    def device(self) -> str:
        """The name that a job is pinned by: '<node>.<index>'."""
        return self.place.device

    @property
    def place(self) -> DeviceId:
        """Place of the device."""
        return DeviceId(device_class=self.device_class, node=self.node, index=self.device_index)

    @property
    def failing(self) -> str:
        """Sentence for people on an online device that serves nothing as far as is known, for
        example because its GPU is not there; else empty.
        """
        if self.state != DeviceState.ONLINE or not self.faults:
            return ""
        return (
            f"{self.faults} starts or evaluations in a row failed by infrastructure faults, none"
            " has succeeded since"
        )


@dataclass(frozen=True, kw_only=True)
class Event:
    """A change of a device's state, by a person or a worker."""

    device_id: UUID
    device: str
    state: str
    """The new state."""
    reason: str
    changed_by: str
    created_at: datetime


class TakenError(RuntimeError):
    """Another worker serves the device."""


class UnknownDeviceError(LookupError):
    """No device with that name was ever registered."""


def register(
    connection: sa.Connection,
    place: DeviceId,
    *,
    worker: str,
    refused: int = 0,
    instance: WorkerInstance | None = None,
    again: bool = False,
) -> DeviceState:
    """Record that a worker serves the device and is alive, at its start and with every
    heartbeat; returns the device's state.

    `refused`: messages that it has refused since its start (app/redis_transport.py).  States set by
    people (`draining`, `quarantined`) are kept.  `again`: it has registered before; raises
    TakenError where another instance has done so since and is alive.
    """
    own = None if instance is None else str(instance)
    statement = insert(tables.devices).values(_row(place, worker=worker, instance=own))
    online = sa.case((_d.state == "offline", "online"), else_=_d.state)
    statement = statement.on_conflict_do_update(
        index_elements=["node", "device_class", "device_index"],
        set_={
            "worker": worker,
            "heartbeat_at": sa.func.now(),
            "state": online,
            "refused_messages": refused,
            "instance": own,
            "address": _address(),
        },
        where=sa.or_(_d.instance.is_(None), _d.instance == own, silent()) if again else None,
    )
    state = connection.execute(statement.returning(_d.state)).scalar_one_or_none()
    if state is None:
        raise TakenError(f"{place}: another worker has registered it since")
    return DeviceState(state)


def describe(connection: sa.Connection, place: DeviceId, fingerprint: dict[str, Any]) -> bool:
    """Store the referee's description of the device; False where no worker has
    registered it yet.
    """
    described = connection.execute(
        sa.update(tables.devices).where(_at(place)).values(fingerprint=jsonb.plain(fingerprint))
    )
    return described.rowcount == 1


def leave(
    connection: sa.Connection, *, worker: str, instance: WorkerInstance | None = None
) -> None:
    """The worker has stopped, as it should."""
    own = sa.or_(
        _d.instance.is_(None), _d.instance == (None if instance is None else str(instance))
    )
    offline = sa.case((_d.state == "online", "offline"), else_=_d.state)
    connection.execute(
        sa.update(tables.devices)
        .where(_d.worker == worker, own)
        .values(state=offline, instance=None)
    )


def state_of(connection: sa.Connection, place: DeviceId) -> DeviceState | None:
    """The device's state; None where no worker has registered it yet."""
    state = connection.execute(sa.select(_d.state).where(_at(place))).scalar_one_or_none()
    return None if state is None else DeviceState(state)


def drain(connection: sa.Connection, name: str, *, reason: str, changed_by: str) -> list[Device]:
    """Let the device '<node>.<index>', or all devices of '<node>', finish their
    current jobs and take no more.

    The devices as they are now.  Quarantined ones stay so.  Raises UnknownDeviceError.
    """
    return _change(
        connection, name, DeviceState.DRAINING, reason, changed_by, unless=DeviceState.QUARANTINED
    )


def quarantine(
    connection: sa.Connection, name: str, *, reason: str, changed_by: str
) -> list[Device]:
    """Take the device '<node>.<index>', or all devices of '<node>', out of service at once: its job
    is stopped and runs again elsewhere.

    The devices as they are now.  Raises UnknownDeviceError.
    """
    return _change(connection, name, DeviceState.QUARANTINED, reason, changed_by)


def resume(
    connection: sa.Connection, name: str, *, reason: str = "", changed_by: str
) -> list[Device]:
    """Let the device '<node>.<index>', or all devices of '<node>', take jobs again: those that were
    cut short, or could not begin, at once.

    The devices as they are now.  Raises UnknownDeviceError.
    """
    resumed = _change(connection, name, DeviceState.ONLINE, reason, changed_by)
    for device_class in {device.device_class for device in resumed}:
        leases.end_pauses(connection, device_class)
    return resumed


def quarantine_at(
    connection: sa.Connection, place: DeviceId, *, reason: str, changed_by: str
) -> None:
    """Quarantine exactly one device, after a failed check by its worker.  It need
    not be registered.
    """
    unknown = insert(tables.devices).values(_row(place, worker=changed_by)).on_conflict_do_nothing()
    connection.execute(unknown)
    _set_state(connection, _at(place), DeviceState.QUARANTINED, reason, changed_by)


def note_fault(connection: sa.Connection, place: DeviceId, key: str) -> int:
    """One more evaluation has failed by Assay's fault; how many in a row that makes.

    The same `key` again counts once: that of a job which had begun is its id, because the job's own
    code may make it fail, and then the next job's will not.
    """
    noted = sa.case(
        (sa.literal(key) == sa.any_(_d.faults), _d.faults),
        else_=sa.func.array_append(_d.faults, key),
    )
    update = sa.update(tables.devices).where(_at(place)).values(faults=noted)
    counted = connection.execute(
        update.returning(sa.func.cardinality(_d.faults))
    ).scalar_one_or_none()
    return counted or 0


def note_success(connection: sa.Connection, place: DeviceId) -> None:
    """Reset the device's count of failures after a result."""
    connection.execute(
        sa.update(tables.devices)
        .where(_at(place), sa.func.cardinality(_d.faults) > 0)
        .values(faults=[])
    )


def events(connection: sa.Connection, limit: int = 100) -> list[Event]:
    """The latest changes, newest first."""
    e = tables.device_events.c
    device = _d.node + "." + sa.cast(_d.device_index, sa.Text)
    columns = row_columns.of(Event, tables.device_events, device=device)
    query = sa.select(*columns).select_from(tables.device_events.join(tables.devices))
    rows = connection.execute(
        query.order_by(e.created_at.desc(), e.device_event_id.desc()).limit(limit)
    )
    return [Event(**row._mapping) for row in rows]


def is_heard(connection: sa.Connection, place: DeviceId) -> bool:
    """Whether the device's worker has been heard of lately, in service or not."""
    return bool(
        connection.execute(sa.select(sa.exists().where(_at(place), ~silent()))).scalar_one()
    )


def listed(connection: sa.Connection) -> list[Device]:
    """Every device that was ever registered, by class, node and index; the silent
    ones as offline.
    """
    columns = row_columns.of(
        Device,
        tables.devices,
        state=sa.case((sa.and_(_d.state == "online", silent()), "offline"), else_=_d.state),
        faults=sa.func.cardinality(_d.faults),
        is_heard=~silent(),
    )
    query = sa.select(*columns).order_by(_d.device_class, _d.node, _d.device_index)
    return [Device(**row._mapping) for row in connection.execute(query)]


def named(connection: sa.Connection, name: str) -> list[Device]:
    """The device '<node>.<index>' (a GPU and a CPU may share that name), or all devices of
    '<node>'.  Raises UnknownDeviceError.
    """
    known = listed(connection)
    found = [device for device in known if name in (device.device, device.node)]
    if not found:
        names = dict.fromkeys(each for device in known for each in (device.node, device.device))
        raise UnknownDeviceError(f"no device {name!r}; {choices.expected(names)}")
    return found


def silent() -> sa.ColumnElement[bool]:
    """Condition: the device's worker has not been heard of for SILENT_S."""
    return _d.heartbeat_at < moments.ago(SILENT_S)


def _change(
    connection: sa.Connection,
    name: str,
    state: DeviceState,
    reason: str,
    changed_by: str,
    unless: DeviceState | None = None,
) -> list[Device]:
    wanted = [device for device in named(connection, name) if device.state not in (state, unless)]
    for device in wanted:
        _set_state(connection, _d.device_id == device.device_id, state, reason, changed_by)
    return named(connection, name)


def _set_state(
    connection: sa.Connection,
    which: sa.ColumnElement[bool],
    state: DeviceState,
    reason: str,
    changed_by: str,
) -> None:
    changed = (
        sa.update(tables.devices)
        .where(which, _d.state != state)
        .values(
            state=state,
            faults=[],
            reason=reason if state in CLOSED else None,
            changed_by=changed_by,
            changed_at=sa.func.now(),
        )
        .returning(_d.device_id)
    )
    rows = [
        {
            "device_event_id": ids.new_id(),
            "device_id": device_id,
            "state": state,
            "reason": reason,
            "changed_by": changed_by,
        }
        for device_id in connection.execute(changed).scalars()
    ]
    if rows:
        connection.execute(sa.insert(tables.device_events), rows)


def _row(place: DeviceId, *, worker: str, instance: str | None = None) -> dict[str, Any]:
    """Row of a device that is new."""
    return {
        "device_id": ids.new_id(),
        "node": place.node,
        "device_class": place.device_class,
        "device_index": place.index,
        "worker": worker,
        "heartbeat_at": sa.func.now(),
        "instance": instance,
        "address": _address(),
    }


def _address() -> sa.ColumnElement[str | None]:
    """Address of this connection's client; NULL through a socket."""
    return sa.cast(sa.func.host(sa.func.inet_client_addr()), sa.Text)


def _at(place: DeviceId) -> sa.ColumnElement[bool]:
    return sa.and_(
        _d.node == place.node, _d.device_class == place.device_class, _d.device_index == place.index
    )
