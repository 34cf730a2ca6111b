"""Who may use the device: many that load and check, or one that times.

A lease is a file that whoever uses the device locks (flock), the evaluations of one referee and those of others alike;
the kernel lets go when the holder dies.  A second file is the turnstile in which a waiting timer stands, so that
checkers arriving later cannot starve it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Lease:
    """Of one device, for any number of threads: each holder opens the files anew, and a lock belongs to what was
    opened."""

    def __init__(self, folder: Path, device_id: str) -> None:
        """`folder`: where all referees of this host look."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._device = folder / f"{device_id}.lease"
        self._turnstile = folder / f"{device_id}.turnstile"

    @contextmanager
    def shared(self) -> Iterator[None]:
        """While checking: together with others that check, never while somebody times."""
        with _locked(self._turnstile, fcntl.LOCK_SH) as turnstile, _locked(self._device, fcntl.LOCK_SH):
            _let_go(turnstile)
            yield

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """While timing: alone."""
        with _locked(self._turnstile, fcntl.LOCK_EX) as turnstile, _locked(self._device, fcntl.LOCK_EX):
            _let_go(turnstile)
            yield


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, kind)
        yield fd
    finally:
        os.close(fd)  # and with it the lock


def _let_go(fd: int) -> None:
    fcntl.flock(fd, fcntl.LOCK_UN)
