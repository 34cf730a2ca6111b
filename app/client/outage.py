"""ENQUEUE: how long a server may stay away before a client gives it up."""

from __future__ import annotations

import time

from app.client.transport import PATIENCE_S


class Outage:
    """Clock of a server's absence: a restart is waited out; a server that has never answered, or
    that stays away for longer, is given up.  Safe for threads.

    The absence begins with the first failed call after an answer, however long ago the answer was.
    """

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        """`patience_s`: longest absence that is waited out, in seconds."""
        self._patience_s = patience_s
        self._has_answered = False
        self._failing_since_s: float | None = None
        """Time (time.monotonic) of the first failed call; None where the last one was answered."""

    def end(self) -> None:
        """The server has answered."""
        self._has_answered = True
        self._failing_since_s = None

    def may_pass(self) -> bool:
        """Return whether a call that has just failed is to be tried again."""
        now_s, since_s = time.monotonic(), self._failing_since_s
        if since_s is None:
            since_s = self._failing_since_s = now_s
        return self._has_answered and now_s - since_s <= self._patience_s
