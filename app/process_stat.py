"""Fields of /proc/PID/stat."""

from __future__ import annotations

from pathlib import Path

STATE, PARENT, STARTED = 0, 1, 19
"""Places of fields in the result: state, the parent's pid, and the start time in clock ticks
(proc(5), fields 3, 4 and 22).
"""


def fields(pid: int) -> list[str] | None:
    """The fields after the program's name; None if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
