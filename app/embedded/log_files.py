"""Log files of processes that hold them open: kept below a size without the processes' help."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

MOST_BYTES = 64 << 20
"""A log file that is longer becomes NAME.log.1, in place of the one before: twice
this is the most of each process.
"""


def rotate(folder: Path, most_bytes: int = MOST_BYTES) -> None:
    """Copy each log file that is too long, and empty it.

    Every writer appends (O_APPEND), so that its next line is the first one of the emptied file.  A
    line that is written between the copy and the emptying is lost.
    """
    for path in folder.glob("*.log"):
        if path.stat().st_size > most_bytes:
            older = path.with_name(f"{path.name}.1")
            try:
                shutil.copyfile(path, older)
            except OSError:  # no room for a copy: drop the older log instead
                older.unlink(missing_ok=True)
            os.truncate(path, 0)
