"""Parts shared by all tables: one `metadata`, its names for constraints, and columns
that every table has.

Enumerations are text with a check, so that adding a value is an ordinary migration.
"""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

import sqlalchemy as sa

SHORT_ID = 8
"""Last hexadecimal digits of an id, which pages show in place of the whole."""

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def id_column(name: str) -> sa.Column:  # type: ignore[type-arg]
    """A primary key made by `app.domain.ids`."""
    return sa.Column(name, sa.Uuid, primary_key=True)


def reference(
    target: str, *, name: str | None = None, null: bool = False, index: bool = True
) -> sa.Column:  # type: ignore[type-arg]
    """A foreign key; its name is that of the column it points to."""
    column = target.split(".")[1]
    return sa.Column(name or column, sa.Uuid, sa.ForeignKey(target), nullable=null, index=index)


def created_at() -> sa.Column:  # type: ignore[type-arg]
    """Column with the start of the transaction that stored the row: a row may become visible after
    others that have a later time.
    """
    return sa.Column(
        "created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()
    )


def one_of(column: str, values: type[StrEnum] | tuple[str, ...]) -> sa.CheckConstraint:
    """A check that a text column holds one of these values."""
    listed = ", ".join(f"'{value}'" for value in values)
    return sa.CheckConstraint(f"{column} IN ({listed})", name=column)


def short_id(key: sa.Column[UUID]) -> sa.ColumnElement[str]:
    """The last SHORT_ID digits of an id, as the indexes of `short_id_index` have them."""
    return sa.func.right(sa.cast(key, sa.Text), sa.literal_column(str(SHORT_ID)))


def short_id_index(table: str, key: str) -> sa.Index:
    """Index by which the short id of a large table is found."""
    return sa.Index(f"ix_{table}_short_id", sa.text(f'"right"({key}::text, {SHORT_ID})'))
