"""Processes of this machine, as /proc lists them."""

from __future__ import annotations

from pathlib import Path

WATCHDOG = "app/watchdog.py"
"""Part of the command line of a server process's watchdog."""


def children(pid: int) -> list[int]:
    """Processes that the process started; none where it is gone."""
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except (FileNotFoundError, ProcessLookupError):
        return []


def descendants(pid: int) -> list[int]:
    """Children, their children, and so on."""
    return [each for child in children(pid) for each in (child, *descendants(child))]


def command_line(pid: int) -> str:
    """The process's arguments, separated by spaces; empty where it is gone."""
    try:
        return (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
    except (FileNotFoundError, ProcessLookupError):
        return ""


def pool_processes(worker: int) -> list[int]:
    """Pool processes of a worker; its watchdog is none."""
    return [pid for pid in children(worker) if WATCHDOG not in command_line(pid)]
