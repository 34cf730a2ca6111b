"""ENQUEUE: shared part of the trainers' reward functions: submit, wait, tell a fault of the service from a bad
candidate."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cache

from app.client import Client, Result, ServiceError, Submission, as_problem
from app.domain import hook, reward
from app.store.session import DatabaseUnavailableError

DEADLINE_S = 900.0
"""Longest wait for one call, queue included, in seconds."""
CALLS = 64
"""Calls that wait at once in one process; more take their turn."""

_log = logging.getLogger(__name__)


class NoScoreError(RuntimeError):
    """There is no score, and the candidate is not to blame: leave the sample out, do not count it as zero."""


async def evaluated(submissions: Sequence[Submission], *, url: str | None, deadline_s: float) -> list[Result | None]:
    """Results in the order of the submissions, without blocking the loop; None for what the service could not do or
    did not finish in time.  Raises RequestError and NotAllowedError, which are the configuration's fault."""
    threads = _threads(os.getpid())
    return await asyncio.get_running_loop().run_in_executor(threads, evaluate, submissions, url, deadline_s)


def evaluate(submissions: Sequence[Submission], url: str | None, deadline_s: float) -> list[Result | None]:
    """The same, blocking."""
    client = _client(os.getpid(), url or os.environ.get("KERNEL_ASSAY_URL"))
    try:
        job_ids = [handle.job_id for handle in client.submit_many(submissions)]
        with suppress(TimeoutError):
            list(client.over(job_ids, timeout_s=deadline_s))
        return list(client.results(job_ids))
    except (ServiceError, DatabaseUnavailableError) as error:
        _log.error("%d candidates were not evaluated: %s", len(submissions), error)
        return [None] * len(submissions)


def submission(
    answer: str, reference: str, *, entry_point: str | None, backend: str | None, gpu: str, timing_budget_s: float
) -> Submission:
    """The code of a model's answer, for the service."""
    problem = replace(as_problem(reference), entry_point=entry_point or "Model")
    return Submission(
        reference=problem, candidate=hook.candidate(answer), backend=backend or "triton", gpu=gpu,
        options={"timing_budget_s": timing_budget_s},
    )  # fmt: skip


def score(name: str, result: Result | None) -> float | None:
    """The reward of that name; None where there is none."""
    return None if result is None else reward.score(name, result)


@cache
def _client(_pid: int, url: str | None) -> Client:
    """One for each process: connections do not survive a fork."""
    return Client(url=url, token=os.environ.get("KERNEL_ASSAY_TOKEN") if url else None)


@cache
def _threads(_pid: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(CALLS, thread_name_prefix="assay")
