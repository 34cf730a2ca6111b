"""Identifiers, made in Python so that the schema needs no particular PostgreSQL version."""

from __future__ import annotations

import hashlib
import os
import threading
import time
import uuid

_RANDOM_BITS = 74
_STEP_BITS = 48
"""Random bits by which an id exceeds one of the same millisecond: no two processes
guess the same.
"""

_lock = threading.Lock()
_last = 0


def new_id() -> uuid.UUID:
    """A version-7 UUID: 48 bits of milliseconds, then 74 random bits (RFC 9562
    §5.7), so that ids sort by age.

    Those of one process do so strictly: within a millisecond each exceeds the one
    before (§6.2, method 2).
    """
    global _last
    now = (time.time_ns() // 1_000_000) << _RANDOM_BITS | int.from_bytes(
        os.urandom(9)
    )  # its top two bits free
    with _lock:
        _last = max(now, _last + 1 + int.from_bytes(os.urandom(_STEP_BITS // 8)))
        value = _last
    milliseconds, high, low = value >> _RANDOM_BITS, value >> 62 & 0xFFF, value & (1 << 62) - 1
    return uuid.UUID(int=milliseconds << 80 | 0x7 << 76 | high << 64 | 0x2 << 62 | low)


def sha256(data: bytes) -> str:
    """Hexadecimal SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()
