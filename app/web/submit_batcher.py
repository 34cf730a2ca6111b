"""BROWSE: requests that arrive at the same time are stored in one transaction and
sent in one pipeline.

A submission alone costs a dozen round trips to PostgreSQL and Redis; so does a
thousand.  The thread that gets the turn takes along the submissions of all others that
came during the turn before: no submission waits longer than for two such turns, and one
web process takes some thousand a second.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from celery import Celery

from app import enqueue
from app.domain.request import Request, ServiceUnavailableError
from app.domain.trajectory import Run
from app.enqueue import Receipt, Within
from app.store.postgres.database import Connection, Database
from app.store.queue import kernelgym
from app.store.queue.kernelgym import Task

MOST = 1_000
"""Requests in one turn."""


Named: TypeAlias = Callable[[Sequence[Receipt]], Sequence[Task]]
"""Function from the receipts of a caller's requests to the names by which its client
asks for them.
"""


@dataclass(kw_only=True)
class _Brought:
    """Requests of one caller, and their outcome."""

    requests: Sequence[Request]
    tasks: Named | None = None
    runs: Sequence[Run] = ()
    within: Within | None = None
    receipts: Sequence[Receipt] | None = None
    error: Exception | None = None
    done: bool = field(default=False)


class SubmitBatcher:
    """The way from requests to jobs for many callers at once.  Safe for threads; one
    per process.
    """

    def __init__(self, database: Database, broker: Celery) -> None:
        self._database = database
        self.broker = broker
        """Celery app that publishes the messages."""
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._waiting: list[_Brought] = []

    def accept(
        self,
        requests: Sequence[Request],
        *,
        tasks: Named | None = None,
        runs: Sequence[Run] = (),
        within: Within | None = None,
    ) -> Sequence[Receipt]:
        """Receipts in the order of the requests; raises the errors of `enqueue.accept`,
        and then stores nothing of these.

        `tasks` gives jobs names of the KernelGYM protocol, `within` stores other rows, in the same
        transaction.  A bad request is found out before it meets those of others; where only the
        tables refuse it, the others' are stored without it.
        """
        enqueue.check(self._database, requests)
        brought = _Brought(requests=requests, tasks=tasks, runs=runs, within=within)
        with self._lock:
            self._waiting.append(brought)
        with self._turn:
            if not brought.done:
                self._carry_out()
        if brought.error is not None:
            raise brought.error
        assert brought.receipts is not None
        return brought.receipts

    def _carry_out(self) -> None:
        """Everything that waits, this caller's own among it: first in, first out."""
        with self._lock:
            taken, self._waiting = self._waiting, []
        while taken:
            turn = [taken.pop(0)]
            while (
                taken and sum(len(each.requests) for each in turn) + len(taken[0].requests) <= MOST
            ):
                turn.append(taken.pop(0))
            self._store(turn)

    def _store(self, turn: Sequence[_Brought]) -> None:
        try:
            requests = [request for each in turn for request in each.requests]
            more = any(each.tasks or each.within for each in turn)
            within = (
                (lambda connection, receipts: _store_more(connection, turn, receipts))
                if more
                else None
            )
            runs = [run for each in turn for run in each.runs]
            receipts = list(
                enqueue.accept(self._database, self.broker, requests, runs=runs, within=within)
            )
        except Exception as error:  # noqa: BLE001 (raised again, by each caller)
            if len(turn) > 1 and not isinstance(error, ServiceUnavailableError):
                for each in turn:  # nothing is stored; the error may be one caller's
                    self._store([each])
                return
            for each in turn:
                each.error, each.done = error, True
            return
        for each in turn:
            each.receipts, receipts = receipts[: len(each.requests)], receipts[len(each.requests) :]
            each.done = True


def _store_more(
    connection: Connection, turn: Sequence[_Brought], receipts: Sequence[Receipt]
) -> None:
    """Rows that callers store beside their jobs; the tasks of all in one statement, so that two web
    processes lock rows in one order.
    """
    tasks: list[Task] = []
    for each in turn:
        own, receipts = receipts[: len(each.requests)], receipts[len(each.requests) :]
        if each.within is not None:
            each.within(connection, own)
        if each.tasks is not None:
            tasks += each.tasks(own)
    kernelgym.put(connection, tasks)
