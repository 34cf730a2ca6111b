"""EXPORT: interface of formats, and columns that several share."""

from __future__ import annotations

import json
from operator import attrgetter
from typing import Any, Protocol, get_type_hints

import pyarrow as pa

from app.domain.dataset.example import Example
from app.domain.dataset.example_facts import INTERNAL, EvaluationFacts
from app.domain.dataset.selection import Kind, Learns

MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string())])
MESSAGES = pa.list_(MESSAGE)

PARQUET = "parquet"
JSONL = "jsonl"


class Format(Protocol):
    """Interface of an export format."""

    @property
    def about(self) -> str:
        """One line for people: the trainer and the class that reads it."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of its rows, the default first."""

    @property
    def container(self) -> str:
        """`parquet`, or `jsonl`: one JSON object a line."""

    @property
    def schema(self) -> pa.Schema:
        """Columns.  Fixed structs: a free-form value is a JSON string.  For JSON
        lines, the equivalent schema.
        """

    @property
    def learns(self) -> Learns:
        """Answers of a row that its trainer puts loss on."""

    @property
    def usage(self) -> str:
        """A sentence for the card: the trainer's settings that put loss where `learns` says."""

    @property
    def splits(self) -> bool:
        """True if problems are held out; False for a report, which is no training set."""

    @property
    def wants_source(self) -> bool:
        """True if rows show the source beside the conversation: `Example.source` is
        read for these only.
        """

    def render(self, example: Example) -> dict[str, Any]:
        """The row: a value for every column, of types that JSON has, no NaN."""

    def documents(self, files: dict[str, str]) -> dict[str, Any]:
        """JSON documents that its trainer wants beside the rows, by name; `files`:
        split → path of its rows.
        """


class Rows:
    """Base of most formats."""

    about = ""
    kinds: tuple[Kind, ...] = ()
    container = PARQUET
    learns = Learns.ANSWER
    usage = ""
    splits = True
    wants_source = False

    def documents(self, files: dict[str, str]) -> dict[str, Any]:  # noqa: ARG002 (most have none)
        """None."""
        return {}


MARKED = pa.list_(
    pa.struct([("role", pa.string()), ("content", pa.string()), ("train", pa.bool_())])
)


def marked(example: Example) -> list[dict[str, Any]]:
    """The dialogue as MARKED: `train` on the answers that the selection keeps, on no
    other message.
    """
    return [
        message | {"train": train}
        for message, train in zip(example.messages, example.trained, strict=True)
    ]


_TYPES: dict[type, pa.DataType] = {
    str: pa.string(),
    bool: pa.bool_(),
    int: pa.int32(),
    float: pa.float64(),
}
"""Column types by the annotation of a fact, which may be absent (`| None`)."""


def column_type(name: str, annotation: object) -> pa.DataType:
    """Type of a fact's column.  Raises TypeError for an annotation that no column has."""
    for known, column in _TYPES.items():
        if annotation in (known, known | None):
            return column
    expected = ", ".join(kind.__name__ for kind in _TYPES)
    raise TypeError(f"fact {name!r}: expected one of {expected}, or one `| None`, got {annotation}")


_OF_FACTS = tuple(name for name in EvaluationFacts._fields if name not in INTERNAL)
_HINTS = get_type_hints(EvaluationFacts)

PROVENANCE = (
    ("prompt_source", pa.string()),
    ("sanitized", pa.bool_()),
    *((name, column_type(name, _HINTS[name])) for name in _OF_FACTS),
)
"""Columns that say where a row comes from; trainers that do not know them ignore them."""


def reward_label(example: Example) -> str:
    """JSON that a reward function gets word for word: the problem, its backend, and the prompt as
    it was before a chat template.
    """
    facts = example.facts
    label = {
        "problem_id": facts.problem_id,
        "entry_point": facts.entry_point,
        "backend": facts.backend,
        "reference_code": example.reference,
        "prompt": list(example.prompt),
    }
    return json.dumps(label, sort_keys=True)


_facts = attrgetter(*_OF_FACTS)


def provenance(example: Example) -> dict[str, Any]:
    """Values of PROVENANCE."""
    found: dict[str, Any] = dict(zip(_OF_FACTS, _facts(example.facts), strict=True))
    found["prompt_source"] = example.prompt_source
    found["sanitized"] = example.sanitized
    return found
