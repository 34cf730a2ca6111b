"""BROWSE: backpressure: 429 when a queue is full; queue position and ETA in the answer."""

from __future__ import annotations

import math
import time
from typing import Any

import flask

from app.domain.request import PRIORITIES, Request
from app.store.queue import queue_depth
from app.web import request_context
from app.web.api.endpoint import refuse

LINE_S = 1.0
"""Seconds for which a queue's cached length is used."""
PATIENCE_S = (1, 60)
"""Least and most for Retry-After, in seconds."""


def check(device_class: str) -> None:
    """End the request with 429 where as much waits for that class as may."""
    waiting, most = _line(device_class), request_context.settings().max_queued
    if waiting.total < most:
        return
    least_s, most_s = PATIENCE_S
    after_s = math.ceil((waiting.total - most + 1) / waiting.per_s) if waiting.per_s else most_s
    refuse(
        429,
        "too_many_requests",
        f"expected fewer than {most} jobs that wait for {device_class!r}, got {waiting.total}",
        retry_after_s=max(least_s, min(most_s, after_s)),
    )


def place(request: Request) -> dict[str, Any]:
    """Jobs that are served before this one, about (those of at least its priority), the
    seconds that it takes, and whether any device takes jobs of its class now: while
    none does, no time can be told.
    """
    waiting = _line(request.device_class)
    ahead = PRIORITIES[: [str(each) for each in PRIORITIES].index(request.priority) + 1]
    position = sum(waiting.queued.get(priority, 0) for priority in ahead)
    eta_s = (position + 1) / waiting.per_s if waiting.per_s and waiting.online else None
    return {"position": position, "eta_s": eta_s, "served": waiting.online > 0}


def _line(device_class: str) -> queue_depth.QueueDepth:
    known: dict[str, tuple[float, queue_depth.QueueDepth]] = flask.current_app.extensions[
        "assay"
    ].setdefault("lines", {})
    now = time.monotonic()
    if device_class not in known or now - known[device_class][0] > LINE_S:
        with request_context.database().read() as connection:
            known[device_class] = now, queue_depth.look(connection, device_class)
    return known[device_class][1]
