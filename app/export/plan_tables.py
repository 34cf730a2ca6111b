"""EXPORT: columns of a plan and of its decisions, and their conversion from and to attempts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, repeat
from typing import NamedTuple

import pyarrow as pa

from app.domain.dataset.attempt import Attempt, Cell
from app.domain.dataset.example_facts import Extra
from app.domain.dataset.selection import Learns
from app.domain.source.near_duplicates import Member
from app.store.dataset import export_attempts

DECISIONS = pa.schema(
    [
        ("evaluation_id", pa.string()),
        ("turn_id", pa.string()),
        ("problem_id", pa.string()),
        ("stage", pa.string()),
        ("detail", pa.string()),
    ]
)
"""One line per attempt: the stage that dropped it, or `in`, and details."""

_TAKEN = ("evaluation_id", "turn_id", "verdict_id", "device_class", "backend", "protocol")
BESIDE = pa.list_(pa.struct([(name, pa.string()) for name in ("role", *_TAKEN)]))
"""Further attempts that a row rests on, for its lineage.  Roles: `trained`, an earlier answer that
bears loss; `context`, one that is only shown; `attempt`, counted in the pass rate of a prompt;
`return`, a later turn of the return.
"""
_CREDIT = pa.struct(
    [
        ("group", pa.string()),
        *((name, pa.list_(pa.float64())) for name in ("rewards", "scores", "advantages")),
        ("left_out", pa.list_(pa.string())),
    ]
)
EXTRA = [
    ("why", pa.string()),
    ("label", pa.bool_()),
    ("train", pa.list_(pa.int32())),
    ("pass_rate", pa.float64()),
    ("attempts", pa.int32()),
    ("rewards", pa.list_(pa.float64())),
    ("returns", pa.list_(pa.float64())),
    ("credit", _CREDIT),
]
"""Columns of `Extra`."""

_WORKING = (
    "stage",
    "teachable",
    "believed",
    "compiled",
    "signature",
    "prompt",
    "normalised",
    "renamed",
    "source_bytes",
    "last_turn",
    "line",
    "step",
    "last_step",
)

FACTS = [one for one in export_attempts.SCHEMA if one.name not in _WORKING]

PLAN = pa.schema(
    [
        *FACTS,
        *(one.with_name(f"rejected_{one.name}") for one in FACTS),
        *EXTRA,
        ("beside", BESIDE),
        ("split", pa.string()),
        ("index", pa.int64()),
    ]
)
"""Everything that rendering needs, except texts."""


Prints = tuple[str | None, str | None, str | None]
"""Hashes of the normalised and the renamed source, and the signature in hexadecimal;
None without a fingerprint.
"""


class Pick(NamedTuple):
    """One row of the dataset."""

    attempt: Attempt
    rejected: Attempt | None = None
    extra: Extra = Extra()
    beside: tuple[tuple[str, Attempt], ...] = ()
    """Other attempts that the row rests on: the role (see BESIDE), and the attempt."""

    @property
    def cell(self) -> Cell:
        """That of its answer."""
        return self.attempt.cell


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Decisions on some problems."""

    plan: pa.Table
    decisions: pa.Table


def attempts_of(table: pa.Table) -> list[Attempt]:
    """Rows of `app.store.dataset.export_attempts` as attempts; `place` is the row number."""
    names = [
        "evaluation_id",
        "problem_id",
        "trajectory_id",
        "turn",
        "stage",
        "teachable",
        "believed",
        "correct",
        "verdict",
        "speedup",
        "speedup_ci_low",
        "speedup_ci_high",
        "candidate_us",
        "coverage_time",
        "source_bytes",
        "source_sha256",
        "backend",
        "device_class",
        "protocol",
        "baseline",
        "prompt",
        "status",
        "compiled",
        "coverage_count",
        "last_turn",
        "line",
        "step",
        "last_step",
    ]
    columns = {name: table.column(name) for name in names}
    columns["source_sha256"] = columns["source_sha256"].fill_null(
        ""
    )  # an answer without code has none
    values = zip(
        range(len(table)), *(column.to_pylist() for column in columns.values()), strict=True
    )
    return list(
        map(partial(tuple.__new__, Attempt), values)
    )  # a third of the time of calling the class


TRAINED, CONTEXT = "trained", "context"


def with_history(
    picks: Iterable[Pick], dialogues: Sequence[Sequence[Attempt]], learns: Learns
) -> list[Pick]:
    """The rows with the earlier turns that they show; the turns of a dialogue stand
    beside each other in a chunk.
    """
    starts = [turns[0].place for turns in dialogues]
    found = []
    for pick in picks:
        number = bisect_right(starts, pick.attempt.place) - 1
        before = dialogues[number][: pick.attempt.place - starts[number]]
        learnt = pick.extra.train or ()
        if learns is Learns.EVERY:
            roles: Iterable[str] = repeat(TRAINED)
        elif learnt:
            roles = (TRAINED if one.turn in learnt else CONTEXT for one in before)
        else:
            roles = repeat(CONTEXT)
        found.append(
            pick._replace(beside=(*pick.beside, *zip(roles, before, strict=False)))
            if before
            else pick
        )
    return found


def beside_column(table: pa.Table, picks: Sequence[Pick]) -> pa.Array:
    """Further attempts of each row, as BESIDE; their ids are copied within Arrow."""
    beside = [pick.beside for pick in picks]
    offsets = list(accumulate(map(len, beside), initial=0))
    roles = [role for each in beside for role, _ in each]
    places = [one.place for each in beside for _, one in each]
    taken = table.select(list(_TAKEN)).take(pa.array(places, pa.int64()))
    columns = [pa.array(roles, pa.string()), *(column.combine_chunks() for column in taken.columns)]
    struct = pa.StructArray.from_arrays(columns, fields=list(BESIDE.value_type.fields))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), struct, type=BESIDE)


def member(attempt: Attempt, prints: list[Prints], *, in_dialogue: bool) -> Member:
    """The attempt with its fingerprints, for the near-duplicate search."""
    normalised, renamed, signature = prints[attempt.place]
    own = attempt.source_sha256
    return Member(
        attempt.evaluation_id,
        attempt.problem_id,
        own,
        normalised or own,
        renamed or own,
        bytes.fromhex(signature) if signature else b"",
        attempt.trajectory_id if in_dialogue else None,
    )
