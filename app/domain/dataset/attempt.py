"""EXPORT: attempts: the evaluated turns that selection decides about, and units of several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from app.domain import reward
from app.domain.verdict import Label, is_credited

Cell = tuple[str, str, str, str]
"""Device class, backend, protocol, baseline: figures of two cells are not comparable."""


class Attempt(NamedTuple):
    """Fields of an evaluated turn that selection reads.  A tuple, because there are millions."""

    place: int
    """Place of the attempt's other columns; unique in its chunk."""
    evaluation_id: str
    problem_id: str
    trajectory_id: str | None
    turn: int | None
    stage: int
    """Index of the first database stage that dropped it; a large number if none did."""
    teachable: bool
    """Its answer passes extraction and length."""
    believed: bool
    """Measured without a fault of the service's, and judged by the current detectors."""
    correct: bool
    """Every verified call was right."""
    label: str | None
    speedup: float | None
    """Credited: None for hacks, as the next two."""
    ci_low: float | None
    ci_high: float | None
    candidate_us: float | None
    coverage_time: float | None
    source_bytes: int
    source_sha256: str
    backend: str
    device_class: str
    protocol: str
    baseline: str
    prompt: str | None
    """Hash of everything before its answer: attempts with the same answer the same
    history.  None where not read.
    """
    status: str
    """Status of its evaluation; `no_code` of an answer without one."""
    compiled: bool
    coverage_count: float | None
    last_turn: int | None = None
    """Number of the last turn of its trajectory, evaluated or not.  None where not read."""
    line: str | None = None
    """Key of the collection's sample that it belongs to: its turns may stand in several
    trajectories (app.store.trajectory.attempt_lines).  None for others, and where not read.
    """
    step: int | None = None
    """Position in the sample, from 0."""
    last_step: int | None = None
    """Position of the sample's last turn, evaluated or not."""

    @property
    def succeeded(self) -> bool:
        """Right, and no hack."""
        return is_credited(correct=self.correct, label=self.label)

    @property
    def cell(self) -> Cell:
        """The attempts that this one may be compared with have the same."""
        return (self.device_class, self.backend, self.protocol, self.baseline)


def measures(attempt: Attempt) -> reward.Measures:
    """Inputs of the rewards."""
    return reward.Measures(
        completed=reward.completed(attempt.status),
        compiled=attempt.compiled,
        correct=attempt.correct,
        hacked=attempt.label == Label.HACK,
        speedup=attempt.speedup,
        coverage_time=attempt.coverage_time,
        coverage_count=attempt.coverage_count,
    )


def trajectories(attempts: Sequence[Attempt]) -> list[list[Attempt]]:
    """Attempts that stand beside each other in one trajectory; one that came alone
    is a trajectory of its own.
    """
    found: list[list[Attempt]] = []
    current: str | None = None
    for attempt in attempts:
        if attempt.trajectory_id is not None and attempt.trajectory_id == current:
            found[-1].append(attempt)
        else:
            found.append([attempt])
        current = attempt.trajectory_id
    return found


def lines(attempts: Sequence[Attempt]) -> list[list[Attempt]]:
    """Attempts of one problem by the unit that returns go by: a sample of a collection, whatever
    its prompts show, else a trajectory; each in the order of its turns.
    """
    found: dict[str | int, list[Attempt]] = {}
    for one in attempts:
        found.setdefault(one.line or one.trajectory_id or one.place, []).append(one)
    return [sorted(each, key=lambda one: (one.step or 0, one.place)) for each in found.values()]


class InCell(Protocol):
    """An attempt, or a row made of one."""

    @property
    def cell(self) -> Cell:
        """The attempts that it may be compared with have the same."""


C = TypeVar("C", bound=InCell)


def cells(members: Iterable[C]) -> dict[Cell, list[C]]:
    """Attempts or rows in groups that may be compared with each other."""
    found: dict[Cell, list[C]] = {}
    for one in members:
        found.setdefault(one.cell, []).append(one)
    return dict(sorted(found.items()))
