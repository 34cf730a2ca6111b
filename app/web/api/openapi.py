"""BROWSE: `/v1/openapi.json`: the API for programs, made of the operations themselves."""

from __future__ import annotations

import re
from functools import cache
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

import flask
import msgspec

from app.domain.dataset.selection import Spec
from app.web.api import collection_schema, schema_constraints
from app.web.api.endpoint import OPERATIONS, Operation, answer, blueprint
from app.web.api.schemas import ErrorAnswer
from app.web.identity import public

_REF = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"<(?:(?P<kind>\w+):)?(?P<name>\w+)>")
_ALWAYS = (400, 401, 403, 405, 408, 414, 500, 503)
"""Statuses of errors that every operation may end with."""


@blueprint.get("/openapi.json")
@public
def serve() -> flask.Response:
    """The document, without login: it contains nothing that is not in the source."""
    return answer(document())


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document, version 3.1."""
    operations = list(OPERATIONS.values())
    named = [
        kind
        for each in operations
        for kind in (each.body, *each.answers.values())
        if kind is not None
    ]
    queried = [each.query for each in operations if each.query is not None]
    kinds = [*named, *queried, ErrorAnswer, Spec]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    of = dict(zip(kinds, schemas, strict=True))
    components |= collection_schema.components()
    schema_constraints.refine(components)
    components["CollectionBody"]["properties"]["spec"] = {
        "$ref": _REF.format(name=collection_schema.NAME)
    }
    parameters = {kind: _query_parameters(components[kind.__name__]) for kind in queried}
    for kind in queried:
        components.pop(kind.__name__, None)
    paths: dict[str, Any] = {}
    for name, each in OPERATIONS.items():
        path = "/v1" + _PARAMETER.sub(r"{\g<name>}", each.path)
        listed = [*_path_parameters(each.path), *(parameters[each.query] if each.query else [])]
        listed += [_header(header, most) for header, most in each.headers.items()]
        paths.setdefault(path, {})[each.method.lower()] = _described(name, each, listed, of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Assay",
            "version": version("kernel-assay"),
            "license": {"name": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _described(
    name: str, operation: Operation, parameters: list[Any], of: dict[Any, Any]
) -> dict[str, Any]:
    summary, _, more = operation.summary.partition("\n\n")
    described: dict[str, Any] = {
        "operationId": name.replace(".", "_"),
        "summary": " ".join(summary.split()),
        "description": f"{' '.join(more.split())} Scope: `{operation.scope}`.".strip(),
        "tags": [name.partition(".")[0]],
        "parameters": parameters,
        "responses": {
            **{
                str(status): _response(status, operation.media, of.get(kind))
                for status, kind in operation.answers.items()
            },
            **{
                str(status): _response(status, "application/json", of[ErrorAnswer])
                for status in sorted(
                    {*_ALWAYS, *operation.refusals, *((413, 415) if operation.body else ())}
                )
            },
        },
    }
    if operation.body is not None:
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": of[operation.body]}},
        }
    return described


def _response(status: int, media: str, schema: Any) -> dict[str, Any]:
    return {
        "description": HTTPStatus(status).phrase,
        "content": {media: {"schema": schema or {"type": "string"}}},
    }


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {
            "name": found["name"],
            "in": "path",
            "required": True,
            "schema": {"type": "string", **({"format": "uuid"} if found["kind"] == "uuid" else {})},
        }
        for found in _PARAMETER.finditer(path)
    ]


def _header(name: str, most: int) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "schema": {"type": "string", "maxLength": most},
    }


def _query_parameters(schema: dict[str, Any]) -> list[dict[str, Any]]:
    required = set(schema.get("required", ()))
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _without_null(kind)}
        for name, kind in schema["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A query parameter is there or it is not; `null` would be a word."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name != "anyOf" and value is not None}
    return {**rest, **kinds[0]} if len(kinds) == 1 else schema
