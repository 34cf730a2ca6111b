"""Removal of cancelled timers from the event loop of a worker's main process."""

from __future__ import annotations

import heapq
from typing import Any

PERIOD_S = 60.0
"""Seconds between two removals."""


def forget_cancelled(timer: Any) -> None:
    """Remove cancelled entries from kombu's timer.  Called in the timer's own thread.

    Celery sets a timer for the time limit of every task and cancels it when the task ends, but the
    entry of half a kilobyte stays in the heap for LONGEST_TASK_S (app/broker.py).
    """
    queue = timer._queue
    queue[:] = [each for each in queue if not each.entry.canceled]
    heapq.heapify(queue)
