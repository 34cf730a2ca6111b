"""Processes of this machine, as /proc lists them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from app import process_stat

WATCHDOG = "app/watchdog.py"
"""Part of the command line of a server process's watchdog."""


def children(pid: int) -> list[int]:
    """Processes that the process's threads started; none where it is gone.  Those of a thread that
    ends meanwhile are another thread's.
    """
    found: list[int] = []
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return []
    for thread in threads:
        with suppress(FileNotFoundError, ProcessLookupError):
            found += map(int, (thread / "children").read_text().split())
    return found


def descendants(pid: int) -> list[int]:
    """Children, their children, and so on."""
    return [each for child in children(pid) for each in (child, *descendants(child))]


def is_running(pid: int) -> bool:
    """Test whether the process is there and has not ended; an ended one may wait for its parent."""
    found = process_stat.fields(pid)
    return found is not None and found[process_stat.STATE] not in "ZX"


def processor_s(pid: int, *, with_ended_children: bool = False) -> float:
    """Processor seconds of a process so far: its cost, independent of other load on the machine.
    Zero where it is gone.
    """
    found = process_stat.fields(pid) or ["0"] * 15
    last = 15 if with_ended_children else 13  # utime, stime, cutime, cstime: proc(5), from field 14
    return sum(map(int, found[11:last])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Resident memory of a process (proc(5), VmRSS) in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


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
