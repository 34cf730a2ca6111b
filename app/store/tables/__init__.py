"""The tables.  Constraints, not callers, make a double result impossible."""

from __future__ import annotations

from app.store.tables.base import metadata
from app.store.tables.core import (
    api_tokens,
    audit_events,
    candidates,
    devices,
    evaluations,
    export_rows,
    exports,
    findings,
    jobs,
    problems,
    profiles,
    reviews,
    runs,
    saved_filters,
    trajectories,
    turns,
    users,
    verdicts,
)

__all__ = [
    "api_tokens",
    "audit_events",
    "candidates",
    "devices",
    "evaluations",
    "export_rows",
    "exports",
    "findings",
    "jobs",
    "metadata",
    "problems",
    "profiles",
    "reviews",
    "runs",
    "saved_filters",
    "trajectories",
    "turns",
    "users",
    "verdicts",
]
