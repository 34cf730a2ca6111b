"""COLLECT: messages to the workers of an endpoint."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from celery import Celery

from app import broker as messages
from app import routing
from app.store.collection.trees import Due

_log = logging.getLogger(__name__)


def calls(broker: Celery, due: Sequence[Due]) -> None:
    """Permissions to make the calls that are due.  Where Redis is away, a sweep
    sends them later.
    """
    _send(broker, routing.CALL, due)


def decisions(broker: Celery, due: Sequence[Due]) -> None:
    """Send messages that permit decisions about these rollouts."""
    _send(broker, routing.DECIDE, due)


def _send(broker: Celery, task: str, due: Sequence[Due]) -> None:
    sent = [
        messages.Message(
            queue=routing.generate_queue(each.endpoint),
            task=task,
            row_id=each.row_id if task == routing.DECIDE else None,
        )
        for each in due
    ]
    try:
        messages.publish(broker, sent)
    except messages.BrokerUnavailableError as error:
        _log.warning("%d messages will be sent by a sweep: %s", len(sent) - error.sent, error)
