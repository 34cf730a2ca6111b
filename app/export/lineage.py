"""EXPORT: the files that tie every row to its evaluations, verdicts and model calls.

Lines are made in Arrow, from the columns of the plan: a dialogue's row has a line
for each earlier turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from app.export.manifest import FileEntry
from app.export.plan_tables import BESIDE
from app.export.writers import LINEAGE_STEM, ParquetTable
from app.store.collection import calls
from app.store.postgres.database import Connection

SCHEMA = pa.schema(
    [
        ("split", pa.string()),
        ("index", pa.int64()),
        ("role", pa.string()),
        ("evaluation_id", pa.string()),
        ("turn_id", pa.string()),
        ("verdict_id", pa.string()),
        ("problem_id", pa.string()),
        ("device_class", pa.string()),
        ("backend", pa.string()),
        ("protocol", pa.string()),
        ("model_call_id", pa.string()),
        ("row_sha256", pa.string()),
    ]
)
"""Columns, including facts that the format leaves out.  The lines of a split are in the order of
its rows; `index` is a row's number in the plan, with gaps where rows could not be shown; `role` is
`answer`, `rejected` of a pair, or one of `app.export.plan_tables.BESIDE`; `model_call_id` is null
for turns that were not collected here.
"""

GROUP_LINES = 5_000
"""Lines of a row group: with 500, as for datasets, a file is twice as large and
takes three times as long.
"""

_OF_ROW = ("split", "index", "row_sha256")
_OF_ATTEMPT = ("evaluation_id", "turn_id", "verdict_id", "device_class", "backend", "protocol")
_READ = [
    *("split", "index", "problem_id", *_OF_ATTEMPT),
    *("rejected_problem_id", *(f"rejected_{name}" for name in _OF_ATTEMPT)),
    "beside",
]
"""Columns of the plan that lines are made of."""
_IDS = frozenset(
    {"evaluation_id", "turn_id", "verdict_id", "problem_id", "model_call_id", "row_sha256"}
)
"""Columns of hexadecimal digits and hyphens, which JSON writes as they are."""


class Lineage:
    """An unfinished lineage file."""

    def __init__(self, connection: Connection, root: Path, number: int) -> None:
        self._connection = connection
        self._collected = calls.any_of_turns(connection)
        self._root = root
        path = root / f"{LINEAGE_STEM}-{number:05}.parquet"
        self._table = ParquetTable(path, SCHEMA, group_rows=GROUP_LINES)
        self._waiting = SCHEMA.empty_table()

    def add(self, plan: pa.Table, row_sha256: Sequence[str | None]) -> None:
        """Add the lines of some rows of the plan; the hash is None for an attempt without a row."""
        rows = plan.select(_READ).append_column("row_sha256", pa.array(row_sha256, pa.string()))
        if None in row_sha256:
            rows = rows.filter(pc.field("row_sha256").is_valid())
        self._waiting = pa.concat_tables([self._waiting, self._called(_lines(rows))])
        whole = len(self._waiting) // GROUP_LINES * GROUP_LINES
        if whole:
            self._write(self._waiting.slice(0, whole))
            self._waiting = self._waiting.slice(whole)

    def close(self) -> FileEntry:
        """Finish the file, and return its entry in the manifest."""
        self._write(self._waiting)
        return self._table.close(self._root)

    def _write(self, lines: pa.Table) -> None:
        for start in range(0, len(lines), GROUP_LINES):
            group = lines.slice(start, GROUP_LINES).combine_chunks()
            self._table.add_group(_json(group).to_pylist(), group.to_batches()[0])

    def _called(self, lines: pa.Table) -> pa.Table:
        """The lines with the model calls of collected turns."""
        if not self._collected:
            return lines
        turn_ids = lines.column("turn_id").to_pylist()
        found = calls.of_turns(self._connection, {one for one in turn_ids if one is not None})
        named = pa.array([found.get(one or "") for one in turn_ids], pa.string())
        return lines.set_column(
            SCHEMA.get_field_index("model_call_id"), SCHEMA.field("model_call_id"), named
        )


def _lines(rows: pa.Table) -> pa.Table:
    """Lines of some rows in their order: the answer, the rejected answer, and the
    attempts beside them.
    """
    count = len(rows)
    numbers = pa.array(range(count), pa.int64())
    rejected = pc.indices_nonzero(rows.column("rejected_problem_id").is_valid()).cast(pa.int64())
    beside = rows.column("beside").combine_chunks()
    parents = pc.list_parent_indices(beside).cast(pa.int64())
    flat = beside.flatten()
    attempts = [
        pa.table([rows.column(name) for name in _OF_ATTEMPT], _OF_ATTEMPT),
        pa.table(
            [rows.column(f"rejected_{name}").take(rejected) for name in _OF_ATTEMPT], _OF_ATTEMPT
        ),
        pa.table([flat.field(_BESIDE.get_field_index(name)) for name in _OF_ATTEMPT], _OF_ATTEMPT),
    ]
    of_row = pa.concat_arrays([numbers, rejected, parents])
    order = pc.sort_indices(
        pa.table({"row": of_row, "place": pa.array(range(len(of_row)), pa.int64())}),
        sort_keys=[("row", "ascending"), ("place", "ascending")],
    )
    lines = pa.concat_tables(attempts)
    roles = pa.concat_arrays(
        [
            pa.array(["answer"] * count, pa.string()),
            pa.array(["rejected"] * len(rejected), pa.string()),
            flat.field(_BESIDE.get_field_index("role")),
        ]
    )
    problems = pa.concat_arrays(
        [
            rows.column("problem_id").combine_chunks(),
            rows.column("rejected_problem_id").combine_chunks().take(rejected),
            rows.column("problem_id").combine_chunks().take(parents),
        ]
    )
    named = {name: lines.column(name) for name in _OF_ATTEMPT}
    named |= {name: rows.column(name).combine_chunks().take(of_row) for name in _OF_ROW}
    named |= {
        "role": roles,
        "problem_id": problems,
        "model_call_id": pa.nulls(len(of_row), pa.string()),
    }
    return pa.table([named[name] for name in SCHEMA.names], SCHEMA).take(order).combine_chunks()


_BESIDE = BESIDE.value_type


def _json(lines: pa.Table) -> pa.Array:
    """Each line as `app.export.manifest.canonical` writes it."""
    parts: list[pa.Array | str] = []
    text = "{"
    for name in sorted(SCHEMA.names):
        column = lines.column(name).combine_chunks()
        text += f'"{name}":'
        if column.null_count == len(column):
            text += "null,"
        elif name in _IDS and not column.null_count:
            parts += [f'{text}"', column]
            text = '",'
        else:
            parts += [text, _value(name, column)]
            text = ","
    return pc.binary_join_element_wise(*parts, f"{text[:-1]}}}", "").cast(pa.binary())


def _value(name: str, column: pa.Array) -> pa.Array:
    if name == "index":
        return column.cast(pa.string())
    if name in _IDS:
        return pc.binary_join_element_wise('"', column, '"', "").fill_null("null")
    numbered = column.dictionary_encode()
    written = pa.array(
        [msgspec.json.encode(one).decode() for one in numbered.dictionary.to_pylist()], pa.string()
    )
    return written.take(numbered.indices).fill_null("null")
