"""ENQUEUE: shared part of the trainers' reward functions: submit, wait, tell a fault of
the service from a bad candidate.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any
from uuid import UUID

from app.client import Client, Result
from app.client.submission import as_options
from app.domain import reward, reward_request
from app.domain.backend import DEFAULT_BACKEND
from app.domain.request import ServiceUnavailableError
from app.domain.rollout import UNKNOWN, Place, Rollout, as_json, messages_of, problem_of
from app.domain.source import source_text

DEADLINE_S = 900.0
"""Longest wait for one call, queue included, in seconds."""
CALLS = 64
"""Calls that wait at once in one process; more take their turn."""

_log = logging.getLogger(__name__)


class NoScoreError(RuntimeError):
    """There is no score, and the candidate is not to blame: leave the sample out, do
    not count it as zero.
    """


async def evaluated(
    rollouts: Sequence[Rollout], *, url: str | None, deadline_s: float
) -> list[Result | None]:
    """Results in the order of the rollouts, without blocking the loop; None for a rollout that the
    service could not score or did not finish in time.  Raises RequestError and NotAllowedError,
    which are the configuration's fault.
    """
    threads = _threads(os.getpid())
    return await asyncio.get_running_loop().run_in_executor(
        threads, evaluate, rollouts, url, deadline_s
    )


def evaluate(
    rollouts: Sequence[Rollout], url: str | None, deadline_s: float
) -> list[Result | None]:
    """The same, blocking."""
    service = client(url)
    try:
        job_ids = [handle.job_id for handle in service.submit_rollouts(rollouts)]
        try:
            list(service.over(job_ids, timeout_s=deadline_s))
        except TimeoutError as error:
            _log.error("%s; `assay workers` says which device classes are served", error)
        return list(service.results(job_ids))
    except ServiceUnavailableError as error:
        _log.error("%d candidates were not evaluated: %s", len(rollouts), error)
        return [None] * len(rollouts)


def rollout(
    trainer: str,
    answer: str,
    *,
    reference: str | None,
    problem_id: str | None,
    entry_point: str | None,
    backend: str | None,
    gpu: str,
    timing_budget_s: float,
    prompt: Any = None,
    place: Place = UNKNOWN,
    claims: Mapping[str, Any] | None = None,
) -> Rollout:
    """A model's answer with everything that its trainer says of it.  Raises RequestError."""
    return Rollout(
        answer=answer,
        candidate=source_text.encode(reward_request.candidate(answer)),
        run=place.campaign(trainer),
        problem_id=_uuid(problem_id),
        problem=problem_of(reference, entry_point),
        messages=messages_of(as_json(prompt)),
        backend=backend or DEFAULT_BACKEND,
        device_class=gpu,
        label=place.label,
        claims=as_json(dict(claims or {})),
        options=as_options({"timing_budget_s": timing_budget_s}),
        repeatable=place.sample is not None,
    )


def _uuid(text: str | None) -> UUID | None:
    """The id of a stored problem; None for another value in that field, in a data
    set of another origin.
    """
    try:
        return None if text is None else UUID(text)
    except ValueError:
        return None


def score(name: str, result: Result | None) -> float | None:
    """The reward of that name; None where there is none."""
    return None if result is None else reward.score(name, result)


def client(url: str | None) -> Client:
    """This process's client of the service at the URL, else at KERNEL_ASSAY_URL,
    else on this machine.
    """
    return _client(os.getpid(), url or os.environ.get("KERNEL_ASSAY_URL"))


@cache
def _client(_pid: int, url: str | None) -> Client:
    """One for each process: connections do not survive a fork."""
    return Client(url=url, token=os.environ.get("KERNEL_ASSAY_TOKEN") if url else None)


@cache
def _threads(_pid: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(CALLS, thread_name_prefix="assay")
