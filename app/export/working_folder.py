"""EXPORT: the folder that a dataset is made in, beside its target: for one process, and gone
after an error other than PostgreSQL's absence.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from app.store.postgres.database import DatabaseUnavailableError

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of the errors of a disk without room."""


class ExportError(ValueError):
    """No dataset was made, and no folder is left."""


class OtherWriterError(ExportError):
    """Another process is writing the folder."""


class NoRoomError(RuntimeError):
    """The disk of the dataset is full; no folder is left, and the same call works
    once there is room.
    """


@contextmanager
def folder(out: Path) -> Iterator[Path]:
    """The folder that `out` is made in, alone; left where this process is killed or
    interrupted, or PostgreSQL goes away, so that the same call goes on; not after another error.

    Raises ExportError where the target is taken, NoRoomError where its disk is full.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ExportError(
            f"{out}: expected no such folder or an empty one; datasets are never written over"
        )
    root = out.parent / f".{out.name}.unfinished"
    lock = _opened(root, out)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OtherWriterError(f"{out}: another export is writing it") from None
        try:
            with _room(out):
                yield root
        except DatabaseUnavailableError:
            raise
        except Exception:
            shutil.rmtree(root)
            raise
    finally:
        os.close(lock)


def _opened(root: Path, out: Path) -> int:
    """Descriptor of the lock of the unfinished folder, which is made."""
    try:
        with _room(out):
            root.mkdir(parents=True, exist_ok=True)
            return os.open(root / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except NoRoomError:
        with suppress(OSError):  # it holds the work of an interrupted export, or was not made
            root.rmdir()
        raise


@contextmanager
def _room(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise NoRoomError(
            f"{out}: no room left on its disk, and nothing is left of the dataset"
        ) from error
