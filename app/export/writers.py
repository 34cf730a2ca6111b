"""EXPORT: the files of a dataset: Parquet in small row groups, or JSON lines, hashed
as bytes and as content.

The Hub's viewer refuses row groups beyond about 286 MiB in memory, so groups are
small and carry a page index.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.export.manifest import FileEntry, canonical
from app.formats.base import MESSAGES

ROW_GROUP_ROWS = 500
"""Rows of a Parquet row group."""
COMPRESSION = "zstd"

DICTIONARY_BYTES = 16 << 20
"""Size of a row group: turns of a dialogue stand in several rows, and are compressed
and stored once.
"""

_NUMBERED = pa.dictionary(pa.int32(), pa.string())
_NUMBERED_MESSAGES = pa.list_(
    pa.struct([(part.name, _NUMBERED) for part in MESSAGES.value_type.fields])
)
"""Messages as they are handed to Parquet, which stores them so: every text once, and
its number where it stands.
"""

LINEAGE_STEM = "lineage"
DECISIONS_STEM = "decisions"

UNREADABLE = (OSError, ValueError, KeyError, pa.ArrowException)
"""Exceptions raised by reading a damaged or foreign file."""


class ParquetTable:
    """One Parquet file, written a row group at a time."""

    def __init__(self, path: Path, schema: pa.Schema, *, group_rows: int = ROW_GROUP_ROWS) -> None:
        path.parent.mkdir(exist_ok=True)
        self.path = path
        self.schema = schema
        self.rows = 0
        self.memory_bytes = 0
        """Size of the buffered rows in Arrow's memory format."""
        self._names = set(schema.names)
        self._order: list[str] = []
        """Columns in the order of the first row."""
        self._group_rows = group_rows
        self._waiting: list[dict[str, Any]] = []
        self._messages = _Messages()
        self._dialogues = [one.name for one in schema if one.type.equals(MESSAGES)]
        self._handed = pa.schema([one.with_type(_handed(one.type)) for one in schema])
        self._content = hashlib.sha256()
        self._file = pq.ParquetWriter(
            path,
            self._handed,
            compression=COMPRESSION,
            write_page_index=True,
            dictionary_pagesize_limit=DICTIONARY_BYTES,
            store_schema=False,  # readers shall find strings, not how they came
        )

    def add(self, row: dict[str, Any]) -> str:
        """Take a row; its content hash.

        Raises ValueError where the row has other columns than the schema, pyarrow.ArrowInvalid (a
        ValueError) where a value does not fit: when its group is written.
        """
        if (order := list(row)) != self._order:
            if row.keys() != self._names:
                raise ValueError(
                    f"{self.path.name}: expected columns {self.schema.names}, got {order}"
                )
            self._order = self._order or order
            row = {name: row[name] for name in self._order}
        written = {name: self._messages.written(name, row[name]) for name in self._dialogues}
        row_sha256 = hashlib.sha256(canonical(row | written)).hexdigest()
        self._content.update(row_sha256.encode())
        self._waiting.append(row)
        self.rows += 1
        if len(self._waiting) >= self._group_rows:
            self._flush()
        return row_sha256

    def add_group(self, written: Iterable[bytes], group: pa.RecordBatch) -> None:
        """Take the rows of one row group: each as canonical JSON, and their columns.

        For tables without dialogues, that add no single rows; a group has
        `group_rows` rows, the last one fewer.
        """
        self._content.update("".join([hashlib.sha256(row).hexdigest() for row in written]).encode())
        self.rows += len(group)
        self._file.write_batch(group)

    def close(self, root: Path) -> FileEntry:
        """Finish the file, and return its entry in the manifest."""
        self._flush()
        self._file.close()
        return entry(root, self.path, rows=self.rows, content_sha256=self._content.hexdigest())

    def _flush(self) -> None:
        if not self._waiting:
            return
        columns = []
        by_name = dict(
            zip(self._order, zip(*map(dict.values, self._waiting), strict=True), strict=True)
        )
        for name, kind in zip(self.schema.names, self.schema.types, strict=True):
            if name in self._dialogues:
                column, plain_bytes = self._messages.column(name)
            else:
                column = pa.array(by_name[name], kind)
                plain_bytes = column.nbytes
            columns.append(column)
            self.memory_bytes += plain_bytes
        self._file.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._handed))
        self._waiting = []
        self._messages = _Messages()


class _Messages:
    """The messages of a row group.  A turn of a dialogue stands in the rows of all later ones, as
    one object: it is written as JSON once, and numbered once.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        """By identity, for the rows that hold the messages are kept until their
        group is written.
        """
        self._json: list[msgspec.Raw] = []
        self._role_of = array("i")
        self._content_of = array("i")
        self._roles: dict[str, int] = {}
        self._contents: dict[str, int] = {}
        self._shown: defaultdict[str, array[int]] = defaultdict(lambda: array("i"))
        """Column → numbers of the messages of its rows."""
        self._ends: defaultdict[str, array[int]] = defaultdict(lambda: array("i", [0]))
        """Column → index in `_shown` behind each row's messages."""

    def written(self, column: str, dialogue: list[dict[str, str]]) -> list[msgspec.Raw]:
        """The messages of the next row of a column, each as JSON."""
        found = list(map(self._numbers.get, map(id, dialogue)))
        if None in found:
            known = zip(found, dialogue, strict=True)
            numbers = [
                self._number(message) if number is None else number for number, message in known
            ]
        else:
            numbers = found  # type: ignore[assignment]  # no None is in it
        shown = self._shown[column]
        shown.extend(numbers)
        self._ends[column].append(len(shown))
        return list(map(self._json.__getitem__, numbers))

    def _number(self, message: dict[str, str]) -> int:
        number = self._numbers.setdefault(id(message), len(self._json))
        if number == len(self._json):
            self._json.append(msgspec.Raw(canonical(message)))
            self._role_of.append(self._roles.setdefault(message["role"], len(self._roles)))
            self._content_of.append(
                self._contents.setdefault(message["content"], len(self._contents))
            )
        return number

    def column(self, name: str) -> tuple[pa.Array, int]:
        """The rows of a column; and its bytes if every text stood where it is shown."""
        offsets, shown = self._ends[name], self._shown[name]
        parts, plain_bytes = [], 4 * len(offsets)
        for texts, each in ((self._roles, self._role_of), (self._contents, self._content_of)):
            distinct, places = pa.array(texts, pa.string()), _integers(each).take(_integers(shown))
            parts.append(pa.DictionaryArray.from_arrays(places, distinct))
            plain_bytes += (pc.sum(pc.binary_length(distinct).take(places)).as_py() or 0) + 4 * (
                len(shown) + 1
            )
        struct = pa.StructArray.from_arrays(
            parts, fields=list(_NUMBERED_MESSAGES.value_type.fields)
        )
        return (
            pa.ListArray.from_arrays(_integers(offsets), struct, type=_NUMBERED_MESSAGES),
            plain_bytes,
        )


def _integers(numbers: array[int]) -> pa.Array:
    """The numbers in Arrow, not copied: 32 bits each."""
    return pa.Array.from_buffers(pa.int32(), len(numbers), [None, pa.py_buffer(numbers)])


class JsonLines:
    """One file of JSON lines, each in canonical form."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        path.parent.mkdir(exist_ok=True)
        self.path = path
        self.schema = schema
        self.rows = 0
        self.memory_bytes = 0
        self._names = set(schema.names)
        self._file = path.open("wb")
        self._content = hashlib.sha256()

    def add(self, row: dict[str, Any]) -> str:
        """Write a row; its content hash."""
        if row.keys() != self._names:
            raise ValueError(
                f"{self.path.name}: expected keys {self.schema.names}, got {list(row)}"
            )
        line = canonical(row)
        row_sha256 = hashlib.sha256(line).hexdigest()
        self._content.update(row_sha256.encode())
        self._file.write(line + b"\n")
        self.rows += 1
        self.memory_bytes += len(line)
        return row_sha256

    def close(self, root: Path) -> FileEntry:
        """Finish the file, and return its entry in the manifest."""
        self._file.close()
        return entry(root, self.path, rows=self.rows, content_sha256=self._content.hexdigest())


def _handed(kind: pa.DataType) -> pa.DataType:
    return _NUMBERED_MESSAGES if kind.equals(MESSAGES) else kind


def write_columns(path: Path, batches: Sequence[pa.Table], schema: pa.Schema) -> None:
    """Columns that are no training data: compressed, in larger groups, without row hashes."""
    with pq.ParquetWriter(path, schema, compression=COMPRESSION, write_page_index=True) as file:
        for table in batches:
            file.write_table(table, row_group_size=50_000)


def entry(
    root: Path, path: Path, *, rows: int | None = None, content_sha256: str | None = None
) -> FileEntry:
    """The manifest's line on a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileEntry(
        path=path.relative_to(root).as_posix(),
        bytes=path.stat().st_size,
        sha256=digest,
        rows=rows,
        content_sha256=content_sha256,
    )


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """Every row of a file of a dataset, a row group's worth in memory at a time.

    Raises one of UNREADABLE where the file is damaged."""
    if path.suffix == ".jsonl":
        with path.open("rb") as lines:
            yield from map(json.loads, lines)
        return
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=ROW_GROUP_ROWS):
            yield from batch.to_pylist()


def row_indexes(root: Path, split: str) -> list[int]:
    """The lineage's `index` of each row of a split, in their order.  Rows that were planned and
    could not be shown leave gaps, so that the index of a row is not its place.
    """
    found: list[int] = []
    wanted = (pc.field("split") == split) & (pc.field("role") == "answer")
    for path in sorted(root.glob(f"{LINEAGE_STEM}-*.parquet")):
        found += pq.read_table(path, columns=["index"], filters=wanted).column(0).to_pylist()
    return found
