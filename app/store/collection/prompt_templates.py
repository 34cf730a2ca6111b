"""STORE: prompt templates.  A version never changes; one that comes with Assay is
stored when first used.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from app.domain.collection import templates
from app.domain.collection.templates import Template
from app.domain.request import RequestError
from app.store.tables import prompt_templates
from app.store.user import audit

_t = prompt_templates.c


@dataclass(frozen=True, kw_only=True)
class StoredTemplate:
    """A template, and the time from which it has been known; None for one that came
    with Assay and was never used.
    """

    template: Template
    created_at: datetime | None


def add(connection: sa.Connection, template: Template) -> bool:
    """Store a version; False where it was there already.

    Raises RequestError for a bad template, and for the name of one that comes with Assay."""
    templates.check(template)
    if any(one.name == template.name for one in templates.shipped()):
        raise RequestError(
            f"name: expected one of your own, got {template.name!r}, which comes with Assay"
        )
    new = _insert(connection, template)
    if new:
        audit.record(
            connection, None, "prompt.add", f"prompt {template.name}", {"kind": template.kind}
        )
    return new


def find(connection: sa.Connection, ref: str, kind: str) -> Template:
    """The newest template of that name, or with `name@hash` (or the beginning of one) that version.

    Raises MissingError with the names that there are."""
    known = listed(connection)
    chosen = templates.choose([one.template for one in known], ref, kind)
    if any(one.template == chosen and one.created_at is None for one in known):
        _insert(connection, chosen)
    return chosen


def listed(connection: sa.Connection) -> list[StoredTemplate]:
    """All versions, by name and kind, the newest first; those that come with this
    Assay before all others.
    """
    shipped = {(one.name, one.kind, one.sha256): one for one in templates.shipped()}
    rows = connection.execute(sa.select(prompt_templates).order_by(_t.created_at.desc())).mappings()
    stored = [
        StoredTemplate(
            template=Template(name=row["name"], kind=row["kind"], body=row["body"]),
            created_at=row["created_at"],
        )
        for row in rows
    ]
    seen = {_key(one.template) for one in stored}
    fresh = [
        StoredTemplate(template=one, created_at=None)
        for key, one in shipped.items()
        if key not in seen
    ]
    current = [one for one in stored if _key(one.template) in shipped]
    others = [one for one in stored if _key(one.template) not in shipped]
    return sorted(
        [*fresh, *current, *others], key=lambda one: (one.template.name, one.template.kind)
    )


def _insert(connection: sa.Connection, template: Template) -> bool:
    row = {**vars(template), "sha256": template.sha256}
    statement = insert(prompt_templates).values(row).on_conflict_do_nothing()
    return connection.scalar(statement.returning(_t.name)) is not None


def _key(template: Template) -> tuple[str, str, str]:
    return template.name, template.kind, template.sha256
