"""A disk of a few megabytes that tests fill up: a tmpfs, mounted for one test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from workers.sandbox import syscalls

_CHUNK = b"\0" * (1 << 16)


@contextmanager
def mounted(folder: Path, megabytes: int) -> Iterator[Path]:
    """That folder as a disk of its own.  Skips the test where mounts are not allowed."""
    folder.mkdir()
    try:
        syscalls.mount("tmpfs", folder, "tmpfs", 0, f"size={megabytes}m,mode=0711")
    except OSError as error:
        pytest.skip(f"no mounts here: {error}")
    try:
        yield folder
    finally:
        syscalls.unmount(folder)


def fill(disk: Path, *, spare_bytes: int = 0) -> Path:
    """A file that leaves no room on the disk but `spare_bytes`."""
    path = disk / "fill"
    with path.open("wb", buffering=0) as file:
        with suppress(OSError):
            while True:
                file.write(_CHUNK)
        if spare_bytes:
            file.truncate(max(0, os.fstat(file.fileno()).st_size - spare_bytes))
    free = os.statvfs(disk)
    assert free.f_bavail * free.f_frsize <= spare_bytes + len(_CHUNK)
    return path
