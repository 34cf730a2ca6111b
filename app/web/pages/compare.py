"""BROWSE: two candidates side by side: the faster one as far as intervals tell,
differences, the preferred one.
"""

from __future__ import annotations

import flask
from werkzeug.exceptions import BadRequest
from werkzeug.wrappers import Response

from app.domain import speedup_ratio
from app.store.browse import evaluation, preferences
from app.store.review import reviews
from app.web import evaluation_diff, evaluation_view, request_context, source_view
from app.web.identity import current_user, requires
from app.web.query_parameters import reads

blueprint = flask.Blueprint("compare", __name__)

VIEWS = ("unified", "split")
"""Layouts of the difference."""


@blueprint.get("/compare")
@requires("read")
@reads("a", "b", "view", "space", "context", "wrap", "done")
def page() -> str:
    """`?a=<evaluation>&b=<evaluation>`."""
    a, b = _both()
    view = request_context.choice_argument("view", VIEWS, VIEWS[0])
    with request_context.database().snapshot() as connection:
        preferred = preferences.between(connection, a.evaluation_id, b.evaluation_id)
    comparison = _compared(a, b)
    return flask.render_template(
        "compare.html",
        a=a,
        b=b,
        comparison=comparison,
        views=[evaluation_view.Measured(side.evaluation, side.baseline) for side in (a, b)],
        edits=source_view.diff(
            b.job.candidate,
            a.job.candidate,
            ignore_space=request_context.flag_argument("space", "ignore"),
            whole=request_context.flag_argument("context", "all"),
        ),
        view=view,
        space=request_context.argument("space"),
        wrap=request_context.flag_argument("wrap"),
        figures=evaluation_diff.figures(b.evaluation, a.evaluation, comparison),
        kernels=evaluation_diff.kernels(b.evaluation.profile, a.evaluation.profile),
        preferred=preferred,
        done=request_context.argument("done"),
    )


@blueprint.get("/compare.json")
@requires("read")
@reads("a", "b")
def as_json() -> flask.Response:
    """The same for programs."""
    a, b = _both()
    comparison = _compared(a, b)
    return flask.jsonify(
        a=str(a.evaluation_id),
        b=str(b.evaluation_id),
        comparable=comparison.ratio is not None,
        why_not=comparison.why_not or None,
        ratio=vars(comparison.ratio) if comparison.ratio else None,
        figures=[
            vars(figure)
            for figure in evaluation_diff.figures(b.evaluation, a.evaluation, comparison)
        ],
        kernels=[
            vars(kernel)
            for kernel in evaluation_diff.kernels(b.evaluation.profile, a.evaluation.profile)
        ],
    )


@blueprint.post("/compare")
@requires("reviewer")
@reads("a", "b")
def prefer() -> Response | tuple[str, int]:
    """Prefer one of them, with a reason: a pair for preference training."""
    a, b = _both()
    chosen = flask.request.form.get("chosen", "")
    if chosen not in ("a", "b"):
        raise BadRequest(f"chosen: expected a or b, got {chosen!r}")
    if a.evaluation_id == b.evaluation_id or a.job.problem_id != b.job.problem_id:
        raise BadRequest("Only two evaluations of the same problem make a pair.")
    pair = (a, b) if chosen == "a" else (b, a)
    try:
        with request_context.database().begin() as connection:
            reviews.prefer(
                connection,
                current_user(),
                chosen=pair[0].evaluation_id,
                rejected=pair[1].evaluation_id,
                reason=flask.request.form.get("reason", ""),
            )
    except reviews.ReviewError as error:
        raise BadRequest(str(error)) from error
    return flask.redirect(
        flask.url_for("compare.page", a=a.evaluation_id, b=b.evaluation_id, done="preferred")
    )


def _both() -> tuple[evaluation.EvaluationPage, evaluation.EvaluationPage]:
    sides = []
    for name in ("a", "b"):
        asked = request_context.id_argument(name)
        if asked is None:
            raise BadRequest(
                f"{name}: expected the id of an evaluation, as in /compare?a=…&b=…, got nothing"
            )
        with request_context.database().snapshot() as connection:
            sides.append(request_context.one(connection, "evaluation", asked, evaluation.read))
    return sides[0], sides[1]


def _compared(
    a: evaluation.EvaluationPage, b: evaluation.EvaluationPage
) -> speedup_ratio.Comparison:
    return speedup_ratio.compared(_side(a), _side(b))


def _side(page: evaluation.EvaluationPage) -> speedup_ratio.Side:
    """The side with its problem, which is the same under another name or in another source set."""
    problem = page.job.reference, page.job.entry_point
    return evaluation_diff.side(page.evaluation, page.believed.label, page.baseline, problem)
