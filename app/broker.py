"""ROUTE: the Celery application as both sides configure it, and how messages leave.

A message is the permission to claim one job of its queue, whichever is due then: priorities, ageing
and fair shares are decided in PostgreSQL at that moment (app/store/queue/scheduling.py).  It names
no job: states, attempts, retries and results are rows.  So everything that Celery could order,
retry, count or remember is off, and a lost or doubled message costs time, never a result.  Only a
decision on a rollout carries an id, that of its row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import redis
from celery import Celery
from kombu import Exchange, Queue
from kombu.exceptions import BatchPublishError, OperationalError  # type: ignore[attr-defined]  # the stubs are of 5.6

from app import redis_transport, routing
from app.domain.job import BASELINES, JobOptions

MARGIN_S = 180
"""Seconds a task may take beyond its job's deadline, for starting the referee and storing
the result: after this the worker ends the pool's process, for when other deadlines did not
hold (workers/worker/job_evaluator.py).
"""
LONGEST_TASK_S = (
    round(JobOptions(deadline_s=3600, call_timeout_s=3600, baselines=BASELINES).patience_s)
    + MARGIN_S
)
"""Seconds for the longest job: after this Celery ends the pool's process."""
VISIBILITY_S = 2 * LONGEST_TASK_S + 60
"""Redis hands a message that was not acknowledged to another worker after this long.  Long, because
the sweep is quicker, and a message that is given again while its task still runs is only noise.
"""
CONSUMER_SILENCE_S, SENDER_SILENCE_S = 30.0, 2.0
"""Longest wait for an answer of Redis, in seconds.  A worker's connection waits for
messages; a submission that is stored need not wait for a Redis that hangs, because a
sweep sends its message.
"""
BATCH = 500
"""Messages in one pipeline to Redis."""

_ERRORS = (OperationalError, BatchPublishError, redis.RedisError, OSError)


class BrokerUnavailableError(RuntimeError):
    """Redis cannot be reached.  `sent` messages had left before."""

    def __init__(self, message: str, sent: int = 0) -> None:
        super().__init__(message)
        self.sent = sent


@dataclass(frozen=True, kw_only=True)
class Message:
    """Permission to do the work that is due in a queue."""

    queue: str
    task: str = routing.EVALUATE
    row_id: UUID | None = None
    """The row that a decision is about; None for permissions to take whatever is due."""


def make_app(broker_url: str, *, queues: Iterable[str] = ()) -> Celery:
    """The application with every queue declared: those of the device classes, and `queues` of
    single hosts and devices, so that a misspelt queue is an error at the sender.
    """
    app = Celery("assay", broker=broker_url, set_as_current=False)
    queues = tuple(queues)
    names = dict.fromkeys([*routing.class_queues(), *queues])
    limits = {"visibility_timeout": VISIBILITY_S}
    app.conf.update(
        # The default exchange needs no bindings in Redis, so a wiped Redis delivers again at once.
        task_queues=[Queue(name, Exchange(""), routing_key=name) for name in names],
        task_create_missing_queues=False,
        task_default_queue="cpu",
        task_default_exchange="",
        task_default_routing_key="cpu",
        task_acks_late=True,
        # a candidate that kills its worker would come back for ever
        task_reject_on_worker_lost=False,
        task_retry_on_worker_lost=False,
        task_time_limit=LONGEST_TASK_S,
        task_ignore_result=True,
        task_store_errors_even_if_ignored=False,
        task_serializer="json",
        accept_content=["json"],
        task_send_sent_event=False,
        worker_send_task_events=False,
        worker_pool="prefork",  # the other pools ignore time limits
        worker_concurrency=1,
        worker_prefetch_multiplier=1,
        # Remote control is not used, but its subscription is a socket that is always listened to.
        # Without one, a worker that failed to acknowledge while Redis was gone waits for ever on a
        # connection it never reads (tried).
        worker_enable_remote_control=True,
        worker_cancel_long_running_tasks_on_connection_loss=False,  # it loses the task
        worker_soft_shutdown_timeout=30.0,
        broker_connection_timeout=5.0,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        visibility_timeout=VISIBILITY_S,
        result_backend_transport_options=limits,
        broker_transport_options={
            **limits,
            "unacked_restore_interval": 5,
            "unacked_restore_throttle": 1,
            # Any order: which queue gave the permission does not matter.
            "queue_order_strategy": "round_robin",
            "priority_steps": [0],
            "socket_timeout": CONSUMER_SILENCE_S if queues else SENDER_SILENCE_S,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "health_check_interval": 25,
            # For a sender: one more try and then the error.  A worker's consumer
            # tries for ever by itself.
            "max_retries": 1,
            "interval_start": 0,
            "interval_step": 0.1,
            "interval_max": 0.1,
        },
    )
    return app


def refused() -> int:
    """Messages that this process has refused since it began: in Assay's queues, and
    not sent by Assay.
    """
    return redis_transport.refusals.total


def publish(app: Celery, messages: Sequence[Message]) -> None:
    """Send all messages, in pipelines of `BATCH`.

    Raises BrokerUnavailableError with the number that had left; a second send of any
    of them does no harm.
    """
    for start in range(0, len(messages), BATCH):
        batch = messages[start : start + BATCH]
        try:
            _publish(app, batch)
        except _ERRORS:
            try:
                _publish(app, batch)  # the pooled connection was one of before a restart of Redis
            except _ERRORS as error:
                raise BrokerUnavailableError(f"Redis: {error}", sent=start) from error


def depth(app: Celery, queue: str) -> int:
    """Messages waiting in the queue.  Raises BrokerUnavailableError."""
    try:
        with app.connection_or_acquire() as connection:
            return int(connection.default_channel.queue_declare(queue).message_count)
    except _ERRORS as error:
        raise BrokerUnavailableError(f"Redis: {error}") from error


def describe(app: Celery) -> dict[str, Any]:
    """Description of the server by itself (Redis' INFO).  Raises BrokerUnavailableError."""
    try:
        with app.connection_or_acquire() as connection:
            return dict(connection.default_channel.client.info())
    except _ERRORS as error:
        raise BrokerUnavailableError(f"Redis: {error}") from error


def _publish(app: Celery, batch: Sequence[Message]) -> None:
    with app.producer_or_acquire() as producer, ExitStack() as stack:
        if len(batch) > 1:
            stack.enter_context(producer.batch(max_size=BATCH))
        for message in batch:
            task_id = str(message.row_id or uuid4())
            task = app.amqp.as_task_v2(
                task_id,
                message.task,
                redis_transport.arguments(message.task, task_id),
                argsrepr="",  # Celery's own way of writing it costs a tenth of the sending
                kwargsrepr="",
                ignore_result=True,
            )
            producer.publish(
                task.body,
                exchange="",
                routing_key=message.queue,
                serializer="json",
                headers=task.headers,
                **task.properties,
            )
