"""STORE: columns of a query, by the fields of the class that its rows become."""

from __future__ import annotations

import dataclasses
from typing import Any

import sqlalchemy as sa

from app.store.tables import users

USER: sa.ColumnElement[str] = sa.func.coalesce(users.c.name, "local")
"""Name of a row's user; `local` for a row without one, from this machine's own terminal."""


def of(
    kind: Any, *tables: sa.FromClause, **named: sa.ColumnElement[Any]
) -> list[sa.ColumnElement[Any]]:
    """A column for each field of a dataclass: the one in `named`, else that of the first of the
    tables that has one of this name.  A field with a default may have none.  Raises LookupError.
    """
    found: list[sa.ColumnElement[Any]] = []
    for field in dataclasses.fields(kind):
        known = [table.c[field.name] for table in tables if field.name in table.c]
        if field.name in named:
            found.append(named[field.name].label(field.name))
        elif known:
            found.append(known[0])
        elif field.default is dataclasses.MISSING:
            raise LookupError(f"{kind.__name__}.{field.name}: expected a column, found none")
    return found
