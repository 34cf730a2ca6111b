"""The referee's side of the zygote: starts it and has processes forked, each with its own uid."""

from __future__ import annotations

import array
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from workers.sandbox import layers, toolchain, zygote
from workers.sandbox.confined_process import ConfinedProcess
from workers.sandbox.process_errors import ZygoteError

ACCOUNT = "candidate"
"""User name shown to confined processes."""

_UIDS = 1000
"""Size of the uid pool: more than a referee has processes in flight; a uid is reused
after the end of its last owner.
"""

_PROJECT = Path(__file__).resolve().parents[2]


def import_path() -> str:
    """PYTHONPATH for a trusted process: this project, then this process's PYTHONPATH
    (packages outside the prefix).
    """
    return os.pathsep.join([str(_PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])])


def candidate_uids(pid: int, uid_map: str) -> range:
    """Uids for the processes of the referee `pid`: used by no other process of this
    host, because pids are unique.

    `uid_map`: as in user_namespaces(7).  A rootless container has only some thousands of uids;
    there they are taken from the middle, away from its accounts and `nobody`.
    """
    mapped = [(int(first), int(count)) for first, _, count in map(str.split, uid_map.splitlines())]
    first = layers.FIRST_UID + _UIDS * pid
    if any(start <= first and first + _UIDS <= start + count for start, count in mapped):
        return range(first, first + _UIDS)
    start, count = max(mapped, key=lambda span: span[1])
    return range(start + count // 2, start + count // 2 + min(_UIDS, max(1, count // 4)))


_uids: dict[int, Iterator[int]] = {}
"""Uid iterator of each process, by pid, because a fork copies this module's state."""


def next_uid() -> int:
    """A uid that none of the last thousand processes had, of any zygote: the kernel limits
    processes per uid, so one of two processes with the same uid could exhaust the other's limit.
    """
    here = os.getpid()
    if here not in _uids:
        uids = candidate_uids(here, Path("/proc/self/uid_map").read_text())
        _uids.setdefault(here, itertools.cycle(uids))
    return next(_uids[here])


class Zygote:
    """A warm process from which others are forked.  Use as a context manager."""

    def __init__(
        self, roles: tuple[str, ...], environment: dict[str, str], *, core: int = -1
    ) -> None:
        """`roles`: modules with `serve`; `environment`: all variables that the processes
        will see; `core`: core to run on.
        """
        self._roles = roles
        self._core = core
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            base = {
                **toolchain.environment(),
                "LC_ALL": "C.UTF-8",
                "PYTHONPATH": import_path(),
                "PYTHONDONTWRITEBYTECODE": "1",
                "HOME": "/tmp",
                # A uid without an account has no name, and torch's compiler needs one
                # (getpass.getuser).  It compiles in one thread, because the other cores belong to
                # timed evaluations, and without precompiled headers, which do not pay for the
                # little that a process compiles.
                **dict.fromkeys(("USER", "LOGNAME"), ACCOUNT),
                "TORCHINDUCTOR_COMPILE_THREADS": "1",
                "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
            }
            fd = theirs.fileno()
            command = [sys.executable, "-s", "-P", "-m", "workers.sandbox.zygote", str(fd), *roles]
            self._process = subprocess.Popen(
                command,
                env=base | environment,
                pass_fds=[fd],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
            )
        self._channel = ours
        self._ready = False
        self._greeted = threading.Lock()
        self.active: list[str] = []
        self.missing: list[str] = []

    @property
    def is_alive(self) -> bool:
        """True if the process has not ended."""
        return self._process.poll() is None

    def wait_ready(self) -> None:
        """Wait until it has imported its roles' modules and confined itself.  Raises
        ZygoteError.
        """
        with self._greeted:  # it greets once: of two threads that listen, one would wait for ever
            if not self._ready:
                self._listen()

    def _listen(self) -> None:
        greeting = self._channel.recv(zygote.MESSAGE_BYTES)
        if not greeting:
            code = self._process.wait()
            raise ZygoteError(
                f"the zygote ended with code {code} before it was ready; its standard error"
                " says why"
            )
        self.active, self.missing = json.loads(greeting)
        self._ready = True

    def spawn(self, role: str, *, memory_bytes: int, cpu_s: int) -> ConfinedProcess:
        """Fork a process that serves `role`.  Returns at once; the first request waits
        until the process is confined.
        """
        self.wait_ready()
        channel, their_channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        notes, their_notes = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stdout, their_stdout = os.pipe()
        fds = array.array("i", [their_channel.fileno(), their_stdout, their_notes.fileno()])
        message = zygote.SPAWN.pack(
            self._roles.index(role), next_uid(), memory_bytes, cpu_s, self._core
        )
        try:
            self._channel.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        except OSError as error:
            channel.close()
            notes.close()
            os.close(stdout)
            raise ZygoteError(f"the zygote is gone: {error}") from error
        finally:
            their_channel.close()
            their_notes.close()
            os.close(their_stdout)
        return ConfinedProcess(channel, notes, stdout)

    def close(self) -> None:
        """End the zygote; all its forks die with it."""
        self._channel.close()
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
