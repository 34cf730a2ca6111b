"""ENQUEUE: rows of Parquet files, for imports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.imports.base import BadImportError


def rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[dict[str, Any], str]]:
    """(Row, where it stands), a batch in memory at a time."""
    try:
        with pq.ParquetFile(path) as file:
            missing = sorted(set(columns) - set(file.schema_arrow.names))
            if missing:
                raise BadImportError(
                    f"{path}: expected the columns {', '.join(columns)}; {', '.join(missing)}"
                    " missing"
                )
            number = 0
            for batch in file.iter_batches(batch_size=200):
                for row in batch.to_pylist():
                    number += 1
                    yield row, f"{path}: row {number}"
    except (OSError, pa.ArrowException) as error:
        raise BadImportError(f"{path}: expected a Parquet file: {error}") from error
