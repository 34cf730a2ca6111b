"""BROWSE: `/v1/problems`: references, by content."""

from __future__ import annotations

from uuid import UUID

import flask
from msgspec import Struct

from app.domain.problem import Problem
from app.domain.request import MAX_SOURCE_BYTES, RequestError
from app.domain.source import source_text
from app.domain.user import Scope
from app.store.trajectory import problems
from app.web import request_context
from app.web.api import schemas
from app.web.api.endpoint import answer, operation
from app.web.api.listing import ListQuery, newest_first
from app.web.api.schemas import Name, ProblemBody


class ProblemLine(Struct, kw_only=True):
    """A problem without its source."""

    problem_id: UUID
    name: str
    source_set: str
    level: int | None
    entry_point: str
    reference_sha256: str


class ProblemAnswer(ProblemLine, kw_only=True):
    """A problem."""

    reference: str
    """Its source; bytes that are not UTF-8 are replaced."""


class ProblemList(Struct, kw_only=True):
    """Problems, newest first."""

    problems: list[ProblemLine]
    next: str | None
    """Where the list goes on."""


class ProblemQuery(ListQuery, forbid_unknown_fields=True, kw_only=True):
    """Selection of problems."""

    source_set: Name | None = None
    name: Name | None = None


@operation(
    "POST",
    "/problems",
    Scope.SUBMIT,
    body=ProblemBody,
    answers={201: ProblemAnswer},
    refusals=(413,),
    large=True,
)
def create(body: ProblemBody) -> flask.Response:
    """Store a problem; the same again is the same problem."""
    problem = schemas.problem(body)
    if len(problem.reference) > MAX_SOURCE_BYTES:
        raise RequestError(
            f"reference: expected at most {MAX_SOURCE_BYTES} bytes, got {len(problem.reference)}"
        )
    with request_context.database().begin() as connection:
        [problem_id] = problems.add(connection, [problem])
    return answer(
        _whole(problem_id, problem),
        201,
        Location=flask.url_for("api.problems_read", problem_id=problem_id),
    )


@operation("GET", "/problems", Scope.READ, query=ProblemQuery, answers={200: ProblemList})
def index(query: ProblemQuery) -> flask.Response:
    """Problems, newest first."""
    return newest_first("problems", "problem_id", problems.listed, query)


@operation(
    "GET", "/problems/<uuid:problem_id>", Scope.READ, answers={200: ProblemAnswer}, refusals=(404,)
)
def read(problem_id: UUID) -> flask.Response:
    """One problem with its source."""
    found = request_context.found("problem", problem_id, problems.get)
    return answer(_whole(problem_id, found))


def _whole(problem_id: UUID, problem: Problem) -> dict[str, object]:
    return {
        "problem_id": problem_id,
        "name": problem.name,
        "source_set": problem.source_set,
        "level": problem.level,
        "entry_point": problem.entry_point,
        "reference_sha256": problem.reference_sha256,
        "reference": source_text.display(problem.reference),
    }
