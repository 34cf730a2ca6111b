"""The zygote: imports the candidates' modules once, confines itself, and forks a
warden with a candidate on request.

Started as `python -m workers.sandbox.zygote FD ROLE…` with a clean environment by
zygote_client.Zygote.  It never runs untrusted code and never computes with torch: forks of a
process that has used OpenMP hang.

A role's module may define `prepare`, which runs once for all forks: they inherit its memory, and
libraries that it leaves in Triton's cache are copied into each fork's own cache.
"""

from __future__ import annotations

import array
import contextlib
import functools
import gc
import importlib
import json
import os
import signal
import socket
import struct
import sys
import tempfile
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from workers.sandbox import cgroup, layers, syscalls, warden

SPAWN = struct.Struct("<IIQQi")
"""Role index, uid, memory bytes, CPU seconds, core (−1: any)."""

FIRST_TO_GO = "1000"
"""If the host runs out of memory, the kernel ends the largest candidate and never the
referee (proc(5), oom_score_adj).
"""

PRIORITY = -15
"""Nice value of measured processes."""

_FDS = 3  # the candidate's channel, its standard output, the warden's channel
MESSAGE_BYTES = 64 << 10
"""Longest message of a zygote or of a warden."""


def main(fd: int, roles: list[str]) -> None:
    """Import the roles' modules, confine, report on the channel, then fork on
    request until the channel closes.
    """
    channel = socket.socket(fileno=fd)
    os.environ.pop(
        "LD_PRELOAD", None
    )  # loaded already; compilers that forks start could not find it
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    # Ctrl-C in a terminal reaches all processes; the referee's owner decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    modules = [importlib.import_module(role) for role in roles]
    libraries = _prepare(modules)
    serves: list[warden.Serve] = [
        functools.partial(_serve, module.serve, libraries) for module in modules
    ]
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        raise RuntimeError(
            f"expected a single thread before forking, found {threads}: a library started its own"
        )
    prefer()
    Path("/proc/self/oom_score_adj").write_text(FIRST_TO_GO)
    active = layers.Layers()
    groups = _open_groups(active)
    layers.confine_zygote(active)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # wardens are reaped by the kernel
    _forget_garbage()
    channel.send(json.dumps([active.active, active.missing]).encode())
    zygote = os.getpid()
    while True:
        message, fds = _receive(channel)
        if not message:
            return
        if os.fork() == 0:
            channel.close()
            role, *request = SPAWN.unpack(message)
            warden.run(serves[role], active, groups, warden.SpawnRequest(*request), fds, zygote)
        for each in fds:
            os.close(each)


def _forget_garbage() -> None:
    """Keep garbage collection from looking at the objects of the libraries: in each fork it would
    copy their memory, and take 150 ms whenever the fork collects (torch and Triton, H200).
    """
    gc.collect()
    gc.freeze()


def _prepare(modules: Iterable[ModuleType]) -> dict[str, bytes]:
    """Libraries that were built, by their path in Triton's cache.

    A step that fails here is repeated by each fork, which reports the reason."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        for module in modules:
            try:
                getattr(module, "prepare", lambda: None)()
            except Exception:  # noqa: BLE001 (it only saves time)
                traceback.print_exc()
        del os.environ["TRITON_CACHE_DIR"]
        return {
            str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*.so")
        }


def _serve(
    serve: warden.Serve, libraries: dict[str, bytes], channel: socket.socket, scratch: Path
) -> None:
    """Serve a role in a fork, with these libraries in its cache."""
    for name, content in libraries.items():
        path = scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    serve(channel, scratch)


def _open_groups(active: layers.Layers) -> int | None:
    """The control group below which candidates get theirs."""
    try:
        return cgroup.open_parent()
    except OSError as error:
        active.missing.append(f"control group ({error.strerror or error})")
        return None


def prefer() -> None:
    """Raise this process's priority, if allowed: waiting for a core would be measured as slowness.
    All forks inherit it, and with it the core they are bound to.
    """
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)


def _receive(channel: socket.socket) -> tuple[bytes, list[int]]:
    fds = array.array("i")
    try:
        message, ancillary, _, _ = channel.recvmsg(SPAWN.size, socket.CMSG_LEN(_FDS * fds.itemsize))
    except ConnectionResetError:  # closed with unread data
        return b"", []
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return message, list(fds)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
