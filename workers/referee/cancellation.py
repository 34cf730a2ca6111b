"""Cancellation of an evaluation from another thread: its candidate is killed, and no
further request is sent to it.
"""

from __future__ import annotations

import threading

from workers.sandbox.confined_process import ConfinedProcess


class Cancellation:
    """Cancellation of one evaluation: requested in one thread, obeyed in another."""

    def __init__(self) -> None:
        """A cancellation that has not been requested."""
        self._lock = threading.Lock()
        self._process: ConfinedProcess | None = None
        self.requested = False
        self.more_s = 0.0
        """Seconds that the evaluation may take beyond the job's deadline, because
        the problem has many cases.
        """

    def set_process(self, process: ConfinedProcess | None) -> None:
        """Set the process that a cancellation kills; None once that process is no longer needed."""
        with self._lock:
            self._process = process
            if self.requested and process is not None:
                process.start_kill()

    def request(self) -> None:
        """Request the cancellation and kill the process."""
        with self._lock:
            self.requested = True
            if self._process is not None:
                self._process.start_kill()
