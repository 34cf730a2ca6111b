"""COLLECT: a scripted server in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.endpoints.scripted import behaviour as behaviours
from app.endpoints.scripted import script as scripts
from app.endpoints.scripted.behaviour import Behaviour
from app.endpoints.scripted.script import Script


@contextmanager
def running(script: Script, behaviour: Behaviour | None = None, *, port: int = 0) -> Iterator[str]:
    """The base address of a server that runs while the context is open; `port` 0: any free one."""
    with tempfile.TemporaryDirectory(prefix="assay-scripted-") as folder:
        path = Path(folder) / "script.json"
        path.write_text(scripts.written(script))
        command = [
            sys.executable,
            "-m",
            "app.endpoints.scripted",
            str(path),
            behaviours.written(behaviour or Behaviour()),
            str(port),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                address = server.stdout.readline().strip()
                if not address:
                    raise RuntimeError(f"scripted server: ended with code {server.wait()}")
                yield address
            finally:
                server.terminate()
