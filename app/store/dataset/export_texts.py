"""STORE: the texts of the attempts that an export has chosen: references, sources, dialogues."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.store.tables import candidates, problems, turns


def sources(connection: sa.Connection, candidate_ids: Sequence[str]) -> dict[str, bytes]:
    """Source by candidate."""
    return {
        identifier.decode(): value
        for identifier, value in _fetched(connection, _SOURCES, candidate_ids)
    }


def references(connection: sa.Connection, problem_ids: Sequence[str]) -> dict[str, bytes]:
    """Reference by problem."""
    return {
        identifier.decode(): value
        for identifier, value in _fetched(connection, _REFERENCES, problem_ids)
    }


class Turn(NamedTuple):
    """One turn as stored."""

    turn_index: int
    messages_json: bytes
    response: bytes


def dialogues(connection: sa.Connection, trajectory_ids: Sequence[str]) -> dict[str, list[Turn]]:
    """The turns of each trajectory, in order."""
    found: dict[str, list[Turn]] = {}
    for identifier, turn_index, messages_json, response in _fetched(
        connection, _DIALOGUES, trajectory_ids
    ):
        turn = Turn(int.from_bytes(turn_index, "big", signed=True), messages_json, response)
        found.setdefault(identifier.decode(), []).append(turn)
    return found


def _fetched(
    connection: sa.Connection, statement: bytes, wanted: Sequence[str]
) -> Iterator[tuple[bytes, ...]]:
    """Rows as PostgreSQL sends them in its binary format, none of them NULL.

    In one call of libpq: psycopg's own reading goes through Python for every 8 kB,
    which takes as long as the rest.
    """
    raw = connection.connection.driver_connection
    assert isinstance(raw, psycopg.Connection)
    listed = "{" + ",".join(wanted) + "}"
    result = raw.pgconn.exec_params(
        statement, [listed.encode()], result_format=psycopg.pq.Format.BINARY
    )
    if result.status != psycopg.pq.ExecStatus.TUPLES_OK:
        raise psycopg.errors.error_from_result(result)
    columns = range(result.nfields)
    for row in range(result.ntuples):
        yield tuple([result.get_value(row, column) or b"" for column in columns])


def _among(column: sa.Column[UUID]) -> sa.ColumnElement[bool]:
    wanted = sa.bindparam("wanted", type_=sa.ARRAY(sa.Text))
    return column == sa.any_(sa.cast(wanted, sa.ARRAY(sa.Uuid)))


def _text(column: sa.Column[UUID]) -> sa.ColumnElement[str]:
    """An id as text: making an object of each costs more than anything else that is
    done with it.
    """
    return sa.cast(column, sa.Text)


def _statement(query: sa.Select[Any]) -> bytes:
    """Compiled once: they are asked for hundreds of times an export."""
    return str(query.compile(dialect=_NUMBERED)).encode()


_NUMBERED = postgresql.dialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]
"""Parameters as the server itself takes them: `$1`."""
_SOURCES = _statement(
    sa.select(_text(candidates.c.candidate_id), candidates.c.source).where(
        _among(candidates.c.candidate_id)
    )
)
_REFERENCES = _statement(
    sa.select(_text(problems.c.problem_id), problems.c.reference).where(
        _among(problems.c.problem_id)
    )
)
_DIALOGUES = _statement(
    sa.select(
        _text(turns.c.trajectory_id),
        turns.c.turn_index,
        sa.func.convert_to(turns.c.messages_json, sa.literal_column("'UTF8'")),
        turns.c.response,
    )
    .where(_among(turns.c.trajectory_id))
    .order_by(turns.c.trajectory_id, turns.c.turn_index)
)
