"""BROWSE: health of this server, for its supervisor and its load balancer."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from dataclasses import dataclass

import flask

from app.domain.device import DeviceState
from app.store.postgres import schema_revisions
from app.store.postgres.database import Database, DatabaseUnavailableError
from app.store.queue import devices
from app.web import request_context
from app.web.identity import public
from app.web.query_parameters import checks_parameters
from app.web.write_check import Writes

blueprint = flask.Blueprint("health", __name__)


ANSWER_S = 5.0
"""Longest wait for the database, in seconds: one that hangs keeps its connections,
and no error comes of them.
"""
NOT_REACHABLE = "the database is not reachable"


@dataclass(frozen=True, kw_only=True)
class Found:
    """State of the database."""

    reason: str | None
    """None where it is well."""
    known: tuple[devices.Device, ...] = ()
    log: str | None = None


@blueprint.get("/livez")
@public
@checks_parameters
def live() -> flask.Response:
    """200 while this process answers: nothing else is asked, because a restart mends
    no database.
    """
    return flask.jsonify(ok=True)


@blueprint.get("/healthz")
@public
@checks_parameters
def check() -> tuple[flask.Response, int]:
    """200 when the database answers, has the tables of this version and stores data,
    else 503 with the reason.

    `devices` counts them by state: a quarantined one is no reason to start this
    server again, and one to look.
    """
    answer: queue.SimpleQueue[Found] = queue.SimpleQueue()
    database, writes = request_context.database(), request_context.writes()
    threading.Thread(
        target=lambda: answer.put(_look(database, writes)), name="health", daemon=True
    ).start()
    try:
        found = answer.get(timeout=ANSWER_S)
    except queue.Empty:
        found = Found(reason=f"the database has not answered for {ANSWER_S:g} s")
    if found.reason is not None:
        flask.current_app.logger.error("%s", found.log or found.reason)
        return flask.jsonify(ok=False, reason=found.reason), 503
    states = Counter(device.state for device in found.known)
    counted = {str(state): states[state] for state in DeviceState}
    return flask.jsonify(ok=True, reason=None, devices=counted), 200


def _look(database: Database, writes: Writes) -> Found:
    try:
        with database.snapshot() as connection:
            schema_revisions.require(connection)
            known = tuple(devices.listed(connection))
        refusal = writes.refusal()
    except schema_revisions.OtherVersionError as error:
        return Found(reason=f"the database: {error}")
    except DatabaseUnavailableError as error:
        return Found(reason=NOT_REACHABLE, log=str(error))
    if refusal is not None:
        return Found(reason=f"the database stores nothing: {refusal}")
    return Found(reason=None, known=known)
