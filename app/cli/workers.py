"""`assay workers`: which devices are served, serving one, and taking one out of service."""

from __future__ import annotations

import getpass
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import click
from rich.table import Table

from app import embedded, routing
from app.cli import errors, output, services
from app.cli.group import Group, Renamed
from app.domain.device import DeviceId
from app.settings import Settings, located
from app.store.queue import devices


@click.group(
    "workers",
    cls=Group,
    invoke_without_command=True,
)
@output.json_option("Print the devices as JSON.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List devices and when their workers were last heard of; run a worker; take
    devices out of service.

    \b
    assay workers
    assay workers --json
    assay workers run --gpu cpu
    assay workers run --gpu h200 --index 0 --slots 12
    assay workers drain gpubox --reason "new driver"
    assay workers quarantine gpubox.3 --reason "Xid 79"
    assay workers resume gpubox
    """
    if ctx.invoked_subcommand is not None:
        return
    with services.client(ctx.obj) as client, client.database.begin() as connection:
        known = devices.listed(connection)
    if known or as_json:
        _show(known, as_json)
    else:
        click.echo(
            "no worker was ever here; `assay up` starts one for each device, `assay workers run`"
            " starts one"
        )


@command.command("run")
@click.option(
    "--gpu",
    "--device",
    "device_class",
    cls=Renamed,
    type=click.Choice(routing.DEVICE_CLASSES),
    help="Device class to serve; by default ASSAY_DEVICE_CLASS, else cpu.",
)
@click.option(
    "--index",
    type=click.IntRange(0, 99),
    help="Number of the device on its host; by default ASSAY_DEVICE_INDEX, else 0.",
)
@click.option(
    "--slots",
    type=click.IntRange(1),
    help=(
        "Evaluations in flight, only one of which times at any moment; by default ASSAY_SLOTS, else"
        " as many as the device is worth: 8 on an H200, 1 on the CPU.  1 buys narrower intervals on"
        " a GPU."
    ),
)
@services.weak_sandbox_option
@click.pass_obj
def run(
    settings: Settings,
    device_class: str | None,
    index: int | None,
    slots: int | None,
) -> None:
    """Serve one device in the foreground until SIGTERM or Ctrl-C, which let it finish running jobs.

    For containers and service managers; it needs ASSAY_DATABASE_URL and
    ASSAY_BROKER_URL, or services that run already (`assay up`).  Start it as root where
    candidates should run under uids of their own.
    """
    found = located(settings)
    own = replace(
        found,
        device_class=device_class or found.device_class,
        device_index=found.device_index if index is None else index,
        slots=slots or found.slots,
    )
    argv = embedded.worker_command(own)
    os.execve(sys.executable, argv, {**os.environ, **embedded.worker_environment(own)})  # noqa: S606 (no shell; signals reach the worker itself)


@command.command("alive")
@output.json_option()
@click.pass_context
def alive(ctx: click.Context, as_json: bool) -> None:
    """Exit with 0 if the worker of this host's device has been heard of in the last
    half minute, else with 1.

    For health checks of containers; the device is that of ASSAY_DEVICE_CLASS and
    ASSAY_DEVICE_INDEX.

    \b
    assay workers alive
    """
    settings = located(ctx.obj)
    node = routing.node_name(socket.gethostname())
    place = DeviceId(device_class=settings.device_class, node=node, index=settings.device_index)
    with services.client(settings) as client, client.database.begin() as connection:
        heard = devices.is_heard(connection, place)
    sentence = f"{place}: {'alive' if heard else 'silent'}"
    output.answer_out(sentence, {"device": str(place), "alive": heard}, as_json=as_json)
    if not heard:
        ctx.exit(errors.NO)


def _reason(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    if not value.strip():
        raise click.BadParameter("expected a reason, got none")
    return value.strip()


_REASON = click.option(
    "--reason",
    required=True,
    callback=_reason,
    help="Reason, shown in lists and in the history.",
)


@command.command("drain")
@click.argument("name", metavar="NODE[.INDEX]")
@_REASON
@output.json_option("Print the devices as JSON.")
@click.pass_obj
def drain(settings: Settings, name: str, reason: str, as_json: bool) -> None:
    """Let a device, or all of a host, finish running jobs and take no more.

    Queued jobs go to other devices of the class; jobs pinned there wait until `assay
    workers resume`.

    \b
    assay workers drain gpubox --reason "new driver"
    """
    _change(settings, devices.drain, name, reason, as_json)


@command.command("quarantine")
@click.argument("name", metavar="NODE[.INDEX]")
@_REASON
@output.json_option("Print the devices as JSON.")
@click.pass_obj
def quarantine(settings: Settings, name: str, reason: str, as_json: bool) -> None:
    """Take a device, or all of a host, out of service at once: running jobs are
    stopped and retried elsewhere.

    A worker does the same by itself when a check of its device fails.

    \b
    assay workers quarantine gpubox.3 --reason "Xid 79"
    """
    _change(settings, devices.quarantine, name, reason, as_json)


@command.command("resume")
@click.argument("name", metavar="NODE[.INDEX]")
@click.option("--reason", default="", help="Reason, shown in lists and in the history.")
@output.json_option("Print the devices as JSON.")
@click.pass_obj
def resume(settings: Settings, name: str, reason: str, as_json: bool) -> None:
    """Let a drained or quarantined device, or all of a host, take jobs again.

    \b
    assay workers resume gpubox.3 --reason "replaced"
    """
    _change(settings, devices.resume, name, reason, as_json)


def _change(
    settings: Settings,
    change: Callable[..., list[devices.Device]],
    name: str,
    reason: str,
    as_json: bool,
) -> None:
    """Change the state of those devices and show them."""
    with services.client(settings) as client, client.database.begin() as connection:
        changed = change(connection, name, reason=reason, changed_by=f"{getpass.getuser()} (assay)")
    _show(changed, as_json)


def _show(known: list[devices.Device], as_json: bool) -> None:
    if as_json:
        output.json_out([_plain(device) for device in known])
    else:
        output.table_out(_table(known))


def _plain(device: devices.Device) -> dict[str, object]:
    return {
        "device_id": str(device.device_id),
        "device": device.device,
        "device_class": device.device_class,
        "state": device.state,
        "worker": device.worker,
        "heartbeat_at": device.heartbeat_at.isoformat(),
        "reason": device.reason,
        "changed_by": device.changed_by,
        "changed_at": device.changed_at and device.changed_at.isoformat(),
        "faults": device.faults,
        "fingerprint": device.fingerprint,
    }


def _table(known: list[devices.Device]) -> Table:
    columns = ("device", "class", "state", "heard", "slots", "name", "worker", "why")
    table = Table(*columns, box=None, pad_edge=False, header_style="dim")
    now = datetime.now(UTC)
    for device in known:
        style = "green" if device.state == "online" and not device.faults else "yellow"
        heard = f"{(now - device.heartbeat_at).total_seconds():.0f} s ago"
        name = output.safe(str(device.fingerprint.get("device_name", "")))
        slots = output.safe(str(device.fingerprint.get("slots", "")))
        state = f"[{style}]{device.state}"
        table.add_row(
            device.device,
            device.device_class,
            state,
            heard,
            slots,
            name,
            device.worker,
            output.safe(_why(device)),
        )
    return table


def _why(device: devices.Device) -> str:
    """Reason of its state, or that an online device serves nothing."""
    if device.reason:
        return f"{device.reason} ({device.changed_by})"
    return f"{device.failing}: read the worker's log" if device.failing else ""
