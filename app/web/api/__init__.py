"""BROWSE: the HTTP API, `/v1`: a module per noun; `endpoint` declares them,
`openapi` documents them.

Bodies are JSON and strict: an unknown field is an error.  Answers are JSON, too; errors have the
shape of `app.web.errors`, results the one shape of `app.domain.result`.
"""

from __future__ import annotations

from app.web.api import (
    collecting,
    datasets,
    evaluations,
    events,
    exports,
    openapi,
    problems,
    reviews,
    rewards,
    rollouts,
    runs,
    trajectories,
)
from app.web.api.endpoint import blueprint

__all__ = [
    "blueprint",
    "collecting",
    "datasets",
    "evaluations",
    "events",
    "exports",
    "openapi",
    "problems",
    "reviews",
    "rewards",
    "rollouts",
    "runs",
    "trajectories",
]
