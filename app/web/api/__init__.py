"""BROWSE: the HTTP API, `/v1`: a module per noun, `operation` for what they share, `document` for the OpenAPI document.

Bodies are JSON and strict: an unknown field is an error.  Answers are JSON, too; errors have the shape of
`app.web.errors`, results the one shape of `app.domain.result`."""

from __future__ import annotations

from app.web.api import document, evaluations, events, exports, problems, rewards, rollouts, runs, trajectories
from app.web.api.operation import blueprint

__all__ = [
    "blueprint",
    "document",
    "evaluations",
    "events",
    "exports",
    "problems",
    "rewards",
    "rollouts",
    "runs",
    "trajectories",
]
