"""The tables.  Constraints, not callers, make a double result impossible."""

from __future__ import annotations

from app.store.tables.base import metadata
from app.store.tables.checks import problem_checks
from app.store.tables.collection import (
    collection_rollouts,
    collections,
    endpoint_workers,
    messages,
    model_calls,
    nodes,
)
from app.store.tables.datasets import (
    candidate_features,
    export_changes,
    export_jobs,
    export_rows,
    exports,
    problem_features,
    turn_features,
)
from app.store.tables.evaluations import evaluations, findings, kernel_codes, profiles, verdicts
from app.store.tables.jobs import devices, jobs
from app.store.tables.kernelgym import kernelgym_tasks
from app.store.tables.models import endpoints, prompt_templates
from app.store.tables.operations import device_events, idempotency_keys, login_failures, sessions
from app.store.tables.remarks import comments, tags
from app.store.tables.review import (
    preferences,
    review_items,
    review_queue_reviewers,
    review_queues,
    reviews,
)
from app.store.tables.rollups import (
    attempt_counts,
    attempts,
    hourly_counts,
    hourly_findings,
    hourly_stages,
    run_rewards,
)
from app.store.tables.trajectories import candidates, problems, runs, trajectories, turns
from app.store.tables.users import api_tokens, audit_events, saved_filters, users

__all__ = [
    "api_tokens",
    "attempt_counts",
    "attempts",
    "audit_events",
    "candidate_features",
    "candidates",
    "collection_rollouts",
    "collections",
    "comments",
    "device_events",
    "devices",
    "endpoint_workers",
    "endpoints",
    "evaluations",
    "export_changes",
    "export_jobs",
    "export_rows",
    "exports",
    "findings",
    "hourly_counts",
    "hourly_findings",
    "hourly_stages",
    "idempotency_keys",
    "jobs",
    "kernel_codes",
    "kernelgym_tasks",
    "login_failures",
    "messages",
    "metadata",
    "model_calls",
    "nodes",
    "preferences",
    "problem_checks",
    "problem_features",
    "problems",
    "profiles",
    "prompt_templates",
    "review_items",
    "review_queue_reviewers",
    "review_queues",
    "reviews",
    "run_rewards",
    "runs",
    "saved_filters",
    "sessions",
    "tags",
    "trajectories",
    "turn_features",
    "turns",
    "users",
    "verdicts",
]
