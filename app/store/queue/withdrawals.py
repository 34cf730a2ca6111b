"""STORE: withdrawals of submissions, each once, though its request is sent again after a lost
answer: the second one would withdraw the submission of another client.
"""

from __future__ import annotations

from uuid import UUID

import sqlalchemy as sa

from app.domain.job import TERMINAL, JobState
from app.store import tables
from app.store.postgres import bulk
from app.store.queue import jobs
from app.store.queue.jobs import Withdrawal

_j = tables.jobs.c


def once(
    connection: sa.Connection, job_id: UUID, key_sha256: str, *, for_all: bool = False
) -> Withdrawal | None:
    """Withdraw like `jobs.withdraw`; for a key that has been used, nothing more: the state as it
    is.  None if the job does not exist.

    `key_sha256`: hash of the request's own key, kept for `app.store.queue.idempotency.KEPT_S`.
    """
    row = {"key_sha256": key_sha256, "request_sha256": key_sha256}
    known = bulk.insert_missing(connection, tables.idempotency_keys, [row], unique=("key_sha256",))
    if known[key_sha256,].added:
        return jobs.withdraw(connection, job_id, for_all=for_all)
    goes_on = sa.and_(_j.state.not_in(TERMINAL), sa.not_(_j.cancel_requested))
    others = sa.case((goes_on, _j.submissions), else_=0)
    query = sa.select(_j.state, others.label("others")).where(_j.job_id == job_id)
    found = connection.execute(query).one_or_none()
    if found is None:
        return None
    return Withdrawal(state=JobState(found.state), others=found.others)
