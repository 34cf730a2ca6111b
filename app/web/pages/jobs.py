"""BROWSE: one job, the page that every result's `url` points to."""

from __future__ import annotations

from uuid import UUID

import flask

from app.store.browse import job
from app.web import code, context
from app.web.identity import requires

blueprint = flask.Blueprint("jobs", __name__, url_prefix="/jobs")


def _read(job_id: UUID) -> job.JobPage:
    with context.database().snapshot() as connection:
        found = job.read(connection, job_id)
    return found or context.missing("job", job_id)


@blueprint.get("/<uuid:job_id>")
@requires("read")
def page(job_id: UUID) -> str:
    """State, attempts and, of a failed job, the error."""
    found = _read(job_id)
    return flask.render_template("job.html", job=found, candidate=code.listing(found.candidate))


@blueprint.get("/<uuid:job_id>/candidate.py")
@requires("read")
def candidate(job_id: UUID) -> flask.Response:
    """The candidate exactly as it was submitted."""
    return context.attachment(_read(job_id).candidate, f"candidate-{job_id}.py")
