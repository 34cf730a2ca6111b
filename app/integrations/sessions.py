"""ENQUEUE: sessions of trainers' rows, shared by the adapters for dialogues of several turns."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from uuid import UUID

from app.client import KernelSession, as_problem
from app.client.session import DEADLINE_S, as_spec
from app.domain.collection.spec import CollectionSpec
from app.domain.problem import Problem
from app.domain.request import MissingError, RequestError
from app.domain.rollout import UNKNOWN, Place
from app.domain.verdict import Label, is_credited
from app.integrations import scoring

Given = Mapping[str, Any]


def opened(
    trainer: str,
    row: Given,
    spec: Given | None = None,
    *,
    url: str | None = None,
    place: Place = UNKNOWN,
    deadline_s: float = DEADLINE_S,
    store: bool = True,
) -> KernelSession:
    """The open session of a row: `reference` (or `reference_code`), `problem_id`,
    `entry_point` and `backend`.

    The row's backend goes before that of the specification.  Raises RequestError.
    """
    value = as_spec(spec).as_json()
    if row.get("backend"):
        value["backend"] = row["backend"]
    session = KernelSession(
        scoring.client(url), value, place=place, trainer=trainer, deadline_s=deadline_s, store=store
    )
    return session.open(problem_of(row, url))


def figures(session: KernelSession) -> dict[str, float]:
    """Figures of a dialogue for a trainer's log, with the same keys always.

    `turns`: answers with a reward; `correct` and `hack`: 1 where an answer was;
    `best_speedup`: 0 without one.
    """
    results = [
        step.result for step in session.steps if step.result is not None and step.reward is not None
    ]
    return {
        "turns": float(sum(reward is not None for reward in session.rewards)),
        "correct": float(
            any(
                is_credited(correct=bool(result["correct"]), label=result["verdict"])
                for result in results
            )
        ),
        "hack": float(any(result["verdict"] == Label.HACK for result in results)),
        "best_speedup": max((result["speedup"] or 0.0 for result in results), default=0.0),
    }


def check_grows(spec: CollectionSpec) -> None:
    """Raise RequestError for prompts that are not the earlier ones and more, which
    one row of tokens cannot hold.
    """
    if spec.context.history != "whole" or spec.strategy["name"] != "sequential":
        raise RequestError(
            "expected strategy.name = 'sequential' and context.history = 'whole', "
            f"got {spec.strategy['name']!r} and {spec.context.history!r}"
        )


def flat(row: Given) -> dict[str, Any]:
    """The row with its problem's fields on top, where a format of prompts has them
    in a table of their own.
    """
    found = dict(row)
    for name in ("extra_info", "metadata", "verifier_metadata"):
        found |= {
            key: value for key, value in dict(row.get(name) or {}).items() if value is not None
        }
    for name in ("reward_model", "reward_spec"):
        found["reference"] = found.get("reference") or dict(row.get(name) or {}).get("ground_truth")
    return found


def problem_of(row: Given, url: str | None = None) -> Problem:
    """The stored problem of the row's id, else the one that its reference makes.
    Raises RequestError.
    """
    reference = row.get("reference") or row.get("reference_code")
    try:
        stored = UUID(str(row["problem_id"])) if row.get("problem_id") else None
    except ValueError:
        stored = None  # the id of another data set
    if stored is None and reference is None:
        raise RequestError("row: expected reference or problem_id, got neither")
    if stored is not None:
        try:
            return _stored(os.getpid(), url, stored)
        except MissingError:
            if reference is None:
                raise
    return as_problem(str(reference), row.get("entry_point"))


@lru_cache(maxsize=1_000)
def _stored(_pid: int, url: str | None, problem_id: UUID) -> Problem:
    """Problems never change, so each is asked for once."""
    return scoring.client(url).problem(problem_id)
