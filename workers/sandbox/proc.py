"""Threads and descendants of a process, read from /proc: which exist, and whether they are stopped.

The referee checks around every call, so this makes few system calls: for a stopped process with 25
threads both checks take 0.47 ms if the files are opened each time, and 0.16 ms if they stay open.
"""

from __future__ import annotations

import os
import threading

KEPT_FILES = 128
"""Open /proc files per observed process: two per thread.  CUDA makes some 25 threads; checking a
process with more than 64 takes longer, and no more of the referee's descriptors.
"""

KEPT_IN_ALL = 512
"""Open /proc files of all processes together, well below the usual limit of 1024 descriptors."""

_count_lock = threading.Lock()
_open_files = 0

_READ_BYTES = 4096
_STOPPED_STATES = b"TtZX"
"""States of a thread that does not run: stopped, traced, dead (proc(5), stat, field 3)."""


class Threads:
    """The threads of one process.

    Up to `kept` of their files stay open.  An open file belongs to one thread for ever: after the
    thread's end its `stat` cannot be read, even if another process has its number by then.  Each
    `stat` contains the process's number of threads, so none is overlooked.
    """

    def __init__(self, pid: int, kept: int = 0) -> None:
        """Reads nothing yet."""
        self.pid = pid
        self._room = kept
        self._folders: list[str] = []
        self._kept: dict[str, int] = {}

    def is_stopped(self) -> bool:
        """Test whether every thread is stopped or dead; True for a process that has ended.

        Also False if a thread has appeared or ended since the last check, or during this
        one; the caller repeats the check.
        """
        try:
            folders = self._folders = self._folders or self._listed()
        except (FileNotFoundError, ProcessLookupError):
            return True
        count = 0
        try:
            for folder in folders:
                stat = self._read(folder + "stat")
                state = stat.rindex(b")") + 2
                if stat[state] not in _STOPPED_STATES:
                    return False
            count = int(stat[state:].split(None, 18)[17])  # field 20
        except (FileNotFoundError, ProcessLookupError):
            pass
        if count != len(folders):
            self.close()
        return count == len(folders)

    def children(self) -> list[int]:
        """Unreaped processes started by its threads: all of them, provided that
        `is_stopped` has just been true.
        """
        try:
            folders = self._folders or self._listed()
            return [
                int(child)
                for folder in folders
                for child in self._read(folder + "children").split()
            ]
        except (FileNotFoundError, ProcessLookupError):
            return []

    def close(self) -> None:
        """Close all files and forget the list of threads; both are restored by the next check."""
        for fd in self._kept.values():
            os.close(fd)
        _count(-len(self._kept))
        self._kept.clear()
        self._folders = []

    def _listed(self) -> list[str]:
        folder = f"/proc/{self.pid}/task/"
        return [f"{folder}{thread}/" for thread in os.listdir(folder)]  # noqa: PTH208 (fewer system calls)

    def _read(self, path: str) -> bytes:
        kept = self._kept.get(path)
        if kept is not None:
            return os.pread(kept, _READ_BYTES, 0)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if len(self._kept) < self._room and _count(1):
            self._kept[path] = fd
            return os.pread(fd, _READ_BYTES, 0)
        try:
            return os.read(fd, _READ_BYTES)
        finally:
            os.close(fd)


def _count(more: int) -> bool:
    """Count files that are kept open from now on (or closed, if negative); False if
    there would be too many.
    """
    global _open_files
    with _count_lock:
        if more > 0 and _open_files + more > KEPT_IN_ALL:
            return False
        _open_files += more
        return True


def is_stopped(pid: int) -> bool:
    """Test whether every thread of a process is stopped or dead."""
    return Threads(pid).is_stopped()


def tree(first: Threads) -> list[int]:
    """A process and all its descendants, the process first."""
    found, queue = [first.pid], first.children()
    while queue:
        found.append(queue.pop())
        queue += Threads(found[-1]).children()
    return found
