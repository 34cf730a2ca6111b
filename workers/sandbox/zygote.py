"""The zygote: imports what candidates need once, confines itself, and forks a warden with a candidate on request.

Started as `python -m workers.sandbox.zygote FD ROLE…` with a clean environment by spawn.Zygote.  It never runs other
people's code itself and never computes with torch: a parent that has used OpenMP makes its forks hang."""

from __future__ import annotations

import array
import contextlib
import importlib
import json
import os
import signal
import socket
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from workers.sandbox import layers, linux

SPAWN = struct.Struct("<IIQQi")
"""role index, uid, memory bytes, CPU seconds, core (−1: any)."""

NOTE = struct.Struct("<Ii")
"""What the warden's channel carries, followed by text: kind, number."""

NOTE_READY, NOTE_PID, NOTE_ENDED, NOTE_FAILED = 1, 2, 3, 4
"""READY: text is the layers as JSON.  PID: number is the candidate's pid.  ENDED: number is its wait status.
FAILED: text says why the candidate could not be confined."""

PRIORITY = -15
"""Nice value of measured processes."""

_FDS = 3  # the candidate's channel, its standard output, the warden's channel
MESSAGE_BYTES = 64 << 10

Serve = Callable[[socket.socket, Path], None]
"""What a role's module offers as `serve`: answer commands on the channel until it closes."""


def main(fd: int, roles: list[str]) -> None:
    """Import the roles' modules, confine, say so on the channel, then fork on request until the channel closes."""
    channel = socket.socket(fileno=fd)
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    serves: list[Serve] = [importlib.import_module(role).serve for role in roles]
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        raise RuntimeError(f"expected a single thread before forking, found {threads}: a library started its own")
    prefer()
    active = layers.confine_zygote()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # wardens are reaped by the kernel
    channel.send(json.dumps([active.active, active.missing]).encode())
    while True:
        message, fds = _receive(channel)
        if not message:
            return
        if os.fork() == 0:
            channel.close()
            _warden(serves, active, message, fds)
        for each in fds:
            os.close(each)


def prefer() -> None:
    """Ahead of the host's ordinary work, where that is allowed: what waits for a core is measured as slow.  All forks
    inherit it, and with it the one core they are bound to."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)


def _receive(channel: socket.socket) -> tuple[bytes, list[int]]:
    fds = array.array("i")
    try:
        message, ancillary, _, _ = channel.recvmsg(SPAWN.size, socket.CMSG_LEN(_FDS * fds.itemsize))
    except ConnectionResetError:  # closed with something unread: as good as closed
        return b"", []
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return message, list(fds)


def _warden(serves: list[Serve], active: layers.Layers, message: bytes, fds: list[int]) -> NoReturn:
    """Fork the candidate into its own process namespace, report its pid, wait for its end, bury what is left."""
    role, uid, memory_bytes, cpu_s, core = SPAWN.unpack(message)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    channel, stdout, notes = fds
    warden = socket.socket(fileno=notes)
    layers.enter_process_namespace(active)
    limits = layers.Limits(memory_bytes=memory_bytes, cpu_s=cpu_s, cpus=(core,) if core >= 0 else ())
    pid = os.fork()
    if pid == 0:
        _candidate(serves[role], active, limits, uid, channel, stdout, warden)
    os.close(channel)
    os.close(stdout)
    warden.send(NOTE.pack(NOTE_PID, pid))
    _, status = os.waitpid(pid, 0)
    _bury_orphans()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the referee killed it and no longer listens
        warden.send(NOTE.pack(NOTE_ENDED, status))
    os._exit(0)


def _bury_orphans() -> None:
    """Without a process namespace, whatever the candidate started is ours now: kill it until nothing is left."""
    while True:
        children = Path(f"/proc/self/task/{os.getpid()}/children")
        try:
            left = [int(pid) for pid in children.read_text().split()]
        except FileNotFoundError:  # a private root without /proc: the namespace has already done the killing
            return
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _candidate(
    serve: Serve,
    active: layers.Layers,
    limits: layers.Limits,
    uid: int,
    channel: int,
    stdout: int,
    warden: socket.socket,
) -> NoReturn:
    """Confine this process, report the layers, drop the warden's channel, and only then serve."""
    try:
        scratch = layers.confine_candidate(active, limits, uid)
    except OSError as error:
        warden.send(NOTE.pack(NOTE_FAILED, 0) + str(error).encode())
        os._exit(1)
    warden.send(NOTE.pack(NOTE_READY, 0) + json.dumps([active.active, active.missing]).encode())
    warden.close()
    os.dup2(stdout, 1)
    os.dup2(stdout, 2)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(channel, 3)
    os.closerange(4, limits.open_files)
    _enter_scratch(scratch)
    serve(socket.socket(fileno=3), scratch)
    os._exit(0)  # not sys.exit: interpreters forked from a warm one complain at length when they tear down


def _enter_scratch(scratch: Path) -> None:
    """Point every cache at the scratch folder; the environment holds nothing else than what was chosen here."""
    caches = (
        "HOME",
        "TMPDIR",
        "TRITON_CACHE_DIR",
        "TORCH_EXTENSIONS_DIR",
        "TORCHINDUCTOR_CACHE_DIR",
        "CUDA_CACHE_PATH",
    )
    os.environ.update(dict.fromkeys(caches, str(scratch)))
    tempfile.tempdir = None
    sys.path.insert(0, str(scratch))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
