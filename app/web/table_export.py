"""BROWSE: every table as JSON and as CSV, at the page's own URL with `.json` or
`.csv` behind the path.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import flask

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Characters that begin a formula in a spreadsheet's cell."""


def answer(kind: str, name: str, rows: Iterable[Any]) -> flask.Response:
    """Rows (dataclasses or mappings with the same keys) as `kind`.  Numbers are not
    rounded; None is null or empty.
    """
    records = [_record(row) for row in rows]
    if kind == "json":
        return flask.jsonify(
            {name: [{key: _plain(value) for key, value in record.items()} for record in records]}
        )
    body = io.StringIO()
    writer = csv.writer(body)
    if records:
        writer.writerow(records[0])
        writer.writerows([_cell(value) for value in record.values()] for record in records)
    response = flask.Response(body.getvalue(), mimetype="text/csv")
    response.headers.set("Content-Disposition", "attachment", filename=f"{name}.csv")
    return response


def links(endpoint: str, **arguments: Any) -> dict[str, str]:
    """Kind → URL of the same table."""
    return {kind: flask.url_for(endpoint, kind=kind, **arguments) for kind in ("json", "csv")}


def _record(row: Any) -> Mapping[str, Any]:
    if is_dataclass(row):
        return {field.name: getattr(row, field.name) for field in fields(row)}
    assert isinstance(row, Mapping)
    return row


def _plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return {key: _plain(item) for key, item in _record(value).items()}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


def _cell(value: Any) -> Any:
    """A cell; text that a spreadsheet would run is quoted for it, a value with parts is JSON."""
    plain = _plain(value)
    if isinstance(plain, dict | list):
        return json.dumps(plain, ensure_ascii=False)
    if isinstance(plain, str) and plain.startswith(_FORMULA):
        return f"'{plain}"
    return plain
