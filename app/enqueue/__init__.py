"""ENQUEUE: from a request to rows, then, after the commit, to messages: permissions
to claim a job.

`requests` is the way of candidates that come alone, `turns` that of answers in a trajectory,
`rollouts` that of answers that a trainer has scored; all of them store jobs by `job_rows`.
"""

from __future__ import annotations

from app.domain.request import Request, RequestError
from app.enqueue.job_rows import Receipt
from app.enqueue.requests import Within, accept, check, enqueue, retry
from app.enqueue.rollouts import enqueue_rollouts, stored_with
from app.enqueue.turns import enqueue_trajectory, enqueue_turn, stage, store

__all__ = [
    "Receipt",
    "Request",
    "RequestError",
    "Within",
    "accept",
    "check",
    "enqueue",
    "enqueue_rollouts",
    "enqueue_trajectory",
    "enqueue_turn",
    "retry",
    "stage",
    "store",
    "stored_with",
]
