"""BROWSE: one operation of the API: scope, body, query and answers.  The OpenAPI
document is made of these.

    @operation("POST", "/runs", Scope.SUBMIT, body=RunBody, answers={201: RunAnswer})
    def create(body: RunBody) -> flask.Response: ...
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Any, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

import flask
import msgspec
from werkzeug.exceptions import BadRequest, NotFound, UnsupportedMediaType

from app.domain import freeform
from app.domain.request import ConflictError, MissingError, RequestError
from app.domain.user import Scope
from app.web import body_limits, errors
from app.web.api import integers
from app.web.converted import converted
from app.web.identity import requires
from app.web.query_parameters import checks_parameters

blueprint = flask.Blueprint("api", __name__, url_prefix="/v1")

T = TypeVar("T", bound=msgspec.Struct)
View = Callable[..., flask.Response]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation, as the document describes it."""

    method: str
    path: str
    """Path as in Flask: `/runs/<uuid:run_id>`."""
    scope: Scope
    summary: str
    body: Any | None
    query: type[msgspec.Struct] | None
    answers: Mapping[int, Any]
    """Status → type of the JSON; None where it is something else."""
    media: str = "application/json"
    refusals: tuple[int, ...] = ()
    """Statuses of errors that it may end with, beside those of every operation."""
    headers: Mapping[str, int] = field(default_factory=dict)
    """Request headers that it reads → the most characters of each."""


OPERATIONS: dict[str, Operation] = {}
"""Name of the view → its operation, in the order in which the modules declare them."""


def operation(
    method: str,
    path: str,
    scope: Scope,
    *,
    answers: Mapping[int, Any],
    body: Any | None = None,
    query: type[msgspec.Struct] | None = None,
    refusals: tuple[int, ...] = (),
    media: str = "application/json",
    large: bool = False,
    headers: Mapping[str, int] | None = None,
) -> Callable[[View], View]:
    """Register a view.  It gets its body and its query, decoded, as `body` and
    `query`; path parameters by name.

    `large` takes bodies with sources (app.web.body_limits).
    """

    def decorate(view: View) -> View:
        @checks_parameters
        def handle(**arguments: Any) -> flask.Response:
            if query is not None:
                arguments["query"] = _query(query)
            elif flask.request.args:
                raise BadRequest(
                    f"query: unknown parameter {next(iter(flask.request.args))!r}; expected none"
                )
            if body is not None:
                arguments["body"] = _body(body)
            try:
                return view(**arguments)
            except MissingError as error:
                raise NotFound(str(error)) from error
            except ConflictError as error:
                refuse(409, "conflict", str(error))
            except RequestError as error:
                raise BadRequest(str(error)) from error

        if large:
            body_limits.large(handle)
        name = f"{view.__module__.rpartition('.')[2]}.{view.__name__}"
        OPERATIONS[name] = Operation(
            method=method,
            path=path,
            scope=scope,
            summary=(view.__doc__ or "").strip(),
            body=body,
            query=query,
            answers=answers,
            media=media,
            refusals=refusals,
            headers=headers or {},
        )
        blueprint.add_url_rule(
            path, name.replace(".", "_"), requires(scope)(handle), methods=[method]
        )
        return view

    return decorate


def answer(value: object, status: int = 200, **headers: str) -> flask.Response:
    """JSON.  Escaped to ASCII, because sources and model answers hold lone
    surrogates, which UTF-8 has not.
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain)
    response = flask.Response(text, status=status, mimetype="application/json")
    response.headers.extend({name.replace("_", "-"): value for name, value in headers.items()})
    return response


def refuse(
    status: int, kind: str, message: str, *, retry_after_s: int | None = None, **details: object
) -> NoReturn:
    """End the request with an error; with `retry_after_s` the same request may
    succeed after that many seconds.  A person, whose form leads here as well, gets a page.
    """
    if retry_after_s is not None:
        details["retry_after_s"] = retry_after_s
    response = (
        errors.as_json(status, kind, message, **details)
        if errors.for_programs()
        else errors.as_page(status, kind.replace("_", " ").capitalize(), message)
    )
    if retry_after_s is not None:
        response.headers["Retry-After"] = str(retry_after_s)
    flask.abort(response)


def decoded(value: object, kind: Any) -> Any:
    """The value as that type.  Raises RequestError with the expected value and its place."""
    try:
        return converted(value, kind)
    except msgspec.ValidationError:
        value = integers.numbers(value, msgspec.inspect.type_info(kind))
    try:
        return converted(value, kind)
    except msgspec.ValidationError as error:
        raise RequestError(str(error)) from error


def _body(kind: Any) -> Any:
    if flask.request.mimetype != "application/json":
        raise UnsupportedMediaType(
            f"expected Content-Type application/json, got {flask.request.mimetype or 'none'!r}"
        )
    try:
        value = freeform.load(flask.request.get_data(cache=False))
    except RequestError as error:
        raise BadRequest(str(error)) from error
    try:
        return decoded(value, kind)
    except RequestError as error:
        raise BadRequest(f"body: {error}") from error


def _query(kind: type[T]) -> T:
    """Query parameters; a field that is a list may be repeated, any other may not."""
    lists = {each.name for each in msgspec.structs.fields(kind) if "list" in str(each.type)}
    sent: dict[str, object] = {}
    for name, values in flask.request.args.lists():
        if len(values) > 1 and name not in lists:
            raise BadRequest(f"query: expected {name} once, got it {len(values)} times")
        sent[name] = values if name in lists else values[0]
    try:
        return kind(**{name: _parameter(kind, name, value) for name, value in sent.items()})
    except msgspec.ValidationError as error:
        raise BadRequest(f"query: {error}") from error
    except TypeError as error:  # one that is required is not there
        raise BadRequest(f"query: {error}") from error


def _parameter(kind: type[msgspec.Struct], name: str, value: object) -> object:
    """A query parameter.  It is there or it is not; `null` is a text as any other,
    and a UUID or a number never.
    """
    types = _parameter_types(kind)
    if name not in types:
        raise BadRequest(f"query: unknown parameter {name!r}; expected one of {', '.join(types)}")
    try:
        return converted(value, types[name], strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(f"query: {error} - at `$.{name}`") from error


@cache
def _parameter_types(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Name → type without null."""
    found = get_type_hints(kind, include_extras=True)
    return {name: _without_none(found[name]) for name in kind.__struct_fields__}


def _without_none(kind: Any) -> Any:
    rest = [each for each in get_args(kind) if each is not type(None)]
    return rest[0] if get_origin(kind) in (Union, UnionType) and len(rest) == 1 else kind


def _plain(value: object) -> str:
    """Ids and moments as JSON; moments as RFC 3339 has them."""
    return value.isoformat() if isinstance(value, datetime) else str(value)
