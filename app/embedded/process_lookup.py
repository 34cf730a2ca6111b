"""Processes of servers: found by the folder they work in and the program they run, so that a pid
file of a dead run deceives no reader, and one that is gone hides no process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from app import process_stat

POLL_S = 0.02
"""Seconds between two looks at a process that is to end."""

_children: list[subprocess.Popen[bytes]] = []
"""Servers that this process started: kept, because they may outlive the object that
started them.
"""


class ServerError(RuntimeError):
    """A server did not start or did not stop; the message ends with the last lines of its log."""


PROGRAMS = ("postgres", "valkey-server", "redis-server", "redis-check-rdb")
"""Programs that may be asked to end; Debian's redis-server is a link to the last."""


def alive_in(folder: Path, pid_file: Path) -> int | None:
    """The pid that the file names, if that process exists, is a server, and works in
    `folder` as both do.
    """
    try:
        pid = int(pid_file.read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return None
    return pid if _serves(pid, folder) else None


def serving(folder: Path, pid_file: Path) -> int | None:
    """The server that runs in `folder`, found without its pid file: started by a
    process that no longer works there.
    """
    named = alive_in(folder, pid_file)
    if named is not None:
        return named
    found = [pid for pid in _pids() if _serves(pid, folder)]
    return next((pid for pid in found if _parent(pid) not in found), None)


def adopt(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """Remember a server, so that it is reaped when it has been stopped."""
    _children.append(process)
    return process


def wait_until_unused(folder: Path, timeout_s: float) -> None:
    """Wait until no process works in `folder`: after a SIGKILL of PostgreSQL its
    children take a moment to notice.
    """
    deadline = time.monotonic() + timeout_s
    while users := [pid for pid in _pids() if _works_in(pid, folder)]:
        if time.monotonic() > deadline:
            raise ServerError(
                f"{folder}: expected no process to use it, found {users} without a valid pid file"
            )
        time.sleep(POLL_S)


def wait_until(
    ready: Callable[[], bool],
    process: subprocess.Popen[bytes],
    *,
    name: str,
    log: Path,
    timeout_s: float,
) -> None:
    """Wait until the server says that it is ready.  Raises ServerError where it
    exits or takes too long.
    """
    deadline = time.monotonic() + timeout_s
    while not ready():
        if process.poll() is not None:
            raise ServerError(
                f"{name} exited with {process.returncode} at its start; {log} ends:\n{_tail(log)}"
            )
        if time.monotonic() > deadline:
            process.kill()
            process.wait()
            raise ServerError(
                f"{name} was not ready after {timeout_s} s; {log} ends:\n{_tail(log)}"
            )
        time.sleep(POLL_S)


def stop(pid: int, folder: Path, number: signal.Signals, *, name: str, timeout_s: float) -> None:
    """Ask the server to end and wait until it has: also if it has no parent here.

    The pid is looked at again just before, and its process is held meanwhile: no
    other program gets the signal.
    """
    try:
        held = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if not _serves(pid, folder):
            return
        signal.pidfd_send_signal(held, number)
    except ProcessLookupError:
        return
    finally:
        os.close(held)
    deadline = time.monotonic() + timeout_s
    while _works_in(pid, folder):
        if time.monotonic() > deadline:
            raise ServerError(
                f"{name} (pid {pid}) was still there {timeout_s} s after {number.name}"
            )
        time.sleep(POLL_S)
    _children[:] = [child for child in _children if child.poll() is None]


def _works_in(pid: int, folder: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == folder.resolve()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False  # gone, a zombie, or another user's


def _serves(pid: int, folder: Path) -> bool:
    """Return whether a process works in the folder and is one of the programs started by Assay."""
    try:
        program = Path(f"/proc/{pid}/exe").readlink().name
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False
    return program.removesuffix(" (deleted)") in PROGRAMS and _works_in(pid, folder)


def _parent(pid: int) -> int | None:
    found = process_stat.fields(pid)
    return None if found is None else int(found[process_stat.PARENT])


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _tail(log: Path, lines: int = 12) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
