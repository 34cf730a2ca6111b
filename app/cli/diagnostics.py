"""Checks of `assay doctor`: each states its finding and, if it is not good, the remedy."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import UTC, datetime

from app import broker, routing
from app.broker import BrokerUnavailableError
from app.cli import output
from app.cli.doctor_check import Check, Checks, CheckStatus, judged
from app.cli.host_checks import disk, gpu, python_and_libraries, sandbox
from app.client import Client
from app.collect import health
from app.domain.device import CLOSED, DeviceState
from app.settings import ServicesNotRunningError, Settings, located
from app.store.postgres import schema_revisions, server_facts, write_probe
from app.store.postgres.database import DatabaseUnavailableError
from app.store.queue import devices, jobs, other_workers

OLDEST_REDIS = (6, 2)
"""Oldest Redis that Celery 5.7 supports."""
SAVED = ("aof_last_write_status", "rdb_last_bgsave_status")
"""Redis' own words on its last writes to the disk."""
OLDEST_POSTGRES = 14
"""Oldest major version that is tested."""
CLOCK_WARN_S, CLOCK_FAIL_S = 1.0, 30.0
"""Difference to the database's clock.  Leases use the database's alone; ids and logs do not."""
WEB_TIMEOUT_S = 5.0
"""Seconds for the web to answer: longer is as bad as no answer."""


def run(settings: Settings) -> Checks:
    """Every check, each as soon as it is known.  Nothing is started, and no data are changed."""
    yield from python_and_libraries()
    yield from gpu()
    yield from sandbox()
    yield from disk(settings)
    try:
        running = located(settings)
    except ServicesNotRunningError as error:
        yield Check(name="services", outcome=CheckStatus.FAIL, found=str(error), todo="assay up")
        return
    with Client(running) as client:
        yield from _database(client)
        yield from _broker(client)
        yield from _work(client)
        yield from _endpoints(client)
    yield from _web(running)


def _database(client: Client) -> Checks:
    try:
        with client.database.begin() as connection:
            facts = server_facts.facts(connection)
            now = datetime.now(UTC)
    except DatabaseUnavailableError as error:
        yield Check(
            name="database",
            outcome=CheckStatus.FAIL,
            found=str(error),
            todo="start PostgreSQL; see ASSAY_DATABASE_URL",
        )
        return
    major = int(facts.server.split(".")[0])
    yield judged(
        "database",
        f"PostgreSQL {facts.server}, {facts.size_bytes / 1e6:.0f} MB",
        warn=major < OLDEST_POSTGRES,
        todo=f"PostgreSQL {OLDEST_POSTGRES} or later is tested",
    )
    head = schema_revisions.head()
    yield judged(
        "tables",
        f"revision {facts.revision or 'none'}, this version wants {head}",
        fail=facts.revision != head,
        todo="assay db upgrade (or a newer version of this program, if the tables are newer)",
    )
    if facts.revision is not None:
        yield from _writes(client)
    risky = [f"{name}={value}" for name, value in facts.settings.items() if value == "off"]
    yield judged(
        "durability",
        ", ".join(risky) or "committed data is on disk",
        warn=bool(risky),
        todo="committed results may be lost in a crash of the machine: set it to on",
    )
    yield judged(
        "database role",
        "a superuser" if facts.is_superuser else "no superuser",
        warn=facts.is_superuser,
        todo=(
            "a worker that is taken over could start programs on the database's host: use a role"
            " that owns the database and is no superuser (new state folders and volumes have one;"
            " `assay db backup` and `restore` move the data)"
        ),
    )
    off = abs((now - facts.now).total_seconds())
    yield judged(
        "clock",
        f"{off:.2f} s from the database's",
        fail=off > CLOCK_FAIL_S,
        warn=off > CLOCK_WARN_S,
        todo="synchronise the clocks of the hosts (chrony, systemd-timesyncd)",
    )


def _writes(client: Client) -> Checks:
    try:
        refusal = write_probe.refusal(client.database)
    except DatabaseUnavailableError as error:
        refusal = str(error)
    yield judged(
        "writes",
        (
            "the database stores data"
            if refusal is None
            else f"the database stores nothing: {refusal}"
        ),
        fail=refusal is not None,
        todo=(
            "make room where its data are, or `assay db prune --profiles-older-than 30d`; or make"
            " it writable again"
        ),
    )


def _broker(client: Client) -> Checks:
    try:
        facts = broker.describe(client.broker)
    except BrokerUnavailableError as error:
        yield Check(
            name="broker",
            outcome=CheckStatus.FAIL,
            found=str(error),
            todo="start Redis; see ASSAY_BROKER_URL",
        )
        return
    version = tuple(int(part) for part in str(facts["redis_version"]).split(".")[:2])
    policy = facts.get("maxmemory_policy")
    limited = bool(facts.get("maxmemory")) and policy != "noeviction"
    name = (
        f"Valkey {facts['valkey_version']}"
        if "valkey_version" in facts
        else f"Redis {facts['redis_version']}"
    )
    yield judged(
        "broker",
        f"{name}, {policy}, append-only file {'on' if facts.get('aof_enabled') else 'off'}",
        fail=version < OLDEST_REDIS,
        warn=limited,
        todo=(
            "Redis 6.2 or later with `maxmemory-policy noeviction`: it forgets messages otherwise,"
            " until the sweep"
        ),
    )
    failed = [status for status in SAVED if facts.get(status, "ok") != "ok"]
    if failed:
        yield Check(
            name="broker writes",
            outcome=CheckStatus.FAIL,
            found=f"{', '.join(failed)}: not ok; it refuses messages",
            todo="make room where its data are",
        )


def _work(client: Client) -> Checks:
    try:
        with client.database.begin() as connection:
            listed = devices.listed(connection)
            waiting = jobs.backlog(connection, 0)
    except DatabaseUnavailableError:
        return  # said before
    online = [device for device in listed if device.state == DeviceState.ONLINE]
    yield judged(
        "workers",
        f"{len(online)} of {len(listed)} devices online",
        warn=not online,
        todo="assay workers run --gpu CLASS, on every host that is to evaluate",
    )
    yield from _nodes(listed)
    for device in listed:
        yield from _device(device)
    yield from _refused_messages(listed)
    for backlog in waiting:
        yield _queue(backlog, online)


def _nodes(listed: Sequence[devices.Device]) -> Checks:
    """Names of hosts that several machines have."""
    for node, addresses in other_workers.shared_names(listed).items():
        yield Check(
            name=f"node {node}",
            outcome=CheckStatus.FAIL,
            found=f"workers of {len(addresses)} machines have this name: {', '.join(addresses)}",
            todo=(
                "give each host a name of its own (its host name without the domain; Compose: NODE)"
            ),
        )


def _device(device: devices.Device) -> Checks:
    """A device that is out of service, or fails."""
    if device.state in CLOSED:
        yield Check(
            name=f"device {device.device}",
            outcome=CheckStatus.WARN,
            found=f"{device.state}: {device.reason} ({device.changed_by})",
            todo=f"when that is mended: assay workers resume {device.device}",
        )
    elif device.failing:
        yield Check(
            name=f"device {device.device}",
            outcome=CheckStatus.WARN,
            found=device.failing,
            todo="read its worker's log; after some more it is quarantined",
        )


def _refused_messages(listed: Sequence[devices.Device]) -> Checks:
    refused = sum(device.refused_messages for device in listed)
    if refused:
        yield Check(
            name="messages",
            outcome=CheckStatus.WARN,
            found=f"{refused} refused by workers: not of Assay's making",
            todo="find the other writers of Redis (ASSAY_BROKER_URL), and the workers' logs",
        )


def _queue(backlog: jobs.Backlog, online: Sequence[devices.Device]) -> Check:
    """Jobs that wait in one queue, with or without a worker."""
    served = any(_serves(device, backlog) for device in online)
    where = "pinned there" if backlog.device else f"of class {backlog.device_class}"
    return judged(
        f"queue {routing.queue_for(backlog.device_class, backlog.device)}",
        f"{backlog.jobs} jobs wait, {'served' if served else 'no worker serves it'}",
        fail=not served,
        todo=f"start or resume a worker for jobs {where}, or cancel them",
    )


def _endpoints(client: Client) -> Checks:
    """Every endpoint: its workers and their keys, the calls that wait for them, and
    the warnings of its last probe.
    """
    try:
        with client.database.begin() as connection:
            found = health.look(connection, None)
    except DatabaseUnavailableError:
        return  # said before
    for each in found:
        name, variable = each.config.name, each.config.key_env
        in_flight = sum(worker.in_flight for worker in each.workers)
        told = f"{len(each.workers)} workers online, {in_flight} calls in flight, {each.due} due"
        lacks_key = (
            f", none of them has {variable} in its environment"
            if each.workers and not each.served
            else ""
        )
        key = (
            f"set {variable} where `assay up` or `assay collect serve` starts, " if variable else ""
        )
        yield judged(
            f"endpoint {name}",
            f"{told}{lacks_key}",
            fail=not each.served and each.due > 0,
            warn=not each.served,
            todo=f"{key}start `assay up` or `assay collect serve {name}`",
        )
        yield judged(
            f"probe of {name}",
            (
                "never"
                if each.probed_at is None
                else "; ".join([output.minute(each.probed_at), *each.warnings])
            ),
            warn=each.probed_at is None or bool(each.warnings),
            todo=f"assay endpoint probe {name}",
        )


def _serves(device: devices.Device, backlog: jobs.Backlog) -> bool:
    pins = (None, device.node, device.device)
    return device.device_class == backlog.device_class and backlog.device in pins


def _web(settings: Settings) -> Checks:
    url = f"{settings.web_url.rstrip('/')}/healthz"
    try:
        with urllib.request.urlopen(url, timeout=WEB_TIMEOUT_S) as answer:  # noqa: S310 (the operator's own URL)
            found, fine = f"{url} answers {answer.status}", answer.status == 200
    except (urllib.error.URLError, OSError, ValueError) as error:
        found, fine = f"{url}: {error}", False
    yield judged("web", found, warn=not fine, todo="assay up, or name it with ASSAY_WEB_URL")
