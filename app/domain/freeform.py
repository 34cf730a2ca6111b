"""Free-form JSON from clients: how deep it may be, and which values PostgreSQL keeps.

A value that is stored is read again by every list that shows it, so one that cannot be written as
JSON, or with a nesting that exhausts the interpreter's stack, breaks those lists for all.  It is
refused where it comes in, and cut where an older version has stored it.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from app.domain.request import RequestError, check_text

MOST_DEPTH = 32
"""Lists and objects inside each other in one free-form field.  Settings of published
harnesses have three or four.
"""
MOST_BODY_DEPTH = 40
"""The same for a whole body: a free-form field lies at most five levels below its beginning."""
MOST_VALUES = 8_000_000
"""Brackets, braces and commas of a body, those in its texts among them: 64 MB of
sources have some four million.  A body of nothing else takes ten seconds to decode, in
which a server answers no request.
"""
CUT = "… (nested too deep)"
"""Stands for the part of a shown value below MOST_DEPTH levels."""


def load(body: bytes) -> Any:
    """The JSON of a request's body.  Raises RequestError where it is none, has no finite number, is
    too deep, or has more than MOST_VALUES values.
    """
    if sum(map(body.count, (b"[", b"{", b","))) > MOST_VALUES:
        raise RequestError(f"body: expected at most {MOST_VALUES} brackets and commas, got more")
    try:
        value = json.loads(body, parse_constant=_no_constant, parse_float=_finite)
    except RecursionError as error:
        raise RequestError(_too_deep("body", MOST_BODY_DEPTH)) from error
    except ValueError as error:
        raise RequestError(f"body: expected JSON, got something that is none: {error}") from error
    check_depth(value, "body", most=MOST_BODY_DEPTH)
    return value


def check(value: object, where: str) -> None:
    """Raise RequestError for values that JSONB cannot hold or lists cannot show: NUL, lone
    surrogates, NaN and infinities, objects that JSON has not, and more than MOST_DEPTH levels.
    """
    check_depth(value, where)
    _check_values(value, where)


def check_depth(value: object, where: str, *, most: int = MOST_DEPTH) -> None:
    """Raise RequestError where more than `most` lists and objects are inside each
    other.  Needs no stack.
    """
    level = [value]
    for _ in range(most):
        level = [
            item for each in level for item in _items(each) if isinstance(item, (dict, list, tuple))
        ]
        if not level:
            return
    raise RequestError(_too_deep(where, most))


def cut(value: Any, most: int = MOST_DEPTH) -> Any:
    """The value with CUT in place of all parts deeper than `most` levels."""
    if not isinstance(value, (dict, list)):
        return value
    if most == 0:
        return CUT
    if isinstance(value, dict):
        return {name: cut(item, most - 1) for name, item in value.items()}
    return [cut(item, most - 1) for item in value]


def _items(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, (list, tuple)) else []


def _check_values(value: object, where: str) -> None:
    if isinstance(value, str):
        check_text(where, value)
    elif isinstance(value, float) and not math.isfinite(value):
        raise RequestError(f"{where}: expected a finite number, got {value!r}")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise RequestError(f"{where}: expected keys that are text, got {key!r}")
            _check_values(key, where)
            _check_values(item, f"{where}.{key}")
    elif isinstance(value, (list, tuple)):
        for item in value:
            _check_values(item, where)
    elif value is not None and not isinstance(value, (int, float)):
        raise RequestError(f"{where}: expected a value of JSON, got a {type(value).__name__}")


def _too_deep(where: str, most: int) -> str:
    return f"{where}: expected at most {most} lists and objects inside each other, got more"


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is beyond a 64-bit float")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
