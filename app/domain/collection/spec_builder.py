"""COLLECT: dataclasses of a specification from JSON or TOML, with errors that name the key."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from app.domain.request import RequestError, check_text

T = TypeVar("T")
MOST_INT = (1 << 63) - 1
"""Greatest whole number: columns of the database have 64 bits."""
MOST_FLOAT = 1 << 1023
"""Least power of two above which `float` of a whole number may overflow: it counts as infinite."""


def build(kind: type[T], value: object, where: str) -> T:
    """A frozen dataclass of the mapping.  Raises RequestError that names an unknown,
    missing or ill-typed key.
    """
    if not isinstance(value, Mapping):
        raise RequestError(f"{where or 'specification'}: expected a table, got {_shown(value)}")
    types = get_type_hints(kind)
    known = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]  # every T is a dataclass
    for name in value:
        if name not in known:
            raise RequestError(
                f"{_at(where, str(name))}: unknown key; expected one of"
                f" {_expected(str(name), known)}"
            )
    required = [
        each.name
        for each in known.values()
        if each.default is MISSING and each.default_factory is MISSING
    ]
    missing = [name for name in required if name not in value]
    if missing:
        raise RequestError(f"{_at(where, missing[0])}: expected a value, got none")
    arguments = {
        name: _convert(types[name], item, _at(where, name)) for name, item in value.items()
    }
    try:
        return kind(**arguments)
    except RequestError as error:
        message = str(error)
        raise RequestError(
            f"{where}.{message}" if where and not message.startswith(where) else message
        ) from error


def _convert(kind: Any, value: object, where: str) -> Any:
    options = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    if value is None and NoneType in options:
        return None
    for option in options:
        if option is not NoneType:
            return _as(option, value, where)
    raise AssertionError(f"{where}: no type to convert to")


def _as(kind: Any, value: object, where: str) -> Any:
    origin = get_origin(kind)
    if kind is Any:
        return value
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise RequestError(f"{where}: expected a list, got {_shown(value)}")
        return tuple(
            _convert(get_args(kind)[0], item, f"{where}[{index}]")
            for index, item in enumerate(value)
        )
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise RequestError(f"{where}: expected a table, got {_shown(value)}")
        return dict(value)
    if hasattr(kind, "__dataclass_fields__"):
        return value if isinstance(value, kind) else build(kind, value, where)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if abs(value) < MOST_FLOAT else math.inf
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)  # 3.0 is a whole number in JSON
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise RequestError(
            f"{where}: expected {_NAMES.get(kind, kind.__name__)}, got {_shown(value)}"
        )
    if kind is int and abs(value) > MOST_INT:
        raise RequestError(f"{where}: expected a whole number of 64 bits, got {_shown(value)}")
    if kind is float and not math.isfinite(value):
        raise RequestError(f"{where}: expected a finite number, got {_shown(value)}")
    if kind is str:
        check_text(where, value)
    return value


_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def _expected(name: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return ", ".join(known) + (f" (did you mean {close[0]!r}?)" if close else "")


def _at(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _shown(value: object) -> str:
    return repr(value)[:80]
