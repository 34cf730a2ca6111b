"""Imitated hosts: network namespaces with host names and addresses of their own on a
bridge, and the servers of the session reachable from there by TCP.  Needs root and
iproute2; `available()` says why not.
"""

from __future__ import annotations

import os
import secrets
import select
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from subprocess import Popen
from urllib.parse import unquote, urlsplit

import sqlalchemy as sa

from app import embedded
from app.settings import Settings


def available() -> str | None:
    """None where hosts can be imitated here, else the missing requirement."""
    if os.geteuid() != 0:
        return "needs root"
    if not shutil.which("ip") or not shutil.which("unshare"):
        return "needs iproute2 and unshare"
    name = f"assay-{secrets.token_hex(3)}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        return "network namespaces are not permitted"
    ip("netns", "del", name)
    return None


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@dataclass(kw_only=True)
class Network:
    """A bridge, the hosts on it, and the processes on those."""

    settings: Settings
    """With URLs by which the hosts reach the servers."""
    tag: str
    subnet: str
    hosts: list[str] = field(default_factory=list)
    started: list[Popen[bytes]] = field(default_factory=list)

    def add(self, name: str) -> None:
        """A host with a cable to the bridge."""
        number = len(self.hosts) + 2
        space, cable, plug = f"{self.tag}-{name}", f"{self.tag}{name}0", f"{self.tag}{name}1"
        self.hosts.append(name)
        ip("netns", "add", space)
        ip("link", "add", cable, "type", "veth", "peer", "name", plug, "netns", space)
        ip("link", "set", cable, "master", f"{self.tag}br", "up")
        ip("-n", space, "addr", "add", f"{self.subnet}.{number}/24", "dev", plug)
        ip("-n", space, "link", "set", plug, "up")
        ip("-n", space, "link", "set", "lo", "up")

    def start_worker(
        self, host: str, *, device_class: str, device_index: int, module: str
    ) -> Popen[bytes]:
        """A worker on that host, with one slot: the host that runs a job then shows
        that the others do not.
        """
        own = replace(self.settings, device_class=device_class, device_index=device_index, slots=1)
        script = 'hostname "$1" && shift && exec "$@"'
        inside = [
            "unshare",
            "--uts",
            "sh",
            "-c",
            script,
            "sh",
            host,
            *embedded.worker_command(own, module),
        ]
        ours = {key: value for key, value in os.environ.items() if not key.startswith("ASSAY_")}
        with (self.settings.state_dir / "log" / f"host-{host}.log").open("ab") as log:
            process = subprocess.Popen(
                ["ip", "netns", "exec", f"{self.tag}-{host}", *inside],
                stdout=log,
                stderr=log,
                env={**ours, **own.to_env()},
            )
        self.started.append(process)
        return process

    def cut(self, host: str) -> None:
        """Pull the cable: no end is told, nothing is refused, nothing arrives."""
        ip("link", "set", f"{self.tag}{host}0", "down")

    def restart_helpers(self, host: str) -> None:
        ip("link", "set", f"{self.tag}{host}0", "up")


@contextmanager
def network(settings: Settings) -> Iterator[Network]:
    """Hosts that reach the servers of `settings`, which listen on Unix sockets only."""
    tag, subnet = f"as{secrets.token_hex(2)}", f"10.213.{secrets.randbelow(250) + 1}"
    bridge = f"{tag}br"
    ip("link", "add", bridge, "type", "bridge")
    made = Network(settings=settings, tag=tag, subnet=subnet)
    try:
        ip("addr", "add", f"{subnet}.1/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        with forwarded(settings, f"{subnet}.1") as reachable:
            made.settings = reachable
            yield made
    finally:
        for process in made.started:
            process.kill()
            process.wait()
        for host in made.hosts:
            ip("netns", "del", f"{tag}-{host}")
        ip("link", "del", bridge)


@contextmanager
def forwarded(settings: Settings, address: str) -> Iterator[Settings]:
    """The settings with URLs of ports at `address` that lead to the Unix sockets."""
    database, broker = sa.make_url(settings.database_url or ""), urlsplit(settings.broker_url or "")
    redis_socket = unquote(broker.netloc.rpartition("@")[2] + broker.path)
    with (
        forwarder(address, f"{database.query['host']}/.s.PGSQL.5432") as postgres_port,
        forwarder(address, redis_socket) as redis_port,
    ):
        url = database.set(host=address, port=postgres_port, query={})
        yield replace(
            settings,
            database_url=url.render_as_string(hide_password=False),
            broker_url=f"redis://:{broker.password}@{address}:{redis_port}/0",
        )


@contextmanager
def forwarder(address: str, path: str) -> Iterator[int]:
    """A port that connects to the Unix socket."""
    with socket.create_server((address, 0)) as server:
        threading.Thread(target=_accept, args=(server, path), daemon=True).start()
        yield int(server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)


def _accept(server: socket.socket, path: str) -> None:
    while True:
        try:
            near, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(near, path), daemon=True).start()


def _serve(near: socket.socket, path: str) -> None:
    """One connection, until either end closes it."""
    with near, socket.socket(socket.AF_UNIX) as far:
        try:
            far.connect(path)
            other = {near: far, far: near}
            while True:
                readable, _, _ = select.select([near, far], [], [])
                for source in readable:
                    data = source.recv(65536)
                    if not data:
                        return
                    other[source].sendall(data)
        except OSError:
            return
