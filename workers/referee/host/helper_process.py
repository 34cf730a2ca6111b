"""Helpers of the referee that are processes of their own, trusted like it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from workers.sandbox.zygote_client import import_path


def start(
    module: str, *arguments: object, pass_fds: Sequence[int] = (), stdout: int | None = None
) -> subprocess.Popen[bytes]:
    """Start a module of this project in a session of its own.  Of this process's environment it has
    the import path alone.  `pass_fds`, `stdout`: see subprocess.Popen.
    """
    return subprocess.Popen(
        [sys.executable, "-s", "-P", "-m", module, *map(str, arguments)],
        env={"PYTHONPATH": import_path(), "PATH": "/usr/bin:/bin"},
        pass_fds=pass_fds,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        cwd="/",
        start_new_session=True,
    )
