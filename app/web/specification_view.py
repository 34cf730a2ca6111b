"""BROWSE: the specification of a collection, part by part, as people read it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

GENERAL = "general"
"""Title of the settings that stand in no table."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One table of the specification."""

    title: str
    settings: tuple[tuple[str, str], ...]
    """Name and value; those without a value are left out."""


def parts(spec: Mapping[str, Any]) -> list[Part]:
    """Parts of a specification as JSON: settings without a table, then each table that has any."""
    tables = {name: value for name, value in spec.items() if isinstance(value, Mapping)}
    alone = {name: value for name, value in spec.items() if name not in tables}
    found = {GENERAL: alone, **tables}
    listed = {title: tuple(_settings(table)) for title, table in found.items()}
    return [Part(title=title, settings=settings) for title, settings in listed.items() if settings]


def _settings(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Settings of a table; those of tables in it are named with the table's name."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _settings(value, f"{before}{name}, ")
        elif value is not None and value != []:
            yield f"{before}{name}", _text(value)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and not any(isinstance(each, (list, Mapping)) for each in value):
        return ", ".join(map(_text, value))
    return value if isinstance(value, str) else json.dumps(value)
