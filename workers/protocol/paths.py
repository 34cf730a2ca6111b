"""Paths shared by the processes of a host that use one device: its locks, claimed
cores, and the referee's socket.
"""

from __future__ import annotations

import os
from pathlib import Path

LOCK_FOLDER = Path(f"/var/tmp/assay-leases-{os.getuid()}")  # noqa: S108 (mode 0700; locks and sockets)


def referee_address(device_class: str, index: int) -> Path:
    """Socket of a device's referee that several processes share."""
    return LOCK_FOLDER / f"{device_class}-{index}.referee"
