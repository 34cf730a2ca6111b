"""EXPORT: a trainer's log probabilities from a file of JSON lines."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from app.domain.credit import CreditError
from app.store.collection.logprobs import Sampled

MOST = 1e-4
"""Largest plausible log probability; rounding may lift one above 0."""

FORMS = (
    '{"model_call_id", "logprobs"}, {"turn_id", "logprobs"}, {"trajectory_id", "turn", "logprobs"},'
    ' or rows of `assay collect tokens` with "train_logprobs", one per token of "ids"'
)
"""Accepted forms of lines, for messages."""

Key = tuple[str, ...]


def read(file: Path) -> dict[Key, list[float]]:
    """Log probabilities by call, turn, or trajectory and turn.  Raises CreditError
    with the line.
    """
    return dict(entries(file))


def entries(file: Path) -> Iterator[tuple[Key, list[float]]]:
    """Log probabilities one by one: those of many turns are gigabytes.  Raises
    CreditError with the line.
    """
    known: set[Key] = set()
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                found = list(_entries(json.loads(line)))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise CreditError(f"{file}:{number}: expected {FORMS}, got {error}") from error
            for key, values in found:
                if key in known:
                    raise CreditError(
                        f"{file}:{number}: expected each call once, got {'/'.join(key)} again"
                    )
                known.add(key)
                yield key, values


def of(found: Mapping[Key, list[float]], call: Sampled) -> list[float] | None:
    """Log probabilities of a stored call; None if the file has none.  Raises
    CreditError for another number of tokens.
    """
    keys = (
        ("call", call.model_call_id),
        ("turn", call.turn_id),
        ("trajectory", call.trajectory_id, str(call.turn)),
    )
    values = next((found[key] for key in keys if key in found), None)
    expected = len(call.logprobs or ())
    if values is not None and len(values) != expected:
        raise CreditError(
            f"call {call.model_call_id}: expected {expected} log probabilities of the trainer, got"
            f" {len(values)}"
        )
    return values


def _entries(row: dict[str, Any]) -> Iterator[tuple[Key, list[float]]]:
    if "train_logprobs" in row:
        yield from _of_token_row(row)
        return
    values = _checked(row["logprobs"])
    if "model_call_id" in row:
        yield ("call", str(row["model_call_id"])), values
    elif "turn_id" in row:
        yield ("turn", str(row["turn_id"])), values
    else:
        yield ("trajectory", str(row["trajectory_id"]), str(int(row["turn"]))), values


def _of_token_row(row: dict[str, Any]) -> Iterator[tuple[Key, list[float]]]:
    values, mask, begin = row["train_logprobs"], row["mask"], 0
    if len(values) != len(mask):
        raise ValueError(f"{len(values)} train_logprobs for {len(mask)} tokens")
    for call, end in zip(row["model_call_ids"], row["turn_ends"], strict=True):
        sampled = [
            value
            for value, one in zip(values[begin : end + 1], mask[begin : end + 1], strict=True)
            if one
        ]
        yield ("call", str(call)), _checked(sampled)
        begin = end + 1


def _checked(values: Any) -> list[float]:
    if not isinstance(values, list) or not all(type(one) in (int, float) for one in values):
        raise ValueError("log probabilities that are no list of numbers")
    bad = next((one for one in values if not math.isfinite(one) or one > MOST), None)
    if bad is not None:
        raise ValueError(f"a log probability of {bad}")
    return [float(one) for one in values]
