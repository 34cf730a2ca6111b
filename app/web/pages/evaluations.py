"""BROWSE: one evaluation in full, its timeline, and an operator's actions: measure
again, judge again.

The list of evaluations is `app.web.pages.candidates`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

import flask
import zstandard
from markupsafe import Markup
from werkzeug.exceptions import Conflict, NotFound
from werkzeug.wrappers import Response

from app import rejudging
from app.domain import result
from app.domain.job import JobState
from app.domain.remark import AnnotationTarget
from app.store.browse import evaluation
from app.store.evaluation import evaluations, kernel_codes
from app.store.review import remarks
from app.store.user import audit
from app.web import (
    evaluation_view,
    finding_lines,
    kernel_code_view,
    live_updates,
    request_context,
    resubmission,
    source_view,
    table_export,
)
from app.web.identity import current_user, requires
from app.web.query_parameters import checks_parameters, reads

blueprint = flask.Blueprint("evaluations", __name__, url_prefix="/evaluations")

PIECE_BYTES = 1 << 18
"""Piece of a compressed timeline in memory at a time: a 50 MB profile costs the
server no more than a small one.
"""


@blueprint.get("")
@requires("read")
@checks_parameters
def index() -> Response:
    """Lead to the list, which is at another address, with the same query."""
    query = flask.request.query_string.decode("ascii", "replace")
    return flask.redirect(flask.url_for("candidates.index") + (f"?{query}" if query else ""), 308)


def _read(evaluation_id: UUID) -> evaluation.EvaluationPage:
    return request_context.found("evaluation", evaluation_id, evaluation.read)


@blueprint.get("/<uuid:evaluation_id>")
@requires("read")
@reads("done")
def page(evaluation_id: UUID) -> str:
    """All measurements, and the verdict."""
    with request_context.database().snapshot() as connection:
        found = request_context.one(connection, "evaluation", evaluation_id, evaluation.read)
        others = evaluation.others(connection, found)
        notes = remarks.of(connection, AnnotationTarget.CANDIDATE, found.job.candidate_id)
        has_codes = kernel_codes.exist(connection, evaluation_id)
    pointed = finding_lines.of_candidate(found.believed.findings)
    return flask.render_template(
        "evaluation.html",
        page=found,
        others=others,
        has_codes=has_codes,
        notes=notes,
        job=found.job,
        evaluation=found.evaluation,
        m=evaluation_view.Measured(found.evaluation, found.baseline),
        label=found.believed.label,
        candidate=source_view.listing(found.job.candidate),
        reference=source_view.listing(found.job.reference),
        spans=pointed,
        marks=finding_lines.with_error(finding_lines.marks(pointed), found.evaluation.error),
        notice=NOTICES.get(request_context.argument("done")),
        **_state.shown(evaluation_id),
    )


@blueprint.get("/<uuid:evaluation_id>/code")
@requires("read")
@reads("kernel", "form")
def kernel_code_page(evaluation_id: UUID) -> str:
    """Triton's IR and the PTX of its kernels, beside the source."""
    with request_context.database().snapshot() as connection:
        found = request_context.one(connection, "evaluation", evaluation_id, evaluation.read)
        view = kernel_code_view.view(kernel_codes.read(connection, evaluation_id))
    if view is None:
        raise NotFound("No compiled code is stored for this evaluation.")
    return flask.render_template(
        "kernel_code.html",
        page=found,
        view=view,
        candidate=source_view.listing(found.job.candidate),
        words=kernel_code_view.FORMS,
    )


@live_updates.live_part(
    blueprint, "/<uuid:evaluation_id>/live", "evaluations", "jobs", endpoint="live_state"
)
def _state(evaluation_id: UUID) -> str:
    """State of the verdict and its reviews; the page's script loads the page again
    where it has changed.
    """
    with request_context.database().snapshot() as connection:
        found = evaluation.believed(connection, evaluation_id)
    judged = "" if found.judged_at is None else found.judged_at.isoformat()
    return str(
        Markup('<span data-state="{} {} {}"></span>').format(
            found.label, judged, len(found.reviews)
        )
    )


NOTICES = {
    "judged": "Judged again: the verdict below is that of the detectors of this version.",
    "unchanged": "Judged again: nothing changed.",
}


@blueprint.get("/<uuid:evaluation_id>.json")
@requires("read")
def as_json(evaluation_id: UUID) -> flask.Response:
    """The result in the shape that all interfaces return (app.domain.result)."""
    found = _read(evaluation_id)
    return flask.jsonify(
        result.build(
            job_id=found.job.job_id,
            state=JobState(found.job.state),
            evaluation=found.evaluation,
            verdict=found.believed.effective,
            baseline=found.baseline,
            queue_ms=found.queue_ms,
            url=request_context.settings().web_url.rstrip("/")
            + flask.url_for("evaluations.page", evaluation_id=evaluation_id),
        )
    )


TABLES = ("blocks", "cases", "checks", "kernels")


@blueprint.get(f"/<uuid:evaluation_id>/<any({','.join(TABLES)}):name>.<any(json,csv):kind>")
@requires("read")
def table(evaluation_id: UUID, name: str, kind: str) -> flask.Response:
    """One of its tables: timed blocks, cases of the problem, verified outputs,
    kernels of the profile.
    """
    found = _read(evaluation_id).evaluation
    rows: list[object] = []
    if name == "blocks":
        rows = list(found.timing.blocks) if found.timing else []
    elif name == "cases":
        rows = list(found.cases)
    elif name == "kernels":
        rows = list(found.profile.kernels) if found.profile else []
    elif found.correctness:
        rows = [
            {
                "call": trial.call,
                "seed": trial.seed,
                "variant": trial.variant,
                "case": trial.case,
                **vars(output),
            }
            for trial in found.correctness.trials
            for output in trial.outputs
        ]
    return table_export.answer(kind, name, rows)


@blueprint.get("/<uuid:evaluation_id>/timeline")
@requires("read")
def timeline_page(evaluation_id: UUID) -> str:
    """The stored timeline, drawn by a script; the kernel table says the same in numbers."""
    with request_context.database().snapshot() as connection:
        found = request_context.one(connection, "evaluation", evaluation_id, evaluation.read)
        stored = evaluation.timeline(connection, evaluation_id)
    return flask.render_template(
        "timeline.html",
        page=found,
        stored=stored,
        stages=evaluation_view.STAGE_NAMES,
        m=evaluation_view.Measured(found.evaluation, found.baseline),
    )


@blueprint.get("/speedscope")
@requires("read")
def speedscope() -> str:
    """A viewer of profiles, from `static/speedscope`; the part of the address behind
    `#` names the timeline.
    """
    return flask.render_template("speedscope.html")


@blueprint.get("/<uuid:evaluation_id>/timeline.json")
@requires("read")
def timeline(evaluation_id: UUID) -> flask.Response:
    """The stored timeline (Chrome trace events, opens in Perfetto), piece by piece, as compressed
    as it is stored where the browser understands that.
    """
    with request_context.database().snapshot() as connection:
        stored = evaluation.timeline(connection, evaluation_id)
    if stored is None:
        raise NotFound(f"There is no timeline for evaluation {evaluation_id}.")
    pieces = _pieces(evaluation_id, stored.stored_bytes)
    as_stored = flask.request.accept_encodings.quality(stored.codec) > 0
    body = pieces if as_stored else _decompressed(pieces)
    response = flask.Response(body, mimetype="application/json")
    if as_stored:
        response.headers["Content-Encoding"] = stored.codec
        response.content_length = stored.stored_bytes
    response.headers["Vary"] = "Accept-Encoding"
    response.headers.set(
        "Content-Disposition", "attachment", filename=f"timeline-{evaluation_id}.json"
    )
    return response


def _pieces(evaluation_id: UUID, stored_bytes: int) -> Iterator[bytes]:
    """The body in slices, each in a short transaction of its own: a slow reader
    holds no connection.
    """
    database = request_context.database()

    def read() -> Iterator[bytes]:
        for start in range(0, stored_bytes, PIECE_BYTES):
            with database.snapshot() as connection:
                piece = evaluation.timeline_piece(connection, evaluation_id, start, PIECE_BYTES)
            yield piece

    return read()


class _Source:
    """Source for a decompressor: returns the next piece, for any size asked for."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def read(self, _size: int) -> bytes:
        return next(self._pieces, b"")


def _decompressed(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Timelines compress a hundredfold and more: the output is bounded, not only the input."""
    with zstandard.ZstdDecompressor().stream_reader(_Source(pieces)) as reader:  # type: ignore[arg-type]
        while piece := reader.read(PIECE_BYTES):
            yield piece


@blueprint.post("/<uuid:evaluation_id>/rerun")
@requires("operator")
def rerun(evaluation_id: UUID) -> Response:
    """Measure the same candidate again, as another job with new seeds."""
    found = _read(evaluation_id)
    [receipt] = request_context.submit_batcher().accept([resubmission.request_of(found.job)])
    job_id = receipt.job_id
    with request_context.database().begin() as connection:
        audit.record(
            connection,
            current_user(),
            "evaluation.rerun",
            f"evaluation {evaluation_id}",
            {"job_id": str(job_id)},
        )
    return flask.redirect(flask.url_for("jobs.page", job_id=job_id))


@blueprint.post("/<uuid:evaluation_id>/rejudge")
@requires("operator")
def rejudge(evaluation_id: UUID) -> Response:
    """Ask the detectors of this version again; a verdict that comes out otherwise
    becomes the current one.
    """
    with request_context.database().begin() as connection:
        stored = request_context.one(connection, "evaluation", evaluation_id, evaluations.get)
        try:
            found = rejudging.rejudge(connection, stored)
        except rejudging.JudgingError as error:
            raise Conflict(
                f"Evaluation {evaluation_id} cannot be judged: {error}. Its stored verdict stays."
            ) from error
        labels = {
            "before": found.label_before and str(found.label_before),
            "after": str(found.after.label),
        }
        audit.record(
            connection, current_user(), "evaluation.rejudge", f"evaluation {evaluation_id}", labels
        )
    before, after = found.before, found.after
    changed = before is None or replace(before, detectors={}) != replace(after, detectors={})
    done = "judged" if changed else "unchanged"
    return flask.redirect(flask.url_for("evaluations.page", evaluation_id=evaluation_id, done=done))
