"""Folders for the servers that a bench starts."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def state_folder(kept: Path | None = None) -> Iterator[Path]:
    """A folder on the disk that processes of other users can pass through: `kept`, or a new one
    that is removed at the end.
    """
    folder = kept or Path(tempfile.mkdtemp(prefix="assay-bench-", dir="/var/tmp"))
    folder.mkdir(exist_ok=True)
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        if kept is None:
            shutil.rmtree(folder)
