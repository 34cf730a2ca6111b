"""BROWSE: errors of the KernelGYM protocol: bad requests are 400 in one shape,
everything else `{"detail": …}`.
"""

from __future__ import annotations

from typing import Any

import flask
from werkzeug.exceptions import HTTPException, Unauthorized
from werkzeug.wrappers import Response

from app.domain.request import RequestError
from app.store.postgres.database import DatabaseUnavailableError
from app.web.compat.kernelgym import responses
from app.web.compat.kernelgym.requests import BodyError, UnknownWorkflowError

RETRY_S = 5
"""Seconds after which to come back after a 503."""


def install(blueprint: flask.Blueprint) -> None:
    """Have the routes of `blueprint` answer errors as KernelGYM does."""
    blueprint.register_error_handler(BodyError, _invalid)
    blueprint.register_error_handler(RequestError, _invalid)
    blueprint.register_error_handler(UnknownWorkflowError, _unknown_workflow)
    blueprint.register_error_handler(HTTPException, _detail)
    blueprint.register_error_handler(
        Unauthorized, _detail
    )  # by its code: pages would lead to a login form
    blueprint.register_error_handler(DatabaseUnavailableError, _unavailable)


def infrastructure(task_id: str, result: responses.Result) -> Response:
    """503 for a failure of Assay's own: the published client posts it again, which
    evaluates it again.  A reward it is not: a client that gives up finds `failed` and
    SYSTEM_ERROR at /status, never a result.
    """
    message = (
        result["error"]["message"]
        if result["error"]
        else "an infrastructure fault ended the evaluation"
    )
    return _shaped(503, "InfrastructureError", message, responses.SYSTEM_ERROR, task_id)


def _invalid(error: ValueError) -> Response:
    return _shaped(
        400,
        "RequestValidationError",
        f"Request validation failed: {error}",
        "VALIDATION_ERROR",
        None,
    )


def _unknown_workflow(error: UnknownWorkflowError) -> Response:
    return _with_status(flask.jsonify(detail=str(error)), 400)


def _detail(error: HTTPException) -> Response:
    if error.response is not None:  # made for this, with its Retry-After
        return flask.current_app.make_response(error.get_response())
    response = _with_status(flask.jsonify(detail=error.description), error.code or 500)
    response.headers.extend(
        header for header in error.get_headers() if header[0] in {"Allow", "WWW-Authenticate"}
    )
    return response


def _unavailable(error: DatabaseUnavailableError) -> Response:
    flask.current_app.logger.error("%s", error)  # strangers are not told where the database is
    return _shaped(
        503, "ServiceUnavailable", "the database is not reachable", responses.SYSTEM_ERROR, None
    )


def _shaped(status: int, error: str, message: str, code: str, task_id: str | None) -> Response:
    body: dict[str, Any] = {
        "error": error,
        "message": message,
        "error_code": code,
        "task_id": task_id,
        "timestamp": responses.timestamp(),
    }
    response = _with_status(flask.jsonify(body), status)
    response.headers["X-Error-Code"] = code
    if status == 503:
        response.headers["Retry-After"] = str(RETRY_S)
    return response


def _with_status(response: Response, status: int) -> Response:
    response.status_code = status
    return response
