"""STORE: endpoints of models.  A row names the environment variable of a key and
never holds one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from app.domain.collection.call import EndpointConfig
from app.domain.request import MissingError, RequestError
from app.store.tables import endpoints
from app.store.user import audit

_e = endpoints.c


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A stored endpoint."""

    config: EndpointConfig
    created_at: datetime
    probed_at: datetime | None


def add(connection: sa.Connection, config: EndpointConfig, *, replace: bool = False) -> None:
    """Store an endpoint.  Raises RequestError where the name is taken and `replace` is not set.

    A changed endpoint has to be probed again: its capabilities are those of `config`."""
    row = {"name": config.name, "config": asdict(config), "probed_at": None}
    statement = insert(endpoints).values(row)
    if replace:
        statement = statement.on_conflict_do_update(index_elements=[_e.name], set_=row)
    else:
        statement = statement.on_conflict_do_nothing()
    if connection.scalar(statement.returning(_e.name)) is None:
        raise RequestError(
            f"endpoint: expected a new name, got {config.name!r}, which exists (--replace"
            " changes it)"
        )
    audit.record(
        connection, None, "endpoint.add", f"endpoint {config.name}", {"base_url": config.base_url}
    )


def get(connection: sa.Connection, name: str) -> EndpointConfig:
    """The endpoint with this name.  Raises MissingError with the known names."""
    return find(connection, name).config


def find(connection: sa.Connection, name: str) -> Endpoint:
    """The endpoint with this name and its dates.  Raises MissingError."""
    row = connection.execute(sa.select(endpoints).where(_e.name == name)).mappings().first()
    if row is None:
        known = (
            ", ".join(connection.scalars(sa.select(_e.name).order_by(_e.name)))
            or "none (assay endpoint add)"
        )
        raise MissingError(f"no endpoint {name!r}; there are: {known}")
    return _endpoint(row)


def listed(connection: sa.Connection) -> list[Endpoint]:
    """All endpoints, by name."""
    rows = connection.execute(sa.select(endpoints).order_by(_e.name)).mappings()
    return [_endpoint(row) for row in rows]


def probed(
    connection: sa.Connection, asked: EndpointConfig, capabilities: Mapping[str, Any]
) -> None:
    """Store the findings of a probe of the endpoint as it was asked.  Raises MissingError, and
    RequestError where the endpoint has been changed since: the findings are not about it.
    """
    connection.execute(
        sa.select(_e.name).where(_e.name == asked.name).with_for_update(key_share=True)
    )
    stored = get(connection, asked.name)
    if replace(stored, capabilities={}) != replace(asked, capabilities={}):
        raise RequestError(
            f"endpoint {asked.name!r}: expected the one that was probed, got another one, stored"
            " meanwhile; probe it again"
        )
    config = replace(stored, capabilities=capabilities)
    values = {"config": asdict(config), "probed_at": sa.func.now()}
    connection.execute(sa.update(endpoints).where(_e.name == asked.name).values(values))


def remove(connection: sa.Connection, name: str) -> None:
    """Delete an endpoint; its calls stay.  Raises MissingError."""
    find(connection, name)
    connection.execute(sa.delete(endpoints).where(_e.name == name))
    audit.record(connection, None, "endpoint.remove", f"endpoint {name}")


def parsed(config: Mapping[str, Any]) -> EndpointConfig:
    """The configuration in a row."""
    return msgspec.convert(config, EndpointConfig)


def _endpoint(row: sa.RowMapping) -> Endpoint:
    return Endpoint(
        config=parsed(row["config"]), created_at=row["created_at"], probed_at=row["probed_at"]
    )
