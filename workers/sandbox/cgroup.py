"""Control groups (version 2): limits for a candidate with everything it starts, and
a way to kill all of it.

Groups are made only if this process may: below its own group if that delegates memory and pids,
or in a group that systemd has delegated (Delegate=yes; systemd marks it with an extended
attribute).  Elsewhere, above all in a container, where /sys/fs/cgroup is read-only, the limits
per process and those of the container apply.

The zygote opens its group before it loses access to /sys; its forks make theirs
through that descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from pathlib import Path

CONTROLLERS = {"memory", "pids"}
_PREFIX = "assay-"
_HOST = "assay"
"""Group for the processes of a delegated group, which may hold none itself if it
limits its children (cgroups(7)).
"""

REMOVE_TIMEOUT_S = 1.0
"""Seconds for the kernel to tear down a group's last process, after which the group
can be removed.
"""


class Group:
    """Control group of one candidate.  Its warden creates and removes it; the
    candidate enters it.
    """

    def __init__(self, parent: int, *, memory_bytes: int, processes: int) -> None:
        """Creates it below the open folder `parent`, with its limits.  Raises OSError."""
        self._parent = parent
        self._name = f"candidate-{os.getpid()}"
        os.mkdir(self._name, dir_fd=parent)
        self._fd = os.open(self._name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=parent)
        self._write("memory.max", str(memory_bytes))
        self._write("memory.oom.group", "1")  # a group out of memory is killed as a whole
        with contextlib.suppress(FileNotFoundError):  # kernels that do not account for swap
            self._write("memory.swap.max", "0")
        self._write("pids.max", str(processes))

    def _write(self, name: str, value: str) -> None:
        fd = os.open(name, os.O_WRONLY, dir_fd=self._fd)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)

    def enter(self) -> None:
        """Move this process into the group.  Raises OSError."""
        self._write("cgroup.procs", "0")

    def out_of_memory(self) -> bool:
        """Test whether the kernel killed a process of the group for lack of memory."""
        fd = os.open("memory.events", os.O_RDONLY, dir_fd=self._fd)
        try:
            events = dict(line.split() for line in os.read(fd, 4096).decode().splitlines())
        finally:
            os.close(fd)
        return events["oom_kill"] != "0"

    def kill(self) -> None:
        """Kill every process in the group, whatever its parent."""
        with contextlib.suppress(FileNotFoundError):  # before Linux 5.14
            self._write("cgroup.kill", "1")

    def remove(self) -> None:
        """Remove the group once it is empty.  A group that the kernel holds for too
        long is left to the next start.
        """
        os.close(self._fd)
        deadline = time.monotonic() + REMOVE_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                os.rmdir(self._name, dir_fd=self._parent)
            except OSError as error:
                if error.errno != errno.EBUSY:
                    raise
                time.sleep(0.001)
                continue
            return


def open_parent() -> int:
    """A new group of this process, below which candidates' groups can be made, as an open folder.

    Raises OSError if no group may be made."""
    base = _delegated(own_folder())
    for left in base.glob(f"{_PREFIX}[0-9]*"):
        if not Path("/proc", left.name.removeprefix(_PREFIX)).exists():
            remove(left)
    folder = base / f"{_PREFIX}{os.getpid()}"
    folder.mkdir()
    (folder / "cgroup.subtree_control").write_text("+memory +pids")
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def remove(folder: Path) -> None:
    """Remove a parent group and the groups below it, unless a process still runs in them."""
    for group in [*folder.glob("candidate-*"), folder]:
        with contextlib.suppress(OSError):
            group.rmdir()


def own_folder(proc: Path = Path("/proc/self")) -> Path:
    """Folder of this process's group.  Raises OSError if there is no hierarchy of version 2."""
    for line in (proc / "mountinfo").read_text().splitlines():
        fields, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 "):
            root, mounted = fields.split()[3:5]
            break
    else:
        raise OSError(errno.ENOTSUP, "no control groups of version 2 are mounted")
    ours = next(
        line[3:] for line in (proc / "cgroup").read_text().splitlines() if line.startswith("0::")
    )
    return Path(mounted) / Path(ours).relative_to(root)


def _delegated(own: Path) -> Path:
    """The group below which this process may make others."""
    if _handed_on(own) >= CONTROLLERS and os.access(own, os.W_OK):
        return own
    for group in (own, own.parent):
        if (
            _is_delegated(group)
            and set((group / "cgroup.controllers").read_text().split()) >= CONTROLLERS
        ):
            if group == own:
                _make_room(own)
            (group / "cgroup.subtree_control").write_text("+memory +pids")
            return group
    raise OSError(errno.ENOTSUP, "no group was delegated to this process")


def _handed_on(group: Path) -> set[str]:
    return set((group / "cgroup.subtree_control").read_text().split())


def _is_delegated(group: Path) -> bool:
    try:
        marks = os.listxattr(group)
    except OSError:
        return False
    return bool({"user.delegate", "trusted.delegate"} & set(marks)) and os.access(group, os.W_OK)


def _make_room(group: Path) -> None:
    """Move the processes of a delegated group into a group below it."""
    host = group / _HOST
    host.mkdir(exist_ok=True)
    for pid in (group / "cgroup.procs").read_text().split():
        with contextlib.suppress(ProcessLookupError):  # the process has ended
            (host / "cgroup.procs").write_text(pid)
