"""EXPORT: attempts in chunks of whole problems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

CHUNK_ROWS = 2_000
"""Attempts in memory at a time, more if one problem has more: 10 kB each."""


def chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Whole problems together, about CHUNK_ROWS at a time."""
    waiting: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        if held >= CHUNK_ROWS:
            cut = _end_of_problem(batch, waiting[-1].column("problem_id")[-1].as_py())
            waiting.append(batch.slice(0, cut))
            if cut < len(batch):
                yield pa.Table.from_batches(waiting)
                waiting, held = [batch.slice(cut)], 0
        else:
            waiting.append(batch)
        held = sum(map(len, waiting))
        if held >= CHUNK_ROWS:
            cut = _start_of_last_problem(waiting[-1])
            if cut:
                yield pa.Table.from_batches([*waiting[:-1], waiting[-1].slice(0, cut)])
                waiting = [waiting[-1].slice(cut)]
                held = len(waiting[0])
    if waiting:
        yield pa.Table.from_batches(waiting)


def _end_of_problem(batch: pa.RecordBatch, problem_id: str) -> int:
    """Number of the first rows that belong to that problem."""
    return next(
        (n for n, one in enumerate(batch.column("problem_id").to_pylist()) if one != problem_id),
        len(batch),
    )


def _start_of_last_problem(batch: pa.RecordBatch) -> int:
    """Index of the first row of the last problem; 0 if there is only one."""
    column = batch.column("problem_id").to_pylist()
    last = column[-1]
    return next(n for n, one in enumerate(column) if one == last)
