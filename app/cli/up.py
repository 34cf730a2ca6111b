"""`assay up`: everything on this machine, until Ctrl-C."""

from __future__ import annotations

import time
from dataclasses import replace

import click

from app import gpus
from app.cli import accounts, child_processes, services, supervisor
from app.cli.child_processes import Child, Device, Web, Worker
from app.cli.endpoint_workers import EndpointWorkers
from app.domain.user import Role
from app.embedded import log_files
from app.settings import Settings
from app.store.user import audit, users
from app.web.identity import addresses

FIRST_ADMIN = "admin"


@click.command("up")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address of the web.")
@click.option(
    "--port",
    default=8000,
    show_default=True,
    type=click.IntRange(1, 65535),
    help="Port of the web.",
)
@click.option(
    "--slots",
    type=click.IntRange(1),
    help=(
        "Evaluations in flight on each GPU; by default ASSAY_SLOTS, else as many as the GPU is"
        " worth: 8 on an H200."
    ),
)
@click.option("--cpu", "cpu", is_flag=True, help="A worker for the CPU, also where there are GPUs.")
@services.weak_sandbox_option
@click.pass_obj
def command(settings: Settings, host: str, port: int, slots: int | None, cpu: bool) -> None:
    """Run everything on this machine: servers, web UI, one worker per device (`cpu` if
    there is no GPU), and one per endpoint that has its key in this environment, also for
    endpoints that are added later.

    Ctrl-C stops all of it; an evaluation in flight is finished first.  Queued jobs wait for the
    next start. A state folder has one `assay up` at a time.
    A process that ends by itself, servers included, is started again, after a second
    at first and a minute at most.

    Without users, requests from this machine have all rights and others are refused.  On an
    address that others can reach, every user has to log in: where there is no user, an admin is
    made, and the password printed, once.

    \b
    assay up
    assay up --host 0.0.0.0 --port 8080
    """
    found = devices(settings, slots)
    chosen = [*found, Device(device_class="cpu", index=0)] if cpu or not found else found
    asked = replace(settings, web_url=url(host, port))
    with (
        supervisor.Stopped() as stopped,
        supervisor.alone(settings.state_dir.absolute()),
        services.opened_with(asked) as (running, servers),
    ):
        started: list[Child] = []
        callers = EndpointWorkers(running)
        admission = admit(running, host)
        try:
            started.append(Web(running, host=host, port=port))
            for device in chosen:
                started.append(Worker(running, device))
            click.echo(f"web     {running.web_url}")
            click.echo(f"users   {admission}")
            for child in started[1:]:
                click.echo(f"{child.name:<8}pid {child.process.pid}, log {child.log}")
            click.echo(f"state   {running.state_dir}")
            click.echo("Ctrl-C stops all of it")
            kept = supervisor.supervised(started, servers)
            while not stopped.wait(supervisor.WATCH_S):
                supervisor.keep(kept)
                callers.keep(time.monotonic())
                log_files.rotate(running.state_dir / "log")
            click.echo("stopping, after the evaluations in flight")
        finally:
            child_processes.stop([*started, *callers.children])
            callers.close()
    click.echo("stopped")


def admit(settings: Settings, host: str) -> str:
    """Protect an address that others can reach; returns the access rule in words."""
    with accounts.database(settings) as connection:
        if users.exist(connection):
            return f"{len(users.listed(connection))}; everybody logs in"
        if addresses.is_loopback(host):
            return "none: open to this machine, closed to others (`assay user add NAME` closes it)"
        stored, made = accounts.password(FIRST_ADMIN, None, generate=True)
        users.add(connection, name=FIRST_ADMIN, role=Role.ADMIN, password_hash=stored)
        audit.record(
            connection,
            None,
            "user.add",
            f"user {FIRST_ADMIN}",
            {"role": "admin", **accounts.operator()},
        )
    return (
        f"{FIRST_ADMIN}, made now because others can reach {host}; password, shown only now: {made}"
    )


def url(host: str, port: int) -> str:
    """Where a browser on this machine finds a server that listens there."""
    return f"http://{'127.0.0.1' if host in ('0.0.0.0', '::') else host}:{port}"  # noqa: S104 (compared, not bound)


def devices(settings: Settings, slots: int | None = None) -> list[Device]:
    """The GPUs that may be used here.  `slots`: of each, in place of the settings'."""
    chosen = slots or settings.slots
    return [
        Device(device_class=gpu.device_class, index=gpu.index, slots=chosen)
        for gpu in gpus.visible()
    ]
