"""Timers of the worker's main process that will never fire."""

from __future__ import annotations

import heapq
from typing import Any

PERIOD_S = 60.0


def forget_cancelled(timer: Any) -> None:
    """Remove cancelled entries from kombu's timer, in its own thread.

    Celery sets a timer for the time limit of every task and cancels it when the task ends; the
    entry stays in the heap until its time, which is LONGEST_TASK_S (app/broker.py) after a task of
    a second: half a kilobyte each.
    """
    queue = timer._queue
    queue[:] = [each for each in queue if not each.entry.canceled]
    heapq.heapify(queue)
