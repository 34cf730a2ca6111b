"""COLLECT: pause, resume and stop."""

from __future__ import annotations

import logging

from celery import Celery

from app.broker import BrokerUnavailableError
from app.collect.sweep import settle_stopped, sweep
from app.domain.collection.states import CollectionState
from app.domain.request import ConflictError, RequestError
from app.store.collection import lifecycle
from app.store.postgres.database import Database

_log = logging.getLogger(__name__)

ACTIONS = ("pause", "resume", "stop")


def change(database: Database, broker: Celery, name: str, action: str, by: str) -> None:
    """Apply one of ACTIONS to a collection.  Raises RequestError for another action,
    MissingError, and ConflictError.
    """
    if action == "pause":
        pause(database, name, by)
    elif action == "resume":
        resume(database, broker, name)
    elif action == "stop":
        stop(database, name, by)
    else:
        raise RequestError(f"expected one of {', '.join(ACTIONS)}, got {action!r}")


def pause(database: Database, name: str, by: str) -> None:
    """Start no further calls; calls and evaluations in flight are finished.  Raises MissingError,
    and ConflictError if the collection is not running.
    """
    with database.begin() as connection:
        collection = lifecycle.find(connection, name)
        state = lifecycle.pause(connection, collection.collection_id, f"by {by}")
    _expect(state, CollectionState.PAUSED, name)


def resume(database: Database, broker: Celery, name: str) -> None:
    """Go on; where Redis is away, as soon as a worker's sweep has sent its messages.  Raises
    MissingError, and ConflictError where it is not paused.
    """
    with database.begin() as connection:
        collection = lifecycle.find(connection, name)
        state = lifecycle.resume(connection, collection.collection_id)
    _expect(state, CollectionState.RUNNING, name)
    try:
        for endpoint in collection.spec.models:
            sweep(database, broker, endpoint)
    except BrokerUnavailableError as error:
        _log.warning("collection %s: a worker's sweep will send its messages: %s", name, error)


def stop(database: Database, name: str, by: str) -> None:
    """End it for good; its evaluations that wait are cancelled.  Raises MissingError, and
    ConflictError where it is over.
    """
    reason = f"by {by}"
    with database.begin() as connection:
        collection = lifecycle.find(connection, name)
        stopped = lifecycle.stop(connection, collection.collection_id, reason)
    if not stopped:
        _expect(collection.state, CollectionState.STOPPED, name)
    settle_stopped(database, collection.collection_id, reason)


def _expect(state: CollectionState, wanted: CollectionState, name: str) -> None:
    if state is not wanted:
        done = "resumed" if wanted is CollectionState.RUNNING else wanted
        raise ConflictError(
            f"collection {name!r}: expected one that can be {done}, got one that is {state}"
        )
