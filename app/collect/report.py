"""COLLECT: a collection in figures, in one shape for the command line, the client and the API."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from app.store.collection import figures, lifecycle
from app.store.collection.lifecycle import Collection
from app.store.postgres.database import Connection

ROUNDING = 1e-6
"""Relative difference of sums of money that are the same."""


def progress(connection: Connection, name: str) -> dict[str, Any]:
    """Progress of the collection with this id or name: counts only, cheap enough for
    every second.  Raises MissingError.
    """
    return _told(connection, lifecycle.find(connection, name))


def listed(connection: Connection, *, limit: int = 50) -> list[dict[str, Any]]:
    """Progress of every collection, newest first."""
    return [_told(connection, each) for each in lifecycle.listed(connection, limit=limit)]


def summary(connection: Connection, name: str) -> dict[str, Any]:
    """Everything: counts, cost, and the quality of the answers."""
    collection = lifecycle.find(connection, name)
    quality = figures.quality(connection, collection)
    told = (
        _told(connection, collection) | _cost(connection, collection) | {"quality": asdict(quality)}
    )
    usd = told["spent"]["usd"]
    told["usd_per_solved"] = usd / quality.solved if quality.solved and usd else None
    return told


def bounds(found: Mapping[str, Any]) -> set[str]:
    """Amounts that are spent at most, of a collection with its cost: calls that told nothing, or
    are lost, count at the amounts that they had reserved.
    """
    calls = found["calls"]
    reported = {
        "tokens": sum(each["input_tokens"] + each["output_tokens"] for each in calls),
        "usd": sum(each["usd"] for each in calls),
    }
    spent = found["spent"]
    return {
        name
        for name, known in reported.items()
        if spent[name] > known and not math.isclose(spent[name], known, rel_tol=ROUNDING)
    }


def _told(connection: Connection, collection: Collection) -> dict[str, Any]:
    found = figures.progress(connection, collection)
    end = found.finished_at or datetime.now(UTC)
    return {
        "collection_id": str(found.collection_id),
        "run_id": str(collection.run_id),
        "name": found.name,
        "state": str(found.state),
        "reason": found.reason,
        "strategy": collection.spec.as_json()["strategy"],
        "endpoints": list(collection.spec.models),
        "problems": found.problems,
        "rollouts": found.rollouts,
        "rollouts_stopped": found.stopped,
        "ends": dict(found.ends),
        "budgets_reached": dict(found.budgets_reached),
        "attempts": dict(found.attempts),
        "spent": dict(found.spent),
        "reserved": dict(found.reserved),
        "caps": dict(found.caps),
        "created_at": found.created_at.isoformat(),
        "deadline_at": None if found.deadline_at is None else found.deadline_at.isoformat(),
        "finished_at": None if found.finished_at is None else found.finished_at.isoformat(),
        "waits_until": None if found.waits_until is None else found.waits_until.isoformat(),
        "waits_for": found.waits_for,
        "seconds": (end - found.created_at).total_seconds(),
        "spec_sha256": collection.spec.sha256,
    }


def _cost(connection: Connection, collection: Collection) -> dict[str, Any]:
    return {
        "calls": [asdict(each) for each in figures.spending(connection, collection.collection_id)]
    }
