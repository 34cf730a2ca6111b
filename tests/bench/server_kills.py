"""Ends of Redis and PostgreSQL by SIGKILL, and their restart."""

from __future__ import annotations

import os
import shutil
import signal
import time
from dataclasses import replace

from app.embedded import Services, process_lookup
from app.settings import Settings

SERVERS = {
    "redis": ("redis", "valkey.pid"),
    "postgres": ("postgres/data", "postmaster.pid"),
}
"""Folder of a server's data below that of the state, and the file with its process id."""

ENDED_S = 30.0
"""Longest time in seconds until all processes of a killed server have ended."""


def kill_server(
    settings: Settings, name: str, *, wipes: bool = False, pause_s: float = 0.0
) -> bool:
    """Kill a server and start it again after `pause_s`; False if it was not there.  `wipes`: Redis
    loses its data.
    """
    folder, pid_file = SERVERS[name]
    home = settings.state_dir / folder
    if not kill(process_lookup.alive_in(home, home / pid_file)):
        return False
    time.sleep(pause_s)
    process_lookup.wait_until_unused(home, ENDED_S)
    if wipes:
        shutil.rmtree(home / "appendonlydir")
    with Services(replace(settings, database_url=None, broker_url=None)):
        pass  # it stays: this process has the services open
    return True


def kill(pid: int | None) -> bool:
    """Kill a process; True if there was one."""
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
