"""STORE: the audit log as a list: by user, action and subject, in both directions."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa

from app.store.browse import paging
from app.store.postgres import row_columns
from app.store.tables import audit_events, users
from app.store.user.audit import Event

_a = audit_events.c


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Conditions of the log; an empty one excludes nothing."""

    user: str = ""
    """Exact name."""
    action: str = ""
    """Action, or the noun before its dot."""
    subject: str = ""
    """Exact subject."""


def page(
    connection: sa.Connection, wanted: Filter, window: paging.Window[UUID]
) -> paging.Page[Event]:
    """Events that meet the conditions, by time."""
    order = paging.Order(value=_a.created_at, key=_a.audit_event_id, nullable=False)

    def load(keys: list[UUID]) -> list[Event]:
        columns = row_columns.of(Event, audit_events, user=users.c.name)
        query = (
            sa.select(*columns)
            .select_from(audit_events.outerjoin(users))
            .where(_a.audit_event_id.in_(keys))
        )
        found = {
            row["audit_event_id"]: Event(**row) for row in connection.execute(query).mappings()
        }
        return [found[key] for key in keys]

    return order.page(connection, _matching(wanted), load, window)


def total(connection: sa.Connection, wanted: Filter) -> paging.Total:
    """Number of events that `page` lists."""
    return paging.total(connection, _matching(wanted))


def actions(connection: sa.Connection) -> list[str]:
    """Every action in the log, by name."""
    return list(connection.scalars(sa.select(_a.action).distinct().order_by(_a.action)))


def _matching(wanted: Filter) -> sa.Select[tuple[UUID]]:
    query = sa.select(_a.audit_event_id).select_from(audit_events)
    if wanted.user:
        query = query.where(
            _a.user_id.in_(sa.select(users.c.user_id).where(users.c.name == wanted.user))
        )
    if wanted.action:
        noun = _a.action.startswith(f"{wanted.action}.", autoescape=True)
        query = query.where(sa.or_(_a.action == wanted.action, noun))
    if wanted.subject:
        query = query.where(_a.subject == wanted.subject)
    return query
