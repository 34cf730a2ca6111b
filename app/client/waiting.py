"""ENQUEUE: jobs that a client waits for although no worker serves them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

_log = logging.getLogger(__name__)


class Waiting:
    """One wait for jobs: warns once of each device class that no worker serves, which may be
    misspelt, and names them where the wait ends in vain.
    """

    def __init__(self, jobs: int, timeout_s: float | None) -> None:
        self._jobs, self._timeout_s = jobs, timeout_s
        self._unserved: Mapping[str, int] = {}
        self._warned: set[str] = set()

    def note(self, unserved: Mapping[str, int]) -> None:
        """Take the jobs that wait for a device while no worker serves its class, by class."""
        self._unserved = unserved
        for device_class in sorted(unserved.keys() - self._warned):
            self._warned.add(device_class)
            _log.warning(
                "no worker for %r is online: %d of %d jobs wait for one",
                device_class,
                unserved[device_class],
                self._jobs,
            )

    def in_vain(self, pending: int) -> TimeoutError:
        """The error of a wait that takes too long."""
        message = f"{pending} of {self._jobs} jobs were not over after {self._timeout_s} s"
        if self._unserved:
            message += f"; no worker for {', '.join(map(repr, sorted(self._unserved)))} is online"
        return TimeoutError(message)
