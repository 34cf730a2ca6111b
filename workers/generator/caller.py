"""Calls of one endpoint's models, and decisions, in greenlets.

A permission that finds the endpoint at its limit is remembered as a number, and used by the next
call that ends; where the process dies meanwhile, the sweep of another one sends it again.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

import gevent
from celery import Celery

from app import routing
from app.collect import calls
from app.collect.advance import advance
from app.domain.collection.call import (
    CallError,
    End,
    EndpointConfig,
    ErrorKind,
    ModelAnswer,
    ModelRequest,
    Retry,
)
from app.domain.request import RequestError
from app.endpoints import caller as http
from app.endpoints.rate_limit import Limiter
from app.settings import Settings
from app.store.collection import endpoints
from app.store.postgres.database import WORKER_IDLE_S, Database, DatabaseUnavailableError

LONGEST_PAUSE_S = 2.0
"""Longest pause between two attempts to reach PostgreSQL."""
CONNECTIONS = 4
"""Transactions at once.  Each locks its collection's row, and greenlets that take turns within
transactions would hold that lock for longer: few of them at once are faster than many.
"""

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Caller:
    """State of one worker."""

    def __init__(self, settings: Settings, endpoint: str, broker: Celery) -> None:
        assert settings.database_url is not None
        self._settings = settings
        self._endpoint = endpoint
        self._broker = broker
        self._limiter: Limiter | None = None
        self.database = Database(
            settings.database_url, connections=CONNECTIONS, worker_idle_s=WORKER_IDLE_S
        )
        self.owner = (
            f"{routing.node_name(socket.gethostname())}.{os.getpid()}.{secrets.token_hex(4)}"
        )
        self.in_flight: dict[UUID, float] = {}
        """Attempts that this worker holds, with the time of their claims."""
        self._begun = 0
        """Calls that are being claimed, made or stored."""
        self.owed = 0
        """Permissions that wait for room at the endpoint."""
        self.first_turns = True
        """False while the evaluators have enough to do."""

    def close(self) -> None:
        """Close every connection."""
        self.database.dispose()

    def decide(self, rollout_id: UUID) -> None:
        """One decision, and one of the calls that it makes due."""
        if self._retrying(
            lambda: advance(self.database, self._broker, rollout_id, endpoint=self._endpoint)
        ):
            self.call()

    def call(self) -> None:
        """One call, and then those for which permissions wait."""
        self.owed += 1
        while self.owed > 0 and self._begun < self._settings.calls:
            self.owed -= 1
            self._begun += 1
            try:
                more = self._permitted_call()
            finally:
                self._begun -= 1
            if not more:
                return

    def _permitted_call(self) -> bool:
        """One call, if the endpoint's limit allows it; False where it does not."""
        permit = self._limits().acquire(timeout_s=0)
        if permit is None:
            self.owed += 1
            return False
        answer: ModelAnswer | None = None
        try:
            prepared = self._retrying(self._prepare)
            if isinstance(prepared, calls.Prepared):
                answer = self._send_and_store(prepared)
            elif prepared is calls.NotNow.NOTHING_DUE:
                self.owed = 0  # other workers have made the calls that were permitted
        finally:
            permit.done(answer)
        return True

    def _send_and_store(self, prepared: calls.Prepared) -> ModelAnswer:
        """Send a request and store the answer, which is returned."""
        node_id = prepared.claimed.ready.node_id
        self.in_flight[node_id] = time.monotonic()
        try:
            answer = answer_of(prepared.config, prepared.request)
            again_s = self._retrying(
                lambda: calls.store(self.database, self._broker, prepared, answer)
            )
        finally:
            del self.in_flight[node_id]
        if again_s is not None:
            gevent.spawn_later(again_s, calls.send_again, self._broker, prepared)
        return answer

    def _prepare(self) -> calls.Prepared | calls.NotNow:
        return calls.prepare(
            self.database,
            self._broker,
            self._endpoint,
            owner=self.owner,
            lease_s=self._settings.lease_s,
            first_turns=self.first_turns,
        )

    def _limits(self) -> Limiter:
        if self._limiter is None:
            assert self._settings.broker_url is not None
            with self.database.begin() as connection:
                config = endpoints.get(connection, self._endpoint)
            self._limiter = Limiter(config, self._settings.broker_url)
        return self._limiter

    def _retrying(self, act: Callable[[], _T]) -> _T:
        """Act, and again until PostgreSQL is there: an answer that was paid for is
        worth waiting for.
        """
        pause_s = 0.1
        while True:
            try:
                return act()
            except DatabaseUnavailableError as error:
                _log.warning("trying again in %.1f s: %s", pause_s, error)
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def answer_of(config: EndpointConfig, request: ModelRequest) -> ModelAnswer:
    """The endpoint's answer; a key that is missing and a request that cannot be
    expressed are errors of the call.
    """
    try:
        key = http.key_of(config)
    except RequestError as error:
        return _refused(ErrorKind.UNAUTHORISED, error)
    try:
        return http.call(config, request, key=key)
    except RequestError as error:
        return _refused(ErrorKind.BAD_REQUEST, error)


def _refused(kind: ErrorKind, error: RequestError) -> ModelAnswer:
    return ModelAnswer(
        end=End.ERROR, error=CallError(kind=kind, message=str(error), retry=Retry.NEVER)
    )
