"""The tables.  Constraints, not callers, make a double result impossible."""

from __future__ import annotations

from app.store.tables.base import metadata
from app.store.tables.checks import problem_checks
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
from app.store.tables.datasets import candidate_features, export_jobs, problem_features, turn_features
from app.store.tables.kernelgym import kernelgym_tasks
from app.store.tables.review import preferences, review_items
from app.store.tables.rollups import attempt_counts, attempts, hourly_counts, hourly_findings, hourly_stages
from app.store.tables.service import device_events, idempotency_keys, login_failures, sessions

__all__ = [
    "api_tokens",
    "attempt_counts",
    "attempts",
    "audit_events",
    "candidate_features",
    "candidates",
    "device_events",
    "devices",
    "evaluations",
    "export_jobs",
    "export_rows",
    "exports",
    "findings",
    "hourly_counts",
    "hourly_findings",
    "hourly_stages",
    "idempotency_keys",
    "jobs",
    "kernelgym_tasks",
    "login_failures",
    "metadata",
    "preferences",
    "problem_checks",
    "problem_features",
    "problems",
    "profiles",
    "review_items",
    "reviews",
    "runs",
    "saved_filters",
    "sessions",
    "trajectories",
    "turn_features",
    "turns",
    "users",
    "verdicts",
]
