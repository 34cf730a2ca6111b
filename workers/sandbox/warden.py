"""The warden: a trusted supervisor between the zygote and each candidate.

It makes the candidate's process namespace, control group and scratch folder, reports its pid
and its end, and then removes its remains.  It contains no code of the candidate, and cleans
up even if the zygote has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from workers.sandbox import cgroup, layers, syscalls

NOTE = struct.Struct("<Ii")
"""Header of a note on the warden's channel, followed by text: kind, number."""

NOTE_READY, NOTE_PID, NOTE_ENDED, NOTE_FAILED = 1, 2, 3, 4
"""READY: text is the layers as JSON.  PID: number is the candidate's pid.  ENDED: number is its
wait status, and text is OUT_OF_MEMORY if the kernel ended it for that.  FAILED: text says why the
candidate could not be confined.
"""

OUT_OF_MEMORY = b"out of memory"

Serve = Callable[[socket.socket, Path], None]
"""A role module's `serve`: answers commands on the channel until it closes."""


@dataclass(frozen=True)
class SpawnRequest:
    """Parameters of a request to the zygote, in addition to the role."""

    uid: int
    memory_bytes: int
    """Address space of each process; 0 for unlimited."""
    cpu_s: int
    core: int
    """Core on which the candidate runs; −1: any."""

    @property
    def tree_bytes(self) -> int:
        """Limit for the memory of all processes together, including files in their scratch folders.
        Address space that CUDA only reserves does not count, so this limit always exists.
        """
        own = self.memory_bytes or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4
        return own + 2 * layers.SCRATCH_BYTES


@dataclass(frozen=True)
class Confinement:
    """Resources prepared for a candidate before its fork."""

    active: layers.Layers
    request: SpawnRequest
    scratch: Path
    group: cgroup.Group | None


Ends = tuple[int, int, socket.socket]
"""The candidate's channel and standard output, and the warden's channel."""


def run(
    serve: Serve,
    active: layers.Layers,
    groups: int | None,
    request: SpawnRequest,
    fds: list[int],
    zygote: int,
) -> NoReturn:
    """Fork the candidate, wait for its end, remove its remains.  `groups`: parent of
    its control group.
    """
    channel, stdout, notes = fds
    note = socket.socket(fileno=notes)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    try:
        confinement = _prepare(active, groups, request)
        pid = _fork(confinement, serve, (channel, stdout, note), zygote)
    except OSError as error:
        note.send(NOTE.pack(NOTE_FAILED, 0) + str(error).encode())
        os._exit(1)
    os.close(channel)
    os.close(stdout)
    with contextlib.suppress(
        BrokenPipeError, ConnectionResetError
    ):  # the referee is gone, or has killed it
        note.send(NOTE.pack(NOTE_PID, pid))
    _, status = os.waitpid(pid, 0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    text = _kill_remains(confinement)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        note.send(NOTE.pack(NOTE_ENDED, status) + text)
    if confinement.group is not None:
        confinement.group.remove()
    layers.remove_scratch(active, confinement.scratch)
    os._exit(0)


def _prepare(active: layers.Layers, groups: int | None, request: SpawnRequest) -> Confinement:
    """Prepare the candidate's resources.  Raises OSError if its orphans could not be reaped."""
    layers.enter_process_namespace(active)
    if "process namespace" not in active.active and not Path("/proc/self").exists():
        raise OSError(
            "no process namespace, and no /proc in which to find a candidate's remaining processes"
        )
    group = None
    if groups is not None:
        group = cgroup.Group(
            groups, memory_bytes=request.tree_bytes, processes=layers.MAX_PROCESSES
        )
        active.active.append("control group")
    return Confinement(active, request, layers.make_scratch(active), group)


def _fork(confinement: Confinement, serve: Serve, ends: Ends, zygote: int) -> int:
    """Fork the candidate; returns its pid.  From here on the zygote's end does not kill the warden,
    which then ends the candidate.
    """
    pids: list[int] = []

    def end(*_: object) -> None:
        if not pids:
            os._exit(1)
        with contextlib.suppress(ProcessLookupError):  # reaped a moment ago
            os.kill(pids[0], signal.SIGKILL)

    signal.signal(signal.SIGTERM, end)
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != zygote:  # the zygote died before prctl took effect
        os._exit(1)
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _candidate(confinement, serve, ends)
    pids.append(pid)
    return pid


def _kill_remains(confinement: Confinement) -> bytes:
    """Kill the processes that the candidate has left running; returns the text of NOTE_ENDED."""
    if confinement.group is not None:
        confinement.group.kill()
    if "process namespace" not in confinement.active.active:
        _kill_orphans()
    return (
        OUT_OF_MEMORY
        if confinement.group is not None and confinement.group.out_of_memory()
        else b""
    )


def _kill_orphans() -> None:
    """Without a process namespace: kill all processes that the candidate started, which are this
    process's children now, until none is left.
    """
    while True:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
        for pid in map(int, children.split()):
            os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _candidate(confinement: Confinement, serve: Serve, ends: Ends) -> NoReturn:
    """Confine this process, report the layers, close the warden's channel, and only then serve."""
    channel, stdout, note = ends
    request, active = confinement.request, confinement.active
    cpus = (request.core,) if request.core >= 0 else ()
    limits = layers.Limits(
        memory_bytes=request.memory_bytes,
        data_bytes=request.tree_bytes,
        cpu_s=request.cpu_s,
        cpus=cpus,
    )
    try:
        if confinement.group is not None:
            confinement.group.enter()
        layers.confine_candidate(active, limits, request.uid, confinement.scratch)
    except OSError as error:
        note.send(NOTE.pack(NOTE_FAILED, 0) + str(error).encode())
        os._exit(1)
    note.send(NOTE.pack(NOTE_READY, 0) + json.dumps([active.active, active.missing]).encode())
    note.close()
    os.dup2(stdout, 1)
    os.dup2(stdout, 2)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(channel, 3)
    os.closerange(4, limits.open_files)
    _enter_scratch(confinement.scratch)
    serve(socket.socket(fileno=3), confinement.scratch)
    os._exit(0)  # not sys.exit: a forked interpreter prints many errors when it shuts down


def _enter_scratch(scratch: Path) -> None:
    """Point every cache at the scratch folder; the environment holds only variables set here."""
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
