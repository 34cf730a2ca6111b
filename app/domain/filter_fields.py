"""EXPORT, BROWSE: fields of the filter language, their types and operators."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias
from uuid import UUID

from app.domain.backend import BACKENDS
from app.domain.evaluation import Status
from app.domain.verdict import Label


class FieldType(StrEnum):
    """Types of fields."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    CHOICE = "choice"
    """Text with a known list of values."""
    TIME = "time"
    """ISO 8601; UTC where no offset is given."""
    ID = "id"
    """A UUID."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """One name that a filter may use."""

    kind: FieldType
    doc: str
    choices: tuple[str, ...] = ()


FIELDS: dict[str, Field] = {
    "correct": Field(
        kind=FieldType.BOOLEAN,
        doc="every verified call was right, and no hack; `status = passed` finds hacks, too",
    ),
    "compiled": Field(kind=FieldType.BOOLEAN, doc="the candidate loaded"),
    "valid": Field(kind=FieldType.BOOLEAN, doc="the evaluation says something about the candidate"),
    "status": Field(
        kind=FieldType.CHOICE,
        doc="outcome of the evaluation: passed, incorrect, compile_error …",
        choices=tuple(Status),
    ),
    "verdict": Field(
        kind=FieldType.CHOICE,
        doc="label of the verdict: a reviewer's if there is one, else the detectors'",
        choices=tuple(Label),
    ),
    "reviewed": Field(
        kind=FieldType.BOOLEAN, doc="a reviewer's verdict counts, not the detectors'"
    ),
    "finding": Field(
        kind=FieldType.TEXT,
        doc="name of a detector that found something, under the current verdict",
    ),
    "speedup": Field(kind=FieldType.NUMBER, doc="credited speedup: absent for hacks"),
    "speedup_ci_low": Field(
        kind=FieldType.NUMBER, doc="lower end of its 95 % interval: absent for hacks"
    ),
    "speedup_ci_high": Field(
        kind=FieldType.NUMBER, doc="upper end of its 95 % interval: absent for hacks"
    ),
    "measured_speedup": Field(
        kind=FieldType.NUMBER, doc="speedup as measured, independent of the verdict"
    ),
    "device_speedup": Field(
        kind=FieldType.NUMBER,
        doc="speedup by the device's own time: absent where it was not measured",
    ),
    "reference_us": Field(kind=FieldType.NUMBER, doc="time per call of the reference, µs"),
    "candidate_us": Field(kind=FieldType.NUMBER, doc="time per call of the candidate, µs"),
    "coverage_time": Field(
        kind=FieldType.NUMBER, doc="share of kernel time in kernels that the candidate brought"
    ),
    "coverage_count": Field(
        kind=FieldType.NUMBER, doc="share of launches of kernels that the candidate brought"
    ),
    "backend": Field(
        kind=FieldType.CHOICE, doc="backend of the candidate", choices=tuple(BACKENDS)
    ),
    "gpu": Field(kind=FieldType.TEXT, doc="device class: cpu, h200 …"),
    "device": Field(
        kind=FieldType.TEXT, doc="model name of the device, as its driver gives it: NVIDIA H200"
    ),
    "baseline": Field(
        kind=FieldType.TEXT,
        doc="execution mode of the reference that speedups are over: eager, compile …",
    ),
    "problem": Field(kind=FieldType.TEXT, doc="name of the problem"),
    "level": Field(kind=FieldType.INTEGER, doc="the source set's level of difficulty"),
    "source_set": Field(kind=FieldType.TEXT, doc="origin of the problem, for example kernelbench"),
    "run": Field(kind=FieldType.TEXT, doc="name of the run"),
    "model": Field(kind=FieldType.TEXT, doc="name of the model that wrote the candidate"),
    "turn": Field(kind=FieldType.INTEGER, doc="position in its trajectory, from 0"),
    "created_at": Field(kind=FieldType.TIME, doc="time when the evaluation was stored"),
    "problem_id": Field(kind=FieldType.ID, doc="id of the problem"),
    "trajectory_id": Field(kind=FieldType.ID, doc="id of the trajectory"),
    "job_id": Field(kind=FieldType.ID, doc="id of the job"),
    "evaluation_id": Field(kind=FieldType.ID, doc="id of the evaluation"),
}

ON_DEVICE = ("gpu", "device", "baseline")
"""Fields of an evaluation's device and baseline, which an answer without code has not."""

ON_OUTCOME = frozenset({"correct", "status"})
"""Fields that say whether an answer is right: a filter that names one decides itself
whether wrong answers are kept.
"""

ON_VERDICT = frozenset(
    {
        "correct",
        "verdict",
        "finding",
        "speedup",
        "speedup_ci_low",
        "speedup_ci_high",
        "device_speedup",
    }
)
"""Fields with values that another verdict may change."""

Value: TypeAlias = bool | int | float | str | datetime | UUID | None

_ORDERED = ("=", "!=", "<", "<=", ">", ">=", "in")

OPERATORS: dict[FieldType, tuple[str, ...]] = {
    FieldType.BOOLEAN: ("=", "!="),
    FieldType.INTEGER: _ORDERED,
    FieldType.NUMBER: _ORDERED,
    FieldType.TEXT: ("=", "!=", "~", "in"),
    FieldType.CHOICE: ("=", "!=", "in"),
    FieldType.TIME: _ORDERED,
    FieldType.ID: ("=", "!=", "in"),
}
