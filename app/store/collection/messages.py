"""STORE: messages, addressed by content: one row for each text and role."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import sqlalchemy as sa
import zstandard
from sqlalchemy.dialects.postgresql import ARRAY

from app.domain.source import source_text
from app.domain.trajectory import Message
from app.store import tables
from app.store.postgres import bulk

ZSTD_LEVEL = 3
"""Level of compression: zstd's default."""

_m = tables.messages.c


def digest(message: Message) -> bytes:
    """Key of a message."""
    return hashlib.sha256(
        message.role.encode() + b"\x00" + source_text.encode(message.content)
    ).digest()


def keep(connection: sa.Connection, messages: Sequence[Message]) -> list[bytes]:
    """Store those that are new; their keys, in their order."""
    keys = [digest(message) for message in messages]
    rows = {
        key: {
            "message_sha256": key,
            "role": message.role,
            "content": zstandard.compress(source_text.encode(message.content), ZSTD_LEVEL),
        }
        for key, message in zip(keys, messages, strict=True)
    }
    bulk.insert_missing(
        connection, tables.messages, list(rows.values()), unique=("message_sha256",)
    )
    return keys


def load(connection: sa.Connection, keys: Iterable[bytes]) -> dict[bytes, Message]:
    """Messages by their keys."""
    wanted = sorted(set(keys))
    found = connection.execute(_LOAD, {"keys": wanted})
    return {
        row.message_sha256: Message(
            role=row.role, content=source_text.decode(zstandard.decompress(row.content))
        )
        for row in found
    }


_LOAD = sa.select(_m.message_sha256, _m.role, _m.content).where(
    _m.message_sha256 == sa.func.any(sa.bindparam("keys", type_=ARRAY(sa.LargeBinary)))
)
