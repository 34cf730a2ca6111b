"""BROWSE: two candidates side by side: which is faster as far as one can tell, what differs, which one is preferred."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import flask
from werkzeug.exceptions import BadRequest
from werkzeug.wrappers import Response

from app.domain import comparison
from app.domain.verdict import Label
from app.store import reviews
from app.store.browse import compare, evaluation
from app.web import change, code, context, measured
from app.web.identity import current_user, requires

blueprint = flask.Blueprint("compare", __name__)


@dataclass(frozen=True, kw_only=True)
class Contest:
    """The faster candidate, or the reason for which no order may be stated."""

    ratio: comparison.Ratio | None
    why_not: str


@blueprint.get("/compare")
@requires("read")
def page() -> str:
    """`?a=<evaluation>&b=<evaluation>`."""
    context.known_arguments("a", "b", "view", "space", "done")
    a, b = _both()
    view = context.argument("view") or "unified"
    with context.database().snapshot() as connection:
        preferred = compare.between(connection, a.evaluation_id, b.evaluation_id)
    return flask.render_template(
        "compare.html",
        a=a,
        b=b,
        contest=_contest(a, b),
        views=[measured.Measured(side.evaluation, side.baseline) for side in (a, b)],
        edits=code.diff(b.job.candidate, a.job.candidate, ignore_space=context.argument("space") == "ignore"),
        view=view,
        space=context.argument("space"),
        figures=change.figures(b.evaluation, a.evaluation),
        kernels=change.kernels(b.evaluation.profile, a.evaluation.profile),
        preferred=preferred,
        done=context.argument("done"),
    )


@blueprint.get("/compare.json")
@requires("read")
def as_json() -> flask.Response:
    """The same for programs."""
    a, b = _both()
    contest = _contest(a, b)
    return flask.jsonify(
        a=str(a.evaluation_id),
        b=str(b.evaluation_id),
        comparable=contest.ratio is not None,
        why_not=contest.why_not or None,
        ratio=vars(contest.ratio) if contest.ratio else None,
        figures=[vars(figure) for figure in change.figures(b.evaluation, a.evaluation)],
        kernels=[vars(kernel) for kernel in change.kernels(b.evaluation.profile, a.evaluation.profile)],
    )


@blueprint.post("/compare")
@requires("reviewer")
def prefer() -> Response | tuple[str, int]:
    """Prefer one of them, with a reason: a pair for preference training."""
    a, b = _both()
    chosen = flask.request.form.get("chosen", "")
    if chosen not in ("a", "b"):
        raise BadRequest(f"chosen: expected a or b, got {chosen!r}")
    if a.job.problem_id != b.job.problem_id:
        raise BadRequest("Only candidates of the same problem make a pair.")
    pair = (a, b) if chosen == "a" else (b, a)
    try:
        with context.database().begin() as connection:
            reviews.prefer(
                connection,
                current_user(),
                chosen=pair[0].evaluation_id,
                rejected=pair[1].evaluation_id,
                reason=flask.request.form.get("reason", ""),
            )
    except reviews.ReviewError as error:
        raise BadRequest(str(error)) from error
    return flask.redirect(_here(a.evaluation_id, b.evaluation_id, done="preferred"))


def _here(a: UUID, b: UUID, **more: Any) -> str:
    return flask.url_for("compare.page", a=a, b=b, **more)


def _both() -> tuple[evaluation.EvaluationPage, evaluation.EvaluationPage]:
    sides = []
    for name in ("a", "b"):
        asked = context.id_argument(name)
        if asked is None:
            raise BadRequest(f"{name}: expected the id of an evaluation, as in /compare?a=…&b=…, got nothing")
        with context.database().snapshot() as connection:
            sides.append(evaluation.read(connection, asked) or context.missing("evaluation", asked))
    return sides[0], sides[1]


def _contest(a: evaluation.EvaluationPage, b: evaluation.EvaluationPage) -> Contest:
    for name, side in (("A", a), ("B", b)):
        if side.evaluation.timing is None:
            return Contest(ratio=None, why_not=f"{name} was not timed")
        if side.believed.label in (None, Label.HACK):
            return Contest(ratio=None, why_not=f"{name}'s time does not count: {side.believed.label or 'not judged'}")
    differing = (
        ("problems", a.job.problem_id, b.job.problem_id),
        ("devices", a.evaluation.environment.device_name, b.evaluation.environment.device_name),
        ("baselines", a.baseline, b.baseline),
        ("measurement rules", a.evaluation.protocol, b.evaluation.protocol),
    )
    for noun, one, other in differing:
        if one != other:
            return Contest(ratio=None, why_not=f"they were measured on different {noun}")
    assert a.evaluation.timing is not None
    assert b.evaluation.timing is not None
    return Contest(ratio=comparison.ratio(a.evaluation.timing, b.evaluation.timing), why_not="")
