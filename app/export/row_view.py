"""EXPORT: rows of a dataset's file as a table: a page of those that meet conditions,
and statistics of columns.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.export.writers import LINEAGE_STEM, row_indexes

SCANNED = 20_000
"""Rows that a search and the statistics read; the answer says where there are more."""
BATCH_ROWS = 500
"""Rows read at once."""
CELL_CHARACTERS, CELL_DIGITS = 300, 5
"""Characters and significant digits of a cell; the row as JSON has all."""
BARS = 12
"""Bars of the distribution of a column."""
VALUES = 6
"""Most frequent values that a column's statistics list."""
VALUE_CHARACTERS = 60
"""Longer texts are no values to choose from."""
FEW_NUMBERS = 30
"""Different numbers up to which they are values to choose from."""
MESSAGE_KEYS = (("role", "content"), ("from", "value"))
"""Keys of a message's author and text, by format of the dataset."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The page of rows that is asked for."""

    search: str = ""
    """Text that a row contains in any column."""
    column: str = ""
    value: str = ""
    """With `column`: only rows with this value, as `value_text` writes it."""
    sort: str = ""
    """Name of a column, after `-` for descending; rows without a value come last.
    Empty: as they are stored.
    """
    offset: int = 0
    limit: int = 25
    number: int | None = None
    """Only the row of this number, whole."""


def view(file: Path, asked: Asked, *, first: int = 0) -> dict[str, Any]:
    """The rows that are asked for with their evaluations, and statistics over the rows that were
    read.  `first`: place of the file's first row in its split.

    Raises ValueError for a file that is no table and for a column that it does not
    have, FileNotFoundError for none.
    """
    read = list(itertools.islice(_rows(file), SCANNED))
    names = list(dict.fromkeys(name for row in read[:BATCH_ROWS] for name in row))
    for name in (asked.column, asked.sort.removeprefix("-")):
        if name and read and name not in names:
            raise ValueError(f"column: expected one of {', '.join(names)}, got {name!r}")
    found = _ordered([pair for pair in enumerate(read) if _meets(pair[1], asked)], asked.sort)
    shown = found[asked.offset : asked.offset + asked.limit]
    if asked.number is not None:
        shown = [pair for pair in found if pair[0] == asked.number]
    origins = _origins(file, [first + number for number, _ in shown])
    return {
        "names": names,
        "columns": [_statistics(name, [row.get(name) for row in read]) for name in names],
        "rows": [
            {
                "number": number,
                "cells": {name: _cell(row.get(name)) for name in names},
                "whole": None if asked.number is None else _whole(row),
                "origins": origins.get(first + number, []),
            }
            for number, row in shown
        ],
        "matches": len(found),
        "scanned": len(read),
        "all": len(read) < SCANNED,
    }


def messages_of(value: object) -> list[tuple[str, str]] | None:
    """Author and text of each message, where the value is a dialogue or a single
    message; else None.
    """
    listed = [value] if isinstance(value, Mapping) else value
    if not isinstance(listed, list) or not listed:
        return None
    for role, text in MESSAGE_KEYS:
        if all(isinstance(each, Mapping) and {role, text} <= each.keys() for each in listed):
            return [(str(each[role]), str(each[text] or "")) for each in listed]
    return None


def value_text(value: object) -> str:
    """A scalar as a filter and the list of frequent values write it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _meets(row: Mapping[str, Any], asked: Asked) -> bool:
    if asked.column and value_text(row.get(asked.column)) != asked.value:
        return False
    wanted = asked.search.casefold()
    return not wanted or wanted in json.dumps(row, ensure_ascii=False, default=str).casefold()


def _ordered(
    found: list[tuple[int, dict[str, Any]]], sort: str
) -> list[tuple[int, dict[str, Any]]]:
    """The rows in an order; numbers by value, everything else by its text."""
    if not sort:
        return found
    name = sort.removeprefix("-")
    present = [pair for pair in found if pair[1].get(name) is not None]
    absent = [pair for pair in found if pair[1].get(name) is None]
    is_number = all(isinstance(row[name], (int, float)) for _, row in present)
    present.sort(
        key=lambda pair: pair[1][name] if is_number else value_text(pair[1][name]),
        reverse=sort[0] == "-",
    )
    return present + absent


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    if file.suffix == ".parquet":
        for batch in pq.ParquetFile(file).iter_batches(BATCH_ROWS):
            yield from batch.to_pylist()
    elif file.suffix == ".jsonl":
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                value = json.loads(line)
                yield value if isinstance(value, dict) else {"value": value}
    else:
        raise ValueError(f"file: expected .parquet or .jsonl, got {file.name!r}")


def _origins(file: Path, places: Sequence[int]) -> dict[int, list[dict[str, str]]]:
    """Place of a row in its split → evaluations and turns behind it, by the dataset's
    lineage files; an answer without code has no evaluation.
    """
    split, root = file.stem.partition("-")[0], file.parent.parent
    if file.parent.name != "data" or not places:
        return {}
    known = row_indexes(root, split)
    place_of = {known[place]: place for place in places}
    found: dict[int, list[dict[str, str]]] = {}
    for path in sorted(root.glob(f"{LINEAGE_STEM}-*.parquet")):
        names = ["index", "role", "evaluation_id", "turn_id"]
        wanted = (pc.field("split") == split) & pc.field("index").isin(list(place_of))
        wanted &= pc.field("evaluation_id").is_valid()
        for line in pq.read_table(path, columns=names, filters=wanted).to_pylist():
            found.setdefault(place_of[line.pop("index")], []).append(line)
    return found


def _cell(value: object) -> str:
    """The beginning of a value; of a dialogue its last message."""
    messages = messages_of(value)
    if messages:
        before = f"({len(messages) - 1} before) " if len(messages) > 1 else ""
        text = f"{before}{messages[-1][0]}: {messages[-1][1]}"
    elif isinstance(value, float):
        text = f"{value:.{CELL_DIGITS}g}"
    else:
        text = value_text(value)
    return text if len(text) <= CELL_CHARACTERS else f"{text[:CELL_CHARACTERS]}…"


def _whole(row: Mapping[str, Any]) -> dict[str, Any]:
    """Every column: dialogues as messages, other values as text."""
    messages = {name: messages_of(value) for name, value in row.items()}
    return {
        "messages": {name: found for name, found in messages.items() if found},
        "values": {name: value_text(value) for name, value in row.items() if not messages[name]},
    }


def _statistics(name: str, values: Sequence[Any]) -> dict[str, Any]:
    """Kind, missing values, distinct values, distribution of numbers or of lengths,
    and the most frequent values.
    """
    present = [value for value in values if value is not None]
    numbers = [
        float(value)
        for value in present
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    is_number = bool(numbers) and len(numbers) == len(present)
    sizes = (
        numbers
        if is_number
        else [float(len(value)) for value in present if isinstance(value, (str, list, dict))]
    )
    counted = Counter(value_text(value) for value in present)
    frequent = [
        (text, number)
        for text, number in counted.most_common(VALUES)
        if len(text) <= VALUE_CHARACTERS and number > 1
    ]
    return {
        "name": name,
        "kind": (
            "messages"
            if present and messages_of(present[0])
            else _kind(present, is_number=is_number)
        ),
        "missing": len(values) - len(present),
        "distinct": len(counted),
        "of": "value" if is_number else "length",
        "low": min(sizes, default=None),
        "mean": fmean(sizes) if sizes else None,
        "high": max(sizes, default=None),
        "bars": _bars(sizes),
        "values": frequent if not is_number or len(counted) <= FEW_NUMBERS else [],
    }


def _kind(present: Sequence[Any], *, is_number: bool) -> str:
    return "number" if is_number else type(present[0]).__name__ if present else "empty"


def _bars(sizes: Sequence[float]) -> list[int]:
    """Values in each of BARS equal parts of their range; none where all are the same."""
    low, high = min(sizes, default=0.0), max(sizes, default=0.0)
    if not low < high:
        return []
    counted = Counter(min(BARS - 1, int(BARS * (size - low) / (high - low))) for size in sizes)
    return [counted[place] for place in range(BARS)]
