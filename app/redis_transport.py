"""ROUTE: kombu's Redis transport, which believes nothing that it reads.

A client that can write to Redis can put anything into a queue.  Of a message only its task and
id are taken: another one goes on to Celery, made here, so that no task, serialiser, limit, retry
or callback can come in.  A message that `broker.publish` has not made is refused and counted,
and costs nothing but the permission that it may have stood for, which the sweep sends again.
Remote control is dropped unread.

It takes the place of kombu's own transport for `redis://…` URLs wherever `app.broker` is imported.
"""

from __future__ import annotations

import base64
import json
import logging
from typing import Any
from uuid import UUID, uuid4

import redis
from kombu.transport import TRANSPORT_ALIASES
from kombu.transport import redis as kombu_redis
from kombu.transport.virtual import Empty
from kombu.utils.encoding import bytes_to_str

from app import routing

MOST_BYTES = 8 << 10
"""Longest body of a message; those of `broker.publish` have some 200 bytes."""
SAID = 100
"""One in so many messages that are refused is logged."""

_log = logging.getLogger(__name__)

_QoS: Any = kombu_redis.QoS
_Channel: Any = kombu_redis.Channel
_Transport: Any = kombu_redis.Transport
"""Typed as Any: the stubs of kombu know none of the methods that are overridden here."""

_UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)
"""Raised while something is read that is not as expected: no JSON, no UTF-8, of
another type, too deep.
"""


class RefusedError(ValueError):
    """A message that `broker.publish` has not made."""


class Refusals:
    """Messages that this process has refused."""

    def __init__(self) -> None:
        """None as yet."""
        self.total = 0

    def add(self, where: str, reason: object) -> None:
        """One more, logged if it is the first of many."""
        if self.total % SAID == 0:
            _log.warning(
                "refused a message in %s (%d so far): %s", where, self.total + 1, str(reason)[:300]
            )
        self.total += 1


refusals = Refusals()


def task_id(payload: Any, tasks: tuple[str, ...] = (routing.EVALUATE,)) -> str:
    """The id of a message sent by Assay for one of the tasks.  Raises RefusedError
    with the reason.
    """
    try:
        headers, body = payload["headers"], payload["body"]
        kind = (
            payload["content-type"],
            payload["content-encoding"],
            payload["properties"]["body_encoding"],
        )
        task, found = headers["task"], headers["id"]
    except _UNREADABLE as error:
        raise RefusedError(
            f"expected a task message, got {type(payload).__name__} ({error!r})"
        ) from None
    if kind != ("application/json", "utf-8", "base64"):
        raise RefusedError(f"expected JSON in UTF-8 and base64, got {kind!r}")
    if task not in tasks:
        raise RefusedError(f"expected the task {' or '.join(tasks)}, got {task!r:.100}")
    if not isinstance(body, str) or len(body) > MOST_BYTES:
        raise RefusedError(f"expected a body of at most {MOST_BYTES:,} bytes")
    try:
        known = isinstance(found, str) and str(UUID(found)) == found
    except ValueError:
        known = False
    if not known:
        raise RefusedError(f"expected the id of a message, got {found!r:.100}")
    return str(found)


def arguments(task: str, id_: str) -> tuple[str, ...]:
    """Arguments of a task by the id of its message, which is for a decision that of its row."""
    return (id_,) if task == routing.DECIDE else ()


def message(id_: str, queue: str, task: str = routing.EVALUATE) -> dict[str, Any]:
    """A message as kombu stores it: nothing in it is another's but the id."""
    options = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
    body = json.dumps([arguments(task, id_), {}, options])
    return {
        "body": base64.b64encode(body.encode()).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {
            "lang": "py",
            "task": task,
            "id": id_,
            "shadow": None,
            "eta": None,
            "expires": None,
            "group": None,
            "group_index": None,
            "retries": 0,
            "timelimit": [None, None],
            "root_id": id_,
            "parent_id": None,
            "argsrepr": "",
            "kwargsrepr": "",
            "origin": "assay",
            "ignore_result": True,
            "replaced_task_nesting": 0,
            "stamped_headers": None,
            "stamps": {},
        },
        "properties": {
            "correlation_id": id_,
            "reply_to": "",
            "delivery_mode": 2,
            "priority": 0,
            "body_encoding": "base64",
            "delivery_info": {"exchange": "", "routing_key": queue},
            "delivery_tag": str(uuid4()),
        },
    }


class QoS(_QoS):  # type: ignore[misc]
    """Messages that were taken and not acknowledged, which Redis keeps until they are."""

    def restore_by_tag(self, tag: Any, client: Any = None, leftmost: bool = False) -> None:
        """Queue one again; one that cannot be read is thrown away."""
        try:
            super().restore_by_tag(tag, client=client, leftmost=leftmost)
        except _UNREADABLE as error:
            refusals.add(self.unacked_key, error)
            with self.pipe_or_acquire() as pipe:
                self._remove_from_indices(tag, pipe).execute()

    def restore_visible(self, *arguments: Any, **options: Any) -> None:
        """Queue again the messages that were taken too long ago."""
        try:
            super().restore_visible(*arguments, **options)
        except redis.ResponseError as error:
            self.channel.cleanse(error)


class Channel(_Channel):  # type: ignore[misc]
    """Reads the queues."""

    QoS = QoS

    def cleanse(self, error: redis.ResponseError) -> None:
        """Throw away Assay's keys that hold another type than they should
        (WRONGTYPE).  Raises any other error.
        """
        if "WRONGTYPE" not in str(error):
            raise error
        queues = [
            self._q_for_pri(queue, step)
            for queue in self.active_queues
            for step in self.priority_steps
        ]
        expected = dict.fromkeys(queues, "list")
        expected |= {
            self.unacked_key: "hash",
            self.unacked_index_key: "zset",
            self.unacked_mutex_key: "string",
        }
        with self.conn_or_acquire() as client:
            for key, kind in expected.items():
                if bytes_to_str(client.type(key)) not in (kind, "none"):
                    refusals.add(key, error)
                    client.delete(key)

    def _brpop_read(self, **options: Any) -> Any:
        """One message.  One that cannot be read at all is dropped: it has left the queue."""
        self.connection.at_message = False
        try:
            return super()._brpop_read(**options)
        except redis.ResponseError as error:
            self.cleanse(error)
        except _UNREADABLE as error:
            if (
                self.connection.at_message
            ):  # it was read, and this is a fault of the task that took it
                raise
            refusals.add("a queue", error)
        raise Empty

    def _receive_one(self, c: Any) -> None:
        """Read a command of remote control, which Assay does not use, and drop it."""
        try:
            response = c.parse_response()
        except self.connection_errors:
            self._in_listen = None
            raise
        if not isinstance(response, list | tuple):
            return
        if bytes_to_str(self._handle_message(c, response)["type"]).endswith("message"):
            refusals.add("remote control", "no command is obeyed")


class Transport(_Transport):  # type: ignore[misc]
    """See the module."""

    Channel = Channel
    at_message = False
    """True if the message that is being read has been read well."""

    def _deliver(self, payload: Any, queue: str | None) -> None:
        try:
            found = task_id(payload, routing.tasks_of(queue or ""))
        except RefusedError as error:
            refusals.add(f"queue {queue!r}", error)
            return
        self.at_message = True
        super()._deliver(message(found, queue or "", payload["headers"]["task"]), queue)


TRANSPORT_ALIASES.update(dict.fromkeys(("redis", "rediss"), f"{__name__}:{Transport.__name__}"))
