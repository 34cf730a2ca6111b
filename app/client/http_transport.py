"""ENQUEUE: the way into the service over its HTTP API.

A fault that may pass (no connection, 429, 5xx) is tried again for PATIENCE_S seconds, as often as
the server asks for, and then raised: an infrastructure fault is never a result.  Trying again is
safe, because the same submission is the same job; one that is `fresh` gets a key of its own, and a
trajectory its id, before it is sent for the first time.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import UUID

import urllib3
from urllib3.exceptions import HTTPError

from app.client.http_bodies import (
    BATCH,
    batches,
    item_body,
    problem_body,
    read_trajectory,
    rollout_body,
    submission_body,
    turn_body,
)
from app.client.submission import Submission
from app.client.transport import PATIENCE_S, UnknownJobError
from app.client.waiting import Waiting
from app.domain import ids
from app.domain.job import JobState
from app.domain.problem import Problem
from app.domain.request import MissingError, Request, RequestError, ServiceUnavailableError
from app.domain.result import Result
from app.domain.rollout import Rollout
from app.domain.source import source_text
from app.domain.trajectory import Run, Trajectory, Turn

WATCHED, RESULTS = 1_000, 100
"""Most ids in a request that waits for jobs, and in one for their results."""
HOLD_S = 25.0
"""A request waits this long at the server; proxies often cut at 60."""
CONNECT_S, READ_S = 5.0, 60.0
"""Longest time to connect, and longest pause in an answer, in seconds."""
BACKOFF_S = (0.2, 5.0)
"""First and longest pause before another try, in seconds."""
CONNECTIONS = 64
"""Connections kept open: threads of a trainer that wait at once."""


class ServiceError(ServiceUnavailableError):
    """The service cannot be reached, or has a fault; no candidate is to blame."""


class NotAllowedError(RuntimeError):
    """The token is missing, unknown or not good for this."""


class Remote:
    """Over HTTP.  Safe for threads."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            shown = repr(url) if "@" not in url else "one with a password"
            raise ValueError(
                f"url: expected http://host[:port] or https://host[:port], got {shown}"
            )
        if parts.username or parts.password:
            raise ValueError(
                "url: expected no user and password in it: give token=…, which no log shows"
            )
        self._base = url.rstrip("/")
        headers = {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": "assay-client",
        }
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._http = urllib3.PoolManager(
            headers=headers,
            maxsize=CONNECTIONS,
            retries=False,
            timeout=urllib3.Timeout(connect=CONNECT_S, read=READ_S),
        )

    def close(self) -> None:
        """Close every connection."""
        self._http.clear()

    def submit(self, submissions: Sequence[Submission]) -> list[UUID]:
        """In batches.  A bad submission raises RequestError before anything is sent where that can
        be known here; where only the server knows (a device that is not there), earlier
        submissions may be queued already.
        """
        for submission in submissions:
            submission.request()
        return [job_id for batch in batches(submissions) for job_id in self._submit(batch)]

    def submit_rollouts(self, rollouts: Sequence[Rollout]) -> list[UUID]:
        """Store rollouts in batches, each as a whole.  A batch that is sent again
        after a lost answer is stored once.
        """
        found: list[UUID] = []
        for start in range(0, len(rollouts), BATCH):
            items = [rollout_body(each) for each in rollouts[start : start + BATCH]]
            told = self._call("POST", "/v1/rollouts:batch", {"items": items})
            found += [UUID(job_id) for job_id in told["job_ids"]]
        return found

    def over(self, job_ids: Sequence[UUID], timeout_s: float | None) -> Iterator[list[UUID]]:
        """Wait by long polls."""
        pending = dict.fromkeys(job_ids)
        deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
        waiting = Waiting(len(pending), timeout_s)
        while pending:
            left_s = max(0.0, deadline - time.monotonic())
            asked = {
                "job_ids": [str(job_id) for job_id in list(pending)[:WATCHED]],
                "wait": min(HOLD_S, left_s),
            }
            told = self._call("POST", "/v1/evaluations:wait", asked)
            ended = [UUID(each["job_id"]) for each in told["over"]]
            for job_id in ended:
                del pending[job_id]
            if ended:
                yield ended
            else:  # the next ones: those that were asked for may take long
                waiting.note(told.get("unserved", {}))  # a server of before has no such key
                pending = dict.fromkeys([*list(pending)[WATCHED:], *list(pending)[:WATCHED]])
            if pending and time.monotonic() > deadline:
                raise waiting.in_vain(len(pending))

    def results(self, job_ids: Sequence[UUID]) -> list[Result]:
        """Results, fetched in batches."""
        found: list[Result] = []
        for start in range(0, len(job_ids), RESULTS):
            asked = {"job_ids": [str(job_id) for job_id in job_ids[start : start + RESULTS]]}
            found += self._call("POST", "/v1/evaluations:results", asked)["results"]
        return found

    def cancel(self, job_id: UUID, for_all: bool) -> JobState:
        """A queued job at once, a running one within seconds."""
        query = "?for_all=true" if for_all else ""
        path = f"/v1/evaluations/{job_id}{query}"
        return JobState(self._call("DELETE", path, headers=_once())["state"])

    def submit_trajectory(
        self, request: Request, turns: Sequence[Turn], run: Run | None, label: str | None
    ) -> Trajectory:
        """All or nothing."""
        body = {
            "trajectory_id": str(ids.new_id()),
            "turns": [turn_body(turn) for turn in turns],
            "label": label,
            "campaign": asdict(run) if run else None,
            **submission_body(request.problem, request),
        }
        return read_trajectory(self._call("POST", "/v1/trajectories", body, missing=RequestError))

    def get_trajectory(self, trajectory_id: UUID) -> Trajectory:
        """The trajectory as it was submitted."""
        return read_trajectory(
            self._call("GET", f"/v1/trajectories/{trajectory_id}", missing=LookupError)
        )

    def add_run(self, run: Run) -> None:
        """Id of a run, by name."""
        self._call("POST", "/v1/runs", asdict(run))

    def problem(self, problem_id: UUID) -> Problem:
        """A problem from the service.  Raises RequestError for a source that is not
        text, which JSON cannot carry.
        """
        told = self._call("GET", f"/v1/problems/{problem_id}", missing=MissingError)
        names = ("name", "source_set", "level", "entry_point")
        found = Problem(
            reference=source_text.encode(told["reference"]), **{name: told[name] for name in names}
        )
        if found.reference_sha256 != told["reference_sha256"]:
            raise RequestError(
                f"problem {problem_id}: expected a reference in UTF-8, got other bytes"
            )
        return found

    def add_problem(self, problem: Problem) -> UUID:
        """Id of a problem, by content."""
        return UUID(self._call("POST", "/v1/problems", problem_body(problem))["problem_id"])

    def collect(self, spec: Mapping[str, Any]) -> UUID:
        """Tried again after a lost answer, it is the collection that there is."""
        return UUID(
            self._call("POST", "/v1/collections", {"spec": dict(spec)}, missing=MissingError)[
                "collection_id"
            ]
        )

    def plan_collection(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Plan of a collection, from the service's problems."""
        return self._call(
            "POST", "/v1/collections:plan", {"spec": dict(spec)}, missing=MissingError
        )

    def collection(self, name: str, *, full: bool) -> dict[str, Any]:
        """State of a collection from the service."""
        path = f"/v1/collections/{quote(name, safe='')}" + ("?full=true" if full else "")
        return self._call("GET", path, missing=MissingError)

    def collections(self) -> list[dict[str, Any]]:
        """States of all collections from the service."""
        return list(self._call("GET", "/v1/collections")["collections"])

    def change_collection(self, name: str, action: str, by: str) -> dict[str, Any]:  # noqa: ARG002 (the token's user)
        """Change the state of a collection at once."""
        return self._call(
            "POST", f"/v1/collections/{quote(name, safe='')}:{action}", {}, missing=MissingError
        )

    def _submit(self, batch: Sequence[Submission]) -> list[UUID]:
        items = [item_body(submission) for submission in batch]
        told = self._call("POST", "/v1/evaluations:batch", {"items": items}, headers=_once())[
            "items"
        ]
        for item in told:
            if item["error"] is not None:
                where = f"request {item['index']}: " if len(batch) > 1 else ""
                raise RequestError(f"{where}{item['error']['message']}")
        return [UUID(item["accepted"]["job_id"]) for item in told]

    def _call(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        missing: Callable[[str], Exception] = UnknownJobError,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """The JSON of the answer.  Raises RequestError, NotAllowedError,
        ServiceError, and `missing` for a 404.
        """
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        until = time.monotonic() + PATIENCE_S
        for attempt in range(1_000_000):
            try:
                response = self._http.request(
                    method,
                    self._base + path,
                    body=data,
                    headers={**self._http.headers, **(headers or {})},
                )
                status, problem = response.status, f"answered {response.status}"
                answer = _json(response.data)
                if status < 400 and answer is not None:
                    return answer
                asked_s = response.headers.get("Retry-After", "")
            except HTTPError as error:
                status, problem, answer, asked_s = 503, str(error), None, ""
            message = (answer or {}).get("error", {}).get("message", problem)
            if 400 <= status < 500 and status != 429:
                raise _refusal(status, message, missing)
            pause_s = float(asked_s) if asked_s.isdigit() else _pause_s(attempt)
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise ServiceError(f"{method} {self._base}{path}: {message}")
            time.sleep(
                min(pause_s, left_s)
            )  # however long the server asks for: once more at the end of the patience
        raise AssertionError("unreachable")


def _once() -> dict[str, str]:
    """Header of a request that is sent again after a lost answer, and counts once: a withdrawal
    takes no submission of another client, a submission keeps no job alive.
    """
    return {"Idempotency-Key": str(ids.new_id())}


def _refusal(status: int, message: str, missing: Callable[[str], Exception]) -> Exception:
    if status in (401, 403):
        return NotAllowedError(message)
    return missing(message) if status == 404 else RequestError(message)


def _pause_s(attempt: int) -> float:
    """Doubled each time, up to the longest; drawn, so that many clients do not come
    back at once.
    """
    first_s, longest_s = BACKOFF_S
    return random.uniform(0.5, 1.0) * min(longest_s, first_s * 2.0 ** min(attempt, 10))  # noqa: S311


def _json(data: bytes) -> dict[str, Any] | None:
    """None for an answer that is not JSON, such as a proxy's HTML."""
    try:
        value = json.loads(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
