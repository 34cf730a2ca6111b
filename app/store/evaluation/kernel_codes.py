"""STORE: code that a compiler made of an evaluation's kernels (Triton's IR, PTX), compressed.  For
people to read; old ones are deleted with the timelines (`app.store.evaluation.retention`).
"""

from __future__ import annotations

from uuid import UUID

import msgspec
import sqlalchemy as sa
import zstandard

from app.domain.evidence import KernelCode
from app.store.postgres import jsonb
from app.store.tables import kernel_codes

ZSTD_LEVEL = 9
"""A Triton softmax: 120 KB become 10 KB in 16 ms, a tenth less than at 3."""
MOST_BYTES = 8 << 20
"""Size above which a stored row is not unpacked: the referee sends a mebibyte at most."""


def add(connection: sa.Connection, evaluation_id: UUID, codes: tuple[KernelCode, ...]) -> None:
    """Store the codes of an evaluation's kernels."""
    raw = msgspec.json.encode(jsonb.plain([msgspec.to_builtins(each) for each in codes]))
    row = {
        "evaluation_id": evaluation_id,
        "raw_bytes": len(raw),
        "body": zstandard.compress(raw, ZSTD_LEVEL),
    }
    connection.execute(sa.insert(kernel_codes), row)


def read(connection: sa.Connection, evaluation_id: UUID) -> tuple[KernelCode, ...]:
    """Codes of an evaluation's kernels in the order in which they were made; empty
    where none are stored.
    """
    body = connection.scalar(
        sa.select(kernel_codes.c.body).where(kernel_codes.c.evaluation_id == evaluation_id)
    )
    if body is None:
        return ()
    raw = zstandard.ZstdDecompressor().decompress(body, max_output_size=MOST_BYTES)
    return msgspec.json.decode(raw, type=tuple[KernelCode, ...])


def exist(connection: sa.Connection, evaluation_id: UUID) -> bool:
    """True if any are stored."""
    found = sa.select(sa.true()).where(kernel_codes.c.evaluation_id == evaluation_id)
    return connection.scalar(found) is not None
